/* SPDX-License-Identifier: MIT */
/*
 * The emulated driver's buffers and their accounting. One thread serves all
 * requests, so there is no locking, and a report shows one moment.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/syscall.h>

#include "tests/kfd/driver_table.h"
#include "tests/kfd/kfd_emu.h"
#include "userspace/common/util.h"

#define TABLE_GONE 64 /* dead processes whose peak is remembered */

struct buffer {
	bool used;
	uint32_t flags;
	uint64_t bytes;
};

struct opener {
	struct opener *next, **link;
	struct table *table;
	pid_t tgid; /* 0: in a pid namespace that we cannot see */
	bool is_user;
	struct buffer *buffers; /* index: low half of the handle */
	size_t buffers_size;
	size_t system_buffers;
	uint64_t gpu_bytes; /* host memory only */
	uint64_t peak_bytes;
	uint64_t next_offset;
	char *report;
	size_t report_bytes;
};

struct gone {
	pid_t tgid;
	uint64_t peak_bytes;
};

struct table {
	struct table_rules rules;
	struct opener *openers;
	uint64_t gpu_bytes;
	uint64_t allocs, frees, refused, userptr_allocs;
	struct gone gone[TABLE_GONE];
	uint64_t gone_count; /* ever; the newest is at (gone_count - 1) % TABLE_GONE */
};

int table_new(struct table **ret, const struct table_rules *rules)
{
	struct table *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->rules = *rules;
	*ret = t;
	return 0;
}

struct table *table_free(struct table *t)
{
	if (!t)
		return NULL;
	while (t->openers)
		opener_free(t->openers);
	free(t);
	return NULL;
}

/* FUSE names the thread; processes are what tests know. 0: not to be found. */
static pid_t tgid_of(pid_t tid)
{
	_cleanup_fclose_ FILE *f = NULL;
	char path[64], line[256];
	int tgid;

	if (tid <= 0)
		return 0;
	snprintf(path, sizeof(path), "/proc/%d/status", (int)tid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "Tgid: %d", &tgid) == 1)
			return tgid;
	return 0;
}

int opener_new(struct opener **ret, struct table *t, pid_t tid)
{
	struct opener *o = calloc(1, sizeof(*o));

	if (!o)
		return -ENOMEM;
	o->table = t;
	o->tgid = tgid_of(tid);
	o->next_offset = KFD_EMU_FIRST_OFFSET;
	o->next = t->openers;
	o->link = &t->openers;
	if (o->next)
		o->next->link = &o->next;
	t->openers = o;
	*ret = o;
	return 0;
}

struct opener *opener_free(struct opener *o)
{
	struct table *t;

	if (!o)
		return NULL;
	t = o->table;
	t->gpu_bytes -= o->gpu_bytes;
	if (o->is_user) {
		t->gone[t->gone_count % TABLE_GONE] =
			(struct gone){ .tgid = o->tgid, .peak_bytes = o->peak_bytes };
		t->gone_count++;
	}
	*o->link = o->next;
	if (o->next)
		o->next->link = o->link;
	free(o->report);
	free(o->buffers);
	free(o);
	return NULL;
}

int opener_enter(struct opener *o, pid_t tid)
{
	if (o->tgid && tid > 0 && syscall(SYS_tgkill, o->tgid, tid, 0) < 0)
		return -EBADF;
	o->is_user = true;
	return 0;
}

/* The lowest free number, as the kernel's idr gives: a handle comes back with
 * the very next buffer after it was freed. */
static int find_slot(struct opener *o, uint32_t *ret)
{
	size_t size = o->buffers_size, i;
	struct buffer *grown;

	for (i = 0; i < size; i++) {
		if (!o->buffers[i].used) {
			*ret = i;
			return 0;
		}
	}
	size = size ? size * 2 : 64;
	grown = reallocarray(o->buffers, size, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	memset(grown + i, 0, (size - i) * sizeof(*grown));
	o->buffers = grown;
	o->buffers_size = size;
	*ret = i;
	return 0;
}

static int check_request(const struct kfd_ioctl_alloc_memory_of_gpu_args *args)
{
	const uint32_t kinds = KFD_EMU_SYSTEM_FLAGS | KFD_IOC_ALLOC_MEM_FLAGS_VRAM |
			       KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL |
			       KFD_IOC_ALLOC_MEM_FLAGS_MMIO_REMAP;

	if (!args->size || args->size > KFD_EMU_END_OFFSET)
		return -EINVAL;
	if (args->gpu_id != KFD_EMU_GPU_ID || !(args->flags & kinds))
		return -EINVAL;
	if ((args->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) && !args->mmap_offset)
		return -EINVAL;
	return 0;
}

static int check_limit(const struct table *t, uint64_t bytes, uint32_t flags)
{
	const struct table_rules *r = &t->rules;

	if (!(flags & KFD_EMU_SYSTEM_FLAGS))
		return 0;
	if (r->fail_min_bytes && bytes >= r->fail_min_bytes)
		return -r->refuse_errno;
	if (r->limit_bytes &&
	    (t->gpu_bytes > r->limit_bytes || bytes > r->limit_bytes - t->gpu_bytes))
		return -r->refuse_errno;
	return 0;
}

/* Offsets are never given twice to one opener, so that a stale mapping can not
 * meet a new buffer. */
static int place_buffer(struct opener *o, uint64_t bytes,
			struct kfd_ioctl_alloc_memory_of_gpu_args *args)
{
	uint64_t room = KFD_EMU_END_OFFSET - o->next_offset;

	if (args->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)
		return 0;
	if (args->flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL) {
		args->mmap_offset = KFD_EMU_DOORBELL_OFFSET;
		return 0;
	}
	bytes = (bytes + KFD_EMU_OFFSET_ALIGN - 1) & ~(KFD_EMU_OFFSET_ALIGN - 1);
	if (bytes > room)
		return -ENOSPC;
	args->mmap_offset = o->next_offset;
	o->next_offset += bytes;
	return 0;
}

static void account(struct opener *o, const struct buffer *b, int sign)
{
	int64_t delta = sign * (int64_t)b->bytes;

	if (!(b->flags & KFD_EMU_SYSTEM_FLAGS))
		return;
	o->system_buffers += sign;
	o->gpu_bytes += (uint64_t)delta;
	o->table->gpu_bytes += (uint64_t)delta;
	o->peak_bytes = MAX(o->peak_bytes, o->gpu_bytes);
}

static int try_alloc(struct opener *o, struct kfd_ioctl_alloc_memory_of_gpu_args *args)
{
	uint64_t bytes = kfd_emu_real_bytes(args->size, args->flags);
	uint32_t slot;
	int err;

	err = check_request(args);
	if (!err)
		err = check_limit(o->table, bytes, args->flags);
	if (!err)
		err = find_slot(o, &slot);
	if (!err)
		err = place_buffer(o, bytes, args);
	if (err)
		return err;

	o->buffers[slot] = (struct buffer){ .used = true, .flags = args->flags, .bytes = bytes };
	account(o, &o->buffers[slot], 1);
	args->handle = (uint64_t)KFD_EMU_GPU_ID << 32 | slot;
	return 0;
}

int opener_alloc(struct opener *o, struct kfd_ioctl_alloc_memory_of_gpu_args *args)
{
	struct table *t = o->table;
	int err = try_alloc(o, args);

	if (err) {
		t->refused++;
		return err;
	}
	t->allocs++;
	if (args->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)
		t->userptr_allocs++;
	return 0;
}

bool opener_has(const struct opener *o, uint64_t handle)
{
	uint32_t slot = (uint32_t)handle;

	return handle >> 32 == KFD_EMU_GPU_ID && slot < o->buffers_size && o->buffers[slot].used;
}

int opener_release(struct opener *o, uint64_t handle)
{
	struct buffer *b;

	if (!opener_has(o, handle))
		return -EINVAL;
	b = &o->buffers[(uint32_t)handle];
	account(o, b, -1);
	b->used = false;
	o->table->frees++;
	return 0;
}

static void write_gone(const struct table *t, FILE *f)
{
	uint64_t i = t->gone_count > TABLE_GONE ? t->gone_count - TABLE_GONE : 0;

	for (; i < t->gone_count; i++) {
		const struct gone *g = &t->gone[i % TABLE_GONE];

		fprintf(f, "gone pid %d peak_bytes %" PRIu64 "\n", (int)g->tgid, g->peak_bytes);
	}
}

static int take_snapshot(struct opener *reader)
{
	const struct table *t = reader->table;
	const struct opener *o;
	FILE *f;

	free(reader->report);
	reader->report = NULL;
	reader->report_bytes = 0;
	f = open_memstream(&reader->report, &reader->report_bytes);
	if (!f)
		return -errno;
	for (o = t->openers; o; o = o->next)
		if (o->is_user)
			fprintf(f,
				"pid %d gpu_bytes %" PRIu64 " buffers %zu peak_bytes %" PRIu64 "\n",
				(int)o->tgid, o->gpu_bytes, o->system_buffers, o->peak_bytes);
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
