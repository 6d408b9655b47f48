/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * Is the memory of the SVM ranges still mapped? The driver's MMU notifier ends a
 * range with its mapping, whatever ended that. The system calls that do are read
 * (ioctl.bpf.h); this finds the rest, and what those missed.
 *
 * In two steps. The sweep looks up the mappings below each range without ever
 * waiting for an mmap lock, which a workload can hold for as long as it likes. Where
 * that meets a hole, user space has gpu_find_holes run over the mappings of that
 * one task, under the lock, so that nothing is taken for a hole that was filled
 * meanwhile.
 */
#ifndef PINCAP_MAPPED_BPF_H
#define PINCAP_MAPPED_BPF_H

#include "gpu.bpf.h"

#define LOCK_TRIES 1024 /* for an mmap lock, which is mostly held for a moment */

struct mapped_walk {
	struct task_struct *task;
	u64 birth;
	u64 at;	  /* up to here all is mapped ... */
	u64 end;  /* ... of a range that ends here ... */
	u64 next; /* ... before the one that starts here; 0: it is the last */
	long err;
};

static long vma_end(struct task_struct *task, struct vm_area_struct *vma, u64 *end)
{
	*end = vma->vm_end;
	return 0;
}

static long mapped_step(u32 i, struct mapped_walk *w)
{
	struct pincap_range *r;
	u64 end = 0;

	if (w->at >= w->end) {
		r = w->next ? svm_find(w->birth, w->next) : NULL;
		if (!r)
			return 1;
		w->at = w->next;
		w->end = r->end;
		w->next = r->next;
	}
	w->err = bpf_find_vma(w->task, w->at, vma_end, &end, 0);
	w->at = end;
	return w->err != 0;
}

/* Does any range of this address space, which the task has, lie over a hole? A busy
 * mmap lock is no answer: the next sweep asks again. */
static __noinline bool has_hole(struct task_struct *task, struct pincap_process *rec)
{
	struct mapped_walk w = {
		.task = task,
		.birth = rec->birth,
		.at = unknown_0,
		.end = unknown_0,
		.next = rec->svm_head,
	};

	bpf_loop(RANGES_MAX, mapped_step, &w, 0);
	return w.err == -ENOENT;
}

/* The run over one task's mappings. One at a time: its caller holds the lock of the
 * sweep. */
struct {
	__u64 session;
	__u64 mm;
	__u64 end;    /* of the last mapping seen */
	__u64 before; /* the last range that ends there or before; 0 */
} found;

struct before_walk {
	u64 birth;
	u64 head;
	u64 before;
	u64 start; /* of the hole */
	u64 next;  /* the first range that ends behind that; 0: none */
};

static long before_step(u32 i, struct before_walk *w)
{
	struct pincap_range *r = w->before ? svm_find(w->birth, w->before) : NULL;

	w->next = r ? r->next : w->head;
	r = w->next ? svm_find(w->birth, w->next) : NULL;
	if (!r || r->end > w->start)
		return 1;
	w->before = w->next;
	return 0;
}

/* What lies between two mappings is not mapped, and stays so while we run: the
 * iterator holds the mmap lock for reading. */
static __noinline int hole(struct mm_struct *mm, struct pincap_process *rec, u64 start, u64 end)
{
	struct before_walk w = {
		.birth = rec->birth,
		.head = rec->svm_head,
		.before = found.before,
		.start = start,
	};

	/* The ranges are only looked at here; the change is made under their lock. */
	bpf_loop(RANGES_MAX, before_step, &w, 0);
	found.before = w.before;
	if (!w.next || w.next >= end)
		return 0;
	return gpu_add(rec, (u64)mm, svm_withdraw(rec, start, end, w.before), 0);
}

SEC("iter/task_vma")
int gpu_find_holes(struct bpf_iter__task_vma *ctx)
{
	struct vm_area_struct *vma = ctx->vma;
	struct pincap_process *rec;
	struct mm_struct *mm;
	u64 key, start;

	if (!ctx->task || !vma)
		return 0;
	mm = vma->vm_mm;
	key = (u64)mm;
	if (!ctx->meta->seq_num) {
		found.session = ctx->meta->session_id;
		found.mm = key;
		found.end = 0;
		found.before = 0;
	}
	if (found.session != ctx->meta->session_id || found.mm != key)
		return 0; /* exec: this began in another address space */
	start = found.end;
	found.end = vma->vm_end;
	rec = bpf_map_lookup_elem(&processes, &key);
	if (rec && rec->svm_head && start < vma->vm_start)
		hole(mm, rec, start, vma->vm_start);
	return 0;
}

/* The end of the attached segment at `at`, of whatever mappings it is made. */
struct segment_walk {
	struct task_struct *task;
	u64 at;
	u64 file;
};

static long segment_vma(struct task_struct *task, struct vm_area_struct *vma,
			struct segment_walk *w)
{
	u64 file = (u64)vma->vm_file;

	if (!w->file)
		w->file = file;
	if (file && w->file == file)
		w->at = vma->vm_end;
	return 0;
}

static long segment_step(u32 i, struct segment_walk *w)
{
	u64 at = w->at;
	long err = bpf_find_vma(w->task, at, segment_vma, w, 0);

	return err != -EBUSY && w->at == at;
}

/* 0: nothing is there, or the mmap lock stayed busy. */
static __noinline u64 segment_end(struct task_struct *task, u64 start)
{
	struct segment_walk w = { .task = task, .at = start, .file = unknown_0 };

	bpf_loop(LOCK_TRIES, segment_step, &w, 0);
	return w.at > start ? w.at : 0;
}

#endif
