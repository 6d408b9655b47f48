/* SPDX-License-Identifier: MIT */
/*
 * The table as text: a line for every process that has used the driver, the
 * sums, and the peaks of those that are gone. Host memory only.
 */
#include <errno.h>
#include <inttypes.h>

#include "tests/kfd/driver_state.h"
#include "userspace/common/util.h"

static void write_gone(const struct table *t, FILE *f)
{
	uint64_t i = t->gone_count > TABLE_GONE ? t->gone_count - TABLE_GONE : 0;

	for (; i < t->gone_count; i++) {
		const struct gone *g = &t->gone[i % TABLE_GONE];

		fprintf(f, "gone pid %d peak_bytes %" PRIu64 "\n", (int)g->tgid, g->peak_bytes);
	}
}

static void write_process(const struct process *p, FILE *f)
{
	fprintf(f,
		"pid %d gpu_bytes %" PRIu64 " buffers %zu peak_bytes %" PRIu64 " svm_bytes %" PRIu64
		" drm_bytes %" PRIu64 "\n",
		(int)p->tgid, p->gpu_bytes, p->system_buffers, p->peak_bytes, p->svm.bytes,
		p->drm_bytes);
}

static int take_snapshot(struct opener *reader)
{
	struct table *t = reader->table;
	struct process *p;
	FILE *f;

	free(reader->report);
	reader->report = NULL;
	reader->report_bytes = 0;
	f = open_memstream(&reader->report, &reader->report_bytes);
	if (!f)
		return -errno;
	table_reap(t);
	for (p = t->processes; p; p = p->next)
		process_sweep_svm(t, p);
	for (p = t->processes; p; p = p->next)
		if (p->is_user)
			write_process(p, f);
	fprintf(f, "total gpu_bytes %" PRIu64 "\n", t->gpu_bytes);
	fprintf(f,
		"allocs %" PRIu64 " frees %" PRIu64 " refused %" PRIu64 " userptr_allocs %" PRIu64
		"\n",
		t->allocs, t->frees, t->refused, t->userptr_allocs);
	write_gone(t, f);
	return fclose(f) ? -errno : 0;
}

ssize_t opener_report(struct opener *o, uint64_t offset, size_t size, const char **ret)
{
	int err;

	if (offset == 0) {
		err = take_snapshot(o);
		if (err)
			return err;
	}
	if (offset >= o->report_bytes)
		return 0;
	*ret = o->report + offset;
	return MIN(size, o->report_bytes - offset);
}
