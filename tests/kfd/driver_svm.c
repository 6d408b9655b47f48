/* SPDX-License-Identifier: MIT */
/*
 * Shared virtual memory: which pages of a process the GPU has access to. The
 * kernel's driver is told by the memory management when a mapping ends. Here
 * the library in the workload tells of munmap; what it does not see (free() of
 * a large block unmaps inside the C library) is found in /proc before a report.
 */
#include <errno.h>
#include <inttypes.h>

#include "tests/kfd/driver_state.h"
#include "tests/kfd/kfd_emu.h"
#include "userspace/common/util.h"

static int cut(struct table *t, struct process *p, uint64_t start, uint64_t end)
{
	uint64_t before = p->svm.bytes;
	int err = ranges_cut(&p->svm, start, end);

	process_account(t, p, -(int64_t)(before - p->svm.bytes));
	return err;
}

static bool is_range(uint64_t start, uint64_t bytes)
{
	return bytes && !((start | bytes) & (KFD_EMU_PAGE_BYTES - 1)) && start + bytes > start;
}

int opener_svm_allow(struct opener *o, uint64_t start, uint64_t bytes)
{
	struct process *p = o->process;
	uint64_t fresh, end = start + bytes;
	int err;

	if (!is_range(start, bytes))
		return -EINVAL;
	fresh = bytes - ranges_overlap(&p->svm, start, end);
	err = table_check_limit(o->table, bytes, fresh);
	if (!err)
		err = ranges_add(&p->svm, start, end);
	if (err)
		o->table->refused++;
	else
		process_account(o->table, p, (int64_t)fresh);
	return err;
}

int opener_svm_forbid(struct opener *o, uint64_t start, uint64_t bytes)
{
	if (!is_range(start, bytes))
		return -EINVAL;
	return cut(o->table, o->process, start, start + bytes);
}

bool opener_svm_is_allowed(const struct opener *o, uint64_t start, uint64_t bytes)
{
	return ranges_overlap(&o->process->svm, start, start + bytes) == bytes;
}

bool opener_svm_is_refused(const struct opener *o)
{
	return o->table->rules.is_svm_refused;
}

/* The lines are in ascending order; what is between them is not mapped. */
void process_sweep_svm(struct table *t, struct process *p)
{
	_cleanup_fclose_ FILE *f = NULL;
	_cleanup_free_ char *line = NULL;
	uint64_t start, end, last = 0;
	size_t size = 0;
	char path[64];

	if (!p->svm.count || !p->tgid)
		return;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)p->tgid);
	f = fopen(path, "re");
	if (!f)
		return;
	while (getline(&line, &size, f) > 0) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64, &start, &end) != 2)
			return;
		cut(t, p, last, start);
		last = end;
	}
	if (last)
		cut(t, p, last, UINT64_MAX);
}
