/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * The gpu class: host memory in the AMD GPU driver's hands, by buffer and by range.
 * What the driver admitted is held until it was freed, unmapped, or its process
 * ended. Who says so is in ioctl.bpf.h.
 */
#ifndef PINCAP_GPU_BPF_H
#define PINCAP_GPU_BPF_H

#include "svm.bpf.h"

/* How an event was seen. */
enum seen_how {
	FROM_CALLER = 0, /* its arguments lie with the caller ... */
	FROM_DRIVER = 1, /* ... or are the driver's own copy */
	AGAIN = 2,	 /* by the second program for it, in case the first was skipped */
};

/* Change the gpu class of a record. `seen`: the bytes of the thread's request that the
 * driver has now. They are no longer a promise, though they be counted already: a
 * range is the same one when it is registered again. */
static __noinline int gpu_add(struct pincap_process *rec, u64 mm, s64 bytes, u64 seen)
{
	struct pincap_thread *t = rec->in_flight ? thread_on(rec) : NULL;
	struct amounts d = { .gpu = bytes };
	u64 cgid;

	bpf_spin_lock(&rec->lock);
	if (rec->mm != mm) {
		bpf_spin_unlock(&rec->lock);
		return -ESRCH;
	}
	rec->gpu += bytes;
	if (t)
		d.held = d.in_flight = -consume(rec, &t->driver, seen);
	cgid = rec->cgroup_id;
	bpf_spin_unlock(&rec->lock);
	return chain_add(cgid, &d);
}

/* The record to charge, in its cgroup. */
static __noinline struct pincap_process *gpu_record(struct mm_struct *mm)
{
	struct pincap_process *rec = process_get(mm);

	if (rec && !rec->cgroup_id && sync_record(mm, rec, 0))
		return NULL;
	return rec;
}

/* A handle that is handed out again was freed, though unseen: by a process that
 * shares the file. Returns the bytes to uncharge. */
static __always_inline u64 buffer_forget(struct pincap_buffer_key *key)
{
	struct pincap_buffer *buf = bpf_map_lookup_elem(&buffers, key);
	u64 bytes = buf ? buf->bytes : 0;

	return buf && !bpf_map_delete_elem(&buffers, key) ? bytes : 0;
}

static __noinline int buffer_alloc(struct mm_struct *mm, struct pincap_buffer_key *key,
				   struct pincap_buffer *buf, u32 how)
{
	struct pincap_process *rec = gpu_record(mm);
	struct pincap_buffer *old;
	u64 seen = 0;
	s64 change;

	if (!rec)
		return -EAGAIN;
	key->birth = rec->birth;
	old = how & AGAIN ? bpf_map_lookup_elem(&buffers, key) : NULL;
	if (old && old->bytes == buf->bytes)
		return 0;
	buf->mm = (u64)mm;
	buf->tgid = bpf_get_current_pid_tgid() >> 32;
	change = -buffer_forget(key);
	if (!bpf_map_update_elem(&buffers, key, buf, BPF_NOEXIST))
		seen = buf->bytes;
	else
		STAT(buffers_full);
	return gpu_add(rec, (u64)mm, change + seen, seen);
}

/*
 * Freeing is read when it is entered, since the driver may hand the handle out
 * again to another thread before this one leaves the call. The buffer is taken
 * out of the map at once, its bytes are uncharged when the driver has said yes.
 */
static __noinline int buffer_free_enter(struct mm_struct *mm, struct pincap_buffer_key *key)
{
	u64 mm_key = (u64)mm;
	u32 tid = bpf_get_current_pid_tgid();
	struct pincap_process *rec = bpf_map_lookup_elem(&processes, &mm_key);
	struct pincap_buffer *buf;
	struct pincap_thread *t;

	if (!rec)
		return 0;
	key->birth = rec->birth;
	buf = bpf_map_lookup_elem(&buffers, key);
	if (!buf)
		return 0; /* device memory */
	t = thread_get(tid, rec);
	if (!t)
		return -EAGAIN;
	t->free_file = key->file;
	t->free_handle = key->handle;
	t->free_addr = buf->addr;
	t->free_bytes = buf->bytes;
	t->free_kind = buf->kind;
	return bpf_map_delete_elem(&buffers, key);
}

static __noinline int buffer_free_exit(struct mm_struct *mm, bool freed)
{
	u64 mm_key = (u64)mm;
	struct pincap_process *rec = bpf_map_lookup_elem(&processes, &mm_key);
	struct pincap_thread *t = rec ? thread_on(rec) : NULL;
	struct pincap_buffer_key key = {};
	struct pincap_buffer buf = { .mm = mm_key };

	if (!t || !t->free_bytes)
		return 0;
	buf.addr = t->free_addr;
	buf.bytes = t->free_bytes;
	buf.kind = t->free_kind;
	t->free_bytes = 0;
	if (freed)
		return gpu_add(rec, mm_key, -buf.bytes, 0);
	key.birth = rec->birth;
	key.file = t->free_file;
	key.handle = t->free_handle;
	buf.tgid = bpf_get_current_pid_tgid() >> 32;
	return bpf_map_update_elem(&buffers, &key, &buf, BPF_NOEXIST);
}

static __noinline int range_allow(struct mm_struct *mm, u64 start, u64 end, u32 how)
{
	struct pincap_process *rec = gpu_record(mm);
	u64 seen;
	s64 change;

	if (!rec)
		return -EAGAIN;
	change = svm_allow(rec, start, end, &seen);
	if (how & AGAIN && !change)
		return 0;
	return gpu_add(rec, (u64)mm, change, seen);
}

/* Also for memory that was unmapped, whether or not the GPU had it. */
static __noinline int range_withdraw(struct mm_struct *mm, u64 start, u64 end)
{
	u64 key = (u64)mm;
	struct pincap_process *rec = bpf_map_lookup_elem(&processes, &key);

	if (!rec || !rec->svm_head)
		return 0;
	return gpu_add(rec, key, svm_withdraw(rec, start, end, 0), 0);
}

#endif
