/* SPDX-License-Identifier: MIT */
/*
 * The emulated driver's buffers and their accounting. One thread serves all
 * requests, so there is no locking, and a report shows one moment.
 */
#include <errno.h>
#include <fcntl.h>
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
		p->mem_fd = -1;
		p->kfd.next_offset = KFD_EMU_FIRST_OFFSET;
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

void process_account(struct table *t, struct process *p, int64_t delta)
{
	p->gpu_bytes += (uint64_t)delta;
	t->gpu_bytes += (uint64_t)delta;
	p->peak_bytes = MAX(p->peak_bytes, p->gpu_bytes);
}

static void account(struct table *t, struct process *p, enum opener_kind kind,
		    const struct buffer *b, int sign)
{
	int64_t delta = sign * (int64_t)b->bytes;

	if (!(b->flags & KFD_EMU_SYSTEM_FLAGS))
		return;
	p->system_buffers += sign;
	if (kind == OPENER_RENDER)
		p->drm_bytes += (uint64_t)delta;
	process_account(t, p, delta);
}

static struct pool *pool_of(struct opener *o)
{
	return o->kind == OPENER_KFD ? &o->process->kfd : &o->gem;
}

static void drop_pool(struct table *t, struct process *p, enum opener_kind kind, struct pool *pool)
{
	size_t i;

	for (i = 0; i < pool->size; i++)
		if (pool->buffers[i].used)
			account(t, p, kind, &pool->buffers[i], -1);
	free(pool->buffers);
	*pool = (struct pool){ .next_offset = KFD_EMU_FIRST_OFFSET };
}

/* The memory file of an address space without users reads as empty; all others give
 * a byte, or an error where there is none. */
static bool has_ended(const struct process *p)
{
	char c;

	return pread(p->mem_fd, &c, 1, 0) == 0;
}

static void end_address_space(struct table *t, struct process *p)
{
	drop_pool(t, p, OPENER_KFD, &p->kfd);
	process_account(t, p, -(int64_t)p->svm.bytes);
	ranges_done(&p->svm);
	closep(&p->mem_fd);
	p->mem_fd = -1;
}

static void free_process(struct table *t, struct process *p)
{
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

struct table *table_free(struct table *t)
{
	if (!t)
		return NULL;
	while (t->openers)
		opener_free(t->openers);
	while (t->processes) {
		end_address_space(t, t->processes);
		free_process(t, t->processes);
	}
	free(t);
	return NULL;
}

void table_reap(struct table *t)
{
	struct process *p, *next;

	for (p = t->processes; p; p = next) {
		next = p->next;
		if (p->mem_fd < 0 ? p->openers : !has_ended(p) && (p->openers || p->is_user))
			continue;
		end_address_space(t, p);
		if (!p->openers)
			free_process(t, p);
	}
}

/* The KFD binds to the address space of who opens it first. */
static void bind_address_space(struct process *p)
{
	char path[64];

	if (p->mem_fd >= 0 || !p->tgid)
		return;
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)p->tgid);
	p->mem_fd = open(path, O_RDONLY | O_CLOEXEC);
}

int opener_new(struct opener **ret, struct table *t, enum opener_kind kind, pid_t tid)
{
	struct opener *o = calloc(1, sizeof(*o));

	if (!o)
		return -ENOMEM;
	table_reap(t);
	if (find_process(&o->process, t, tgid_of(tid))) {
		free(o);
		return -ENOMEM;
	}
	if (kind == OPENER_KFD)
		bind_address_space(o->process);
	o->table = t;
	o->kind = kind;
	o->gem.next_offset = KFD_EMU_FIRST_OFFSET;
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
	if (!o)
		return NULL;
	drop_pool(o->table, o->process, OPENER_RENDER, &o->gem);
	o->process->openers--;
	table_reap(o->table);
	*o->link = o->next;
	if (o->next)
		o->next->link = o->link;
	free(o->report);
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
static int find_slot(struct pool *pool, uint32_t *ret)
{
	size_t size = pool->size, i;
	struct buffer *grown;

	for (i = 0; i < size; i++) {
		if (!pool->buffers[i].used) {
			*ret = i;
			return 0;
		}
	}
	size = size ? size * 2 : 64;
	grown = reallocarray(pool->buffers, size, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	memset(grown + i, 0, (size - i) * sizeof(*grown));
	pool->buffers = grown;
	pool->size = size;
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

/* Offsets are never given twice from one pool, so that a stale mapping can not
 * meet a new buffer. */
static int place_buffer(struct pool *pool, uint64_t bytes,
			struct kfd_ioctl_alloc_memory_of_gpu_args *args)
{
	uint64_t room = KFD_EMU_END_OFFSET - pool->next_offset;

	if (args->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)
		return 0;
	if (args->flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL) {
		args->mmap_offset = KFD_EMU_DOORBELL_OFFSET;
		return 0;
	}
	bytes = (bytes + KFD_EMU_OFFSET_ALIGN - 1) & ~(KFD_EMU_OFFSET_ALIGN - 1);
	if (bytes > room)
		return -ENOSPC;
	args->mmap_offset = pool->next_offset;
	pool->next_offset += bytes;
	return 0;
}

static int try_alloc(struct opener *o, struct kfd_ioctl_alloc_memory_of_gpu_args *args)
{
	uint64_t bytes = kfd_emu_real_bytes(args->size, args->flags);
	struct pool *pool = pool_of(o);
	uint32_t slot;
	int err;

	err = check_request(args);
	if (!err)
		err = check_limit(o->table, bytes, args->flags);
	if (!err)
		err = find_slot(pool, &slot);
	if (!err)
		err = place_buffer(pool, bytes, args);
	if (err)
		return err;

	pool->buffers[slot] = (struct buffer){ .used = true, .flags = args->flags, .bytes = bytes };
	account(o->table, o->process, o->kind, &pool->buffers[slot], 1);
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
	const struct pool *pool = &o->process->kfd;
	uint32_t slot = (uint32_t)handle;

	return handle >> 32 == KFD_EMU_GPU_ID && slot < pool->size && pool->buffers[slot].used;
}

static void drop_buffer(struct opener *o, struct buffer *b)
{
	account(o->table, o->process, o->kind, b, -1);
	b->used = false;
	o->table->frees++;
}

int opener_release(struct opener *o, uint64_t handle)
{
	if (!opener_has(o, handle))
		return -EINVAL;
	drop_buffer(o, &o->process->kfd.buffers[(uint32_t)handle]);
	return 0;
}

/* Number 0 is none of GEM's. */
int opener_create_gem(struct opener *o, uint64_t bytes, uint32_t flags, uint32_t *ret_handle)
{
	uint32_t slot;
	int err;

	err = check_limit(o->table, bytes, flags);
	if (!err)
		err = find_slot(&o->gem, &slot);
	if (err) {
		o->table->refused++;
		return err;
	}
	o->gem.buffers[slot] = (struct buffer){ .used = true, .flags = flags, .bytes = bytes };
	account(o->table, o->process, o->kind, &o->gem.buffers[slot], 1);
	o->table->allocs++;
	*ret_handle = slot + 1;
	return 0;
}

int opener_close_gem(struct opener *o, uint32_t handle)
{
	if (!handle || handle > o->gem.size || !o->gem.buffers[handle - 1].used)
		return -EINVAL;
	drop_buffer(o, &o->gem.buffers[handle - 1]);
	return 0;
}
