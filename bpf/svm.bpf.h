/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * Ranges that the GPU may access in place (AMDKFD_IOC_SVM). They have no handle:
 * a range lasts until access is withdrawn or the memory is unmapped, overlapping
 * requests are one, and the same page counts once. So each address space keeps a
 * sorted list of disjoint ranges, linked through the map.
 */
#ifndef PINCAP_SVM_BPF_H
#define PINCAP_SVM_BPF_H

#include "account.bpf.h"

#define SVM_LOCK_TRIES 65536 /* the holder walks a list, with preemption off */

struct svm_walk {
	struct pincap_process *rec;
	u64 birth;
	u64 start; /* the request; grows while ranges are joined to it */
	u64 end;
	u64 prev; /* the range before `at`; 0: the head of the list */
	u64 at;	  /* the range to look at; 0: the end of the list */
	s64 delta;
};

static long svm_lock_step(u32 i, struct pincap_process **rec)
{
	return __sync_val_compare_and_swap(&(*rec)->svm_lock, 0, 1) == 0;
}

/* A spin lock of our own: the walk calls helpers, which bpf_spin_lock forbids. */
static __always_inline bool svm_lock(struct pincap_process *rec)
{
	if (bpf_loop(SVM_LOCK_TRIES, svm_lock_step, &rec, 0) < SVM_LOCK_TRIES)
		return true;
	STAT(svm_busy);
	return false;
}

static __always_inline void svm_unlock(struct pincap_process *rec)
{
	__sync_val_compare_and_swap(&rec->svm_lock, 1, 0);
}

static __always_inline struct pincap_range *svm_find(u64 birth, u64 start)
{
	struct pincap_range_key key = { .birth = birth, .start = start };

	return bpf_map_lookup_elem(&ranges, &key);
}

static __always_inline void svm_delete(u64 birth, u64 start)
{
	struct pincap_range_key key = { .birth = birth, .start = start };

	bpf_map_delete_elem(&ranges, &key);
}

/* Let what follows w->prev be `next`. */
static __always_inline void svm_link(struct svm_walk *w, u64 next)
{
	struct pincap_range *prev = w->prev ? svm_find(w->birth, w->prev) : NULL;

	if (prev)
		prev->next = next;
	else
		w->rec->svm_head = next;
}

static __always_inline bool svm_insert(struct svm_walk *w, u64 start, u64 end, u64 next)
{
	struct pincap_range_key key = { .birth = w->birth, .start = start };
	struct pincap_range range = { .end = end, .next = next };

	if (!bpf_map_update_elem(&ranges, &key, &range, BPF_ANY)) {
		svm_link(w, start);
		return true;
	}
	STAT(ranges_full);
	svm_link(w, next);
	return false;
}

/* Join every range that overlaps or touches the request. */
static long svm_add_step(u32 i, struct svm_walk *w)
{
	struct pincap_range *r = w->at ? svm_find(w->birth, w->at) : NULL;
	u64 next;

	if (!r || w->at > w->end)
		return 1;
	next = r->next;
	if (r->end < w->start) {
		w->prev = w->at;
		w->at = next;
		return 0;
	}
	w->delta -= r->end - w->at;
	if (w->at < w->start)
		w->start = w->at;
	if (r->end > w->end)
		w->end = r->end;
	svm_delete(w->birth, w->at);
	w->at = next;
	return 0;
}

/* Cut the request out of every range that it overlaps. */
static long svm_cut_step(u32 i, struct svm_walk *w)
{
	struct pincap_range *r = w->at ? svm_find(w->birth, w->at) : NULL;
	u64 from = w->at, to, next;

	if (!r || from >= w->end)
		return 1;
	to = r->end;
	next = r->next;
	w->at = next;
	if (to <= w->start) {
		w->prev = from;
		return 0;
	}
	w->delta -= (to < w->end ? to : w->end) - (from > w->start ? from : w->start);
	if (from < w->start) {
		r->end = w->start;
		w->prev = from;
	} else {
		svm_delete(w->birth, from);
		svm_link(w, next);
	}
	if (to <= w->end)
		return 0;
	if (!svm_insert(w, w->end, to, next))
		w->delta -= to - w->end;
	return 1;
}

/* Both return the change in bytes. */

/* `seen`: the bytes of the request that are in the list now, new or not; 0: none were
 * let in. */
static __noinline s64 svm_allow(struct pincap_process *rec, u64 start, u64 end, u64 *seen)
{
	struct svm_walk w = {
		.rec = rec,
		.birth = rec->birth,
		.start = start,
		.end = end,
		.prev = unknown_0,
	};

	*seen = 0;
	if (!svm_lock(rec))
		return 0;
	w.at = rec->svm_head;
	bpf_loop(RANGES_MAX, svm_add_step, &w, 0);
	if (svm_insert(&w, w.start, w.end, w.at)) {
		w.delta += w.end - w.start;
		*seen = end - start;
	}
	rec->svm += w.delta;
	svm_unlock(rec);
	return w.delta;
}

/* `after`: the start of a range before the request, from where to look, or 0. */
static __noinline s64 svm_withdraw(struct pincap_process *rec, u64 start, u64 end, u64 after)
{
	struct svm_walk w = { .rec = rec, .birth = rec->birth, .start = start, .end = end };
	struct pincap_range *r;

	if (!svm_lock(rec))
		return 0;
	r = after && after < start ? svm_find(w.birth, after) : NULL;
	w.prev = r ? after : unknown_0;
	w.at = r ? r->next : rec->svm_head;
	bpf_loop(RANGES_MAX, svm_cut_step, &w, 0);
	rec->svm += w.delta;
	svm_unlock(rec);
	return w.delta;
}

#endif
