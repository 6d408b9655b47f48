/* SPDX-License-Identifier: MIT */
/*
 * The emulated driver's buffers and their accounting. One thread serves all
 * requests, so there is no locking, and a report shows one moment.
 */
#include <errno.h>
#include <signal.h>
#include <sys/syscall.h>

#include "tests/kfd/driver_state.h"
#include "tests/kfd/kfd_emu.h"
#include "userspace/common/util.h"

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

static int find_process(struct process **ret, struct table *t, pid_t tgid)
{
	struct process *p = tgid ? t->processes : NULL;

	while (p && p->tgid != tgid)
		p = p->next;
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return -ENOMEM;
		p->tgid = tgid;
		p->next = t->processes;
		p->link = &t->processes;
		if (p->next)
			p->next->link = &p->next;
		t->processes = p;
	}
	p->openers++;
	*ret = p;
	return 0;
}

/* With its last file a process is gone for the driver. */
static void leave_process(struct table *t, struct process *p)
{
	if (--p->openers)
		return;
	if (p->is_user) {
		t->gone[t->gone_count % TABLE_GONE] =
			(struct gone){ .tgid = p->tgid, .peak_bytes = p->peak_bytes };
		t->gone_count++;
	}
	*p->link = p->next;
	if (p->next)
		p->next->link = p->link;
	free(p);
}

int opener_new(struct opener **ret, struct table *t, enum opener_kind kind, pid_t tid)
{
	struct opener *o = calloc(1, sizeof(*o));

	if (!o)
		return -ENOMEM;
	if (find_process(&o->process, t, tgid_of(tid))) {
		free(o);
		return -ENOMEM;
	}
	o->table = t;
	o->kind = kind;
	o->next_offset = KFD_EMU_FIRST_OFFSET;
	o->next = t->openers;
	o->link = &t->openers;
	if (o->next)
		o->next->link = &o->next;
	t->openers = o;
	*ret = o;
	return 0;
}

void process_account(struct table *t, struct process *p, int64_t delta)
{
	p->gpu_bytes += (uint64_t)delta;
	t->gpu_bytes += (uint64_t)delta;
	p->peak_bytes = MAX(p->peak_bytes, p->gpu_bytes);
}

static void account(struct opener *o, const struct buffer *b, int sign)
{
	int64_t delta = sign * (int64_t)b->bytes;

	if (!(b->flags & KFD_EMU_SYSTEM_FLAGS))
		return;
	o->process->system_buffers += sign;
	if (o->kind == OPENER_RENDER)
		o->process->drm_bytes += (uint64_t)delta;
	process_account(o->table, o->process, delta);
}

/* Ranges belong to the process, but only its file of the KFD can make them; the
 * library in it opens that once. */
static void drop_all(struct opener *o)
{
	size_t i;

	for (i = 0; i < o->buffers_size; i++)
		if (o->buffers[i].used)
			account(o, &o->buffers[i], -1);
	if (o->kind == OPENER_KFD && o->is_user) {
		process_account(o->table, o->process, -(int64_t)o->process->svm.bytes);
		ranges_done(&o->process->svm);
	}
}

struct opener *opener_free(struct opener *o)
{
	if (!o)
		return NULL;
	drop_all(o);
	leave_process(o->table, o->process);
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
	pid_t tgid = o->process->tgid;

	if (o->kind == OPENER_KFD && tgid && tid > 0 && syscall(SYS_tgkill, tgid, tid, 0) < 0)
		return -EBADF;
	o->is_user = true;
	o->process->is_user = true;
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

int table_check_limit(const struct table *t, uint64_t bytes, uint64_t fresh)
{
	const struct table_rules *r = &t->rules;

	if (r->fail_min_bytes && bytes >= r->fail_min_bytes)
		return -r->refuse_errno;
	if (r->limit_bytes && fresh &&
	    (t->gpu_bytes > r->limit_bytes || fresh > r->limit_bytes - t->gpu_bytes))
		return -r->refuse_errno;
	return 0;
}

static int check_limit(const struct table *t, uint64_t bytes, uint32_t flags)
{
	return flags & KFD_EMU_SYSTEM_FLAGS ? table_check_limit(t, bytes, bytes) : 0;
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

static void drop_buffer(struct opener *o, struct buffer *b)
{
	account(o, b, -1);
	b->used = false;
	o->table->frees++;
}

int opener_release(struct opener *o, uint64_t handle)
{
	if (!opener_has(o, handle))
		return -EINVAL;
	drop_buffer(o, &o->buffers[(uint32_t)handle]);
	return 0;
}

/* Number 0 is none of GEM's. */
int opener_create_gem(struct opener *o, uint64_t bytes, uint32_t flags, uint32_t *ret_handle)
{
	uint32_t slot;
	int err;

	err = check_limit(o->table, bytes, flags);
	if (!err)
		err = find_slot(o, &slot);
	if (err) {
		o->table->refused++;
		return err;
	}
	o->buffers[slot] = (struct buffer){ .used = true, .flags = flags, .bytes = bytes };
	account(o, &o->buffers[slot], 1);
	o->table->allocs++;
	*ret_handle = slot + 1;
	return 0;
}

int opener_close_gem(struct opener *o, uint32_t handle)
{
	if (!handle || handle > o->buffers_size || !o->buffers[handle - 1].used)
		return -EINVAL;
	drop_buffer(o, &o->buffers[handle - 1]);
	return 0;
}
