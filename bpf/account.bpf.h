/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * The only code that writes a counter.
 *
 * A record remembers what its address space was last charged with, and where.
 * Whoever learns something new re-reads absolute values under the record's lock,
 * swaps cgroup and amounts as one, and after the unlock charges the difference.
 * Each difference is applied exactly once, and additions commute, so that at
 * rest the counters equal the kernel's whatever the order was.
 */
#ifndef PINCAP_ACCOUNT_BPF_H
#define PINCAP_ACCOUNT_BPF_H

#include "gate.bpf.h"

/* What tests/mutants.sh breaks on purpose, to see that a test finds it. */
#ifdef MUTANT_NO_LOCK
#define bpf_spin_lock(lock)   ((void)(lock))
#define bpf_spin_unlock(lock) ((void)(lock))
#endif

struct amounts {
	s64 locked;
	s64 pinned;
	s64 gpu;
	s64 held;
	s64 in_flight; /* of held */
};

static __always_inline void amounts_negate(struct amounts *a)
{
	a->locked = -a->locked;
	a->pinned = -a->pinned;
	a->gpu = -a->gpu;
	a->held = -a->held;
	a->in_flight = -a->in_flight;
}

static __always_inline void amounts_add(struct amounts *a, const struct amounts *b)
{
	a->locked += b->locked;
	a->pinned += b->pinned;
	a->gpu += b->gpu;
	a->held += b->held;
	a->in_flight += b->in_flight;
}

enum sync_flags {
	SYNC_LOCK_HELD = 1, /* the caller's context holds the mmap lock, for reading or writing */
	SYNC_SETTLE = 2,    /* drop what the current thread has in flight */
};

static __always_inline void raise_peak(s64 *peak, s64 value)
{
	s64 seen = READ_ONCE(*peak);

	/* Who loses four times in a row loses to higher values. */
	for (int i = 0; i < 4 && value > seen; i++) {
		s64 old = __sync_val_compare_and_swap(peak, seen, value);

		if (old == seen)
			return;
		seen = old;
	}
}

/*
 * Does not saturate: a decrease may arrive before its increase, from another CPU, and
 * a sum stopped at 0 in between would stay too high for good. Who reads takes what is
 * below 0 for 0.
 */
static __always_inline void add(s64 *counter, s64 *peak, s64 delta)
{
	s64 value;

	if (!delta)
		return;
	value = __sync_fetch_and_add(counter, delta) + delta;
	if (delta > 0)
		raise_peak(peak, value);
}

/*
 * Walks go through the map from a cgroup up to the root, so that a removed cgroup
 * can still be uncharged. Each is a bpf_loop over one step, which the verifier
 * checks once and not per level; a step returns 1 to end the walk.
 */
#define WALK(step, ctx)                                                           \
	do {                                                                      \
		if (bpf_loop(PINCAP_MAX_DEPTH, step, ctx, 0) >= PINCAP_MAX_DEPTH) \
			STAT(too_deep);                                           \
	} while (0)

/* Ring where a level rose above what the controller watches. */
static __always_inline void tell_level(struct pincap_cgroup *cg, u64 cgid)
{
	s64 current = READ_ONCE(cg->current);
	u64 value = current > 0 ? current : 0;
	bool is_full = value >= READ_ONCE(cg->limit);

	if (is_full || value > READ_ONCE(cg->high))
		tell(cg, cgid, is_full ? PINCAP_EVENT_FULL : PINCAP_EVENT_HIGH, value, 0);
}

struct add_walk {
	u64 cgid;
	struct amounts d;
};

static long add_step(u32 i, struct add_walk *w)
{
	struct pincap_cgroup *cg = bpf_map_lookup_elem(&cgroups, &w->cgid);

	if (!cg) {
		STAT(cgroup_gone);
		return 1;
	}
	s64 rise = w->d.locked + w->d.pinned + w->d.gpu + w->d.held;

	add(&cg->current, &cg->peak, rise);
	if (rise > 0)
		tell_level(cg, w->cgid);
	add(&cg->locked, &cg->peak_locked, w->d.locked);
	add(&cg->pinned, &cg->peak_pinned, w->d.pinned);
	add(&cg->gpu, &cg->peak_gpu, w->d.gpu);
	add(&cg->held, &cg->peak_held, w->d.held);
	if (w->d.in_flight)
		__sync_fetch_and_add(&cg->in_flight, w->d.in_flight);
	w->cgid = cg->parent;
	return !w->cgid;
}

/*
 * Apply a difference from a cgroup up to the root.
 *
 * This and the other chain_*() are global functions, which the verifier checks once
 * and by themselves. What is static it checks again on every path that leads there:
 * Linux 7.3 then needs more than a gigabyte for admit_setsockopt, and 740,000 of the
 * million instructions that it is willing to look at.
 */
__noinline int chain_add(u64 cgid, struct amounts *d)
{
	struct add_walk w = { .cgid = cgid };

	if (!d) /* never; the verifier cannot know */
		return 0;
	w.d = *d;
	if (cgid && (d->locked | d->pinned | d->gpu | d->held | d->in_flight))
		WALK(add_step, &w);
	return 0;
}

struct records_walk {
	u64 cgid;
	s64 delta;
};

static long records_step(u32 i, struct records_walk *w)
{
	struct pincap_cgroup *cg = bpf_map_lookup_elem(&cgroups, &w->cgid);

	if (!cg)
		return 1;
	__sync_fetch_and_add(&cg->records, w->delta);
	w->cgid = cg->parent;
	return !w->cgid;
}

/* One address space more or less is charged to a cgroup. */
__noinline int chain_records(u64 cgid, s64 delta)
{
	struct records_walk w = { .cgid = cgid, .delta = delta };

	if (cgid)
		WALK(records_step, &w);
	return 0;
}

/* A new entry, made from here and not on the stack, of which older kernels
 * (6.1) have 512 bytes for a whole chain of calls. Its place comes after: until then its
 * level says so. */
#define NOT_PLACED 0xffffffffU

const struct pincap_cgroup new_cgroup = {
	.level = NOT_PLACED,
	.limit = PINCAP_UNLIMITED,
	.high = PINCAP_UNLIMITED,
};

static __always_inline bool is_placed(u64 cgid)
{
	struct pincap_cgroup *cg = bpf_map_lookup_elem(&cgroups, &cgid);

	return cg && READ_ONCE(cg->level) != NOT_PLACED;
}

/* Whoever meets an entry without a place gives it the same one. Charges reach an
 * entry only after this, for it and for all above it. */
static __always_inline int cgroup_place(u64 cgid, u64 parent, u32 level)
{
	struct pincap_cgroup *cg = bpf_map_lookup_elem(&cgroups, &cgid);

	if (!cg) {
		bpf_map_update_elem(&cgroups, &cgid, &new_cgroup, BPF_NOEXIST);
		cg = bpf_map_lookup_elem(&cgroups, &cgid);
	}
	if (!cg) {
		STAT(cgroups_full);
		return -EAGAIN;
	}
	if (READ_ONCE(cg->level) == NOT_PLACED) {
		READ_ONCE(cg->parent) = parent;
		READ_ONCE(cg->level) = level;
	}
	return 0;
}

/* The id that a cgroup's address spaces are charged to: its own, or that of its
 * ancestor at the deepest level that is walked. */
static __noinline u64 charged_id(struct cgroup *cgrp)
{
	struct cgroup **ancestors = (void *)cgrp + bpf_core_field_offset(struct cgroup, ancestors);
	struct cgroup *a = NULL;

	if (!cgrp)
		return 0;
	if (cgrp->level < PINCAP_MAX_DEPTH)
		return cgroup_id_of(cgrp);
	STAT(too_deep);
	bpf_probe_read_kernel(&a, sizeof(a), ancestors + PINCAP_MAX_DEPTH - 1);
	return BPF_CORE_READ(a, kn, id);
}

struct ensure_walk {
	struct cgroup **ancestors;
	u64 parent; /* the last that has an entry */
	u32 level;
};

static __always_inline u64 ancestor_id(struct cgroup **ancestors, u32 level)
{
	struct cgroup *cgrp = NULL;

	bpf_probe_read_kernel(&cgrp, sizeof(cgrp), ancestors + level);
	return BPF_CORE_READ(cgrp, kn, id);
}

static long ensure_step(u32 i, struct ensure_walk *w)
{
	u64 id = ancestor_id(w->ancestors, i);

	if (!id || cgroup_place(id, w->parent, i))
		return 1;
	w->parent = id;
	return i >= w->level;
}

static __always_inline u32 charged_level(struct cgroup *cgrp)
{
	u32 level = cgrp->level;

	return level < PINCAP_MAX_DEPTH ? level : PINCAP_MAX_DEPTH - 1;
}

/*
 * Make sure that a cgroup and all above it have entries, root first, so that
 * whoever finds an entry finds its ancestors. Returns the id to charge: its own, or
 * while there is no room, the nearest above that has an entry, whose sums are the
 * same. 0: there is none.
 */
static __noinline u64 cgroup_ensure(struct cgroup *cgrp)
{
	u64 cgid = charged_id(cgrp);
	struct ensure_walk w = {};

	if (!cgrp || is_placed(cgid))
		return cgid;
	w.level = charged_level(cgrp);
	w.ancestors = (void *)cgrp + bpf_core_field_offset(struct cgroup, ancestors);
	bpf_loop(PINCAP_MAX_DEPTH, ensure_step, &w, 0);
	return w.parent;
}

/*
 * Records are for everybody while there are plenty; the last quarter is for those under
 * a budget, a small share for each, so that whoever may start many processes cannot make
 * the count of others blind. The budget next to the root is the administrator's.
 */
#define RECORDS_OPEN  (processes_max - processes_max / 4)
#define RECORDS_SHARE (processes_max / 32 + 1)

struct budget_walk {
	struct cgroup **ancestors;
	u32 level;
	s64 records; /* of the budget nearest to the root; -1: there is none */
};

static long budget_step(u32 i, struct budget_walk *w)
{
	u64 id = ancestor_id(w->ancestors, i + 1);
	struct pincap_cgroup *cg = bpf_map_lookup_elem(&cgroups, &id);

	if (i >= w->level || !cg)
		return 1;
	if (READ_ONCE(cg->limit) == PINCAP_UNLIMITED)
		return 0;
	w->records = READ_ONCE(cg->records);
	return 1;
}

static __noinline bool may_have_record(struct mm_struct *mm)
{
	struct cgroup *cgrp = owner_cgroup(mm);
	struct budget_walk w = { .records = -1 };
	struct pincap_cgroup *root;
	u64 id;

	if (!cgrp)
		return true;
	w.ancestors = (void *)cgrp + bpf_core_field_offset(struct cgroup, ancestors);
	id = ancestor_id(w.ancestors, 0);
	root = bpf_map_lookup_elem(&cgroups, &id);
	if (!root || (s64)READ_ONCE(root->records) < (s64)RECORDS_OPEN)
		return true;
	w.level = charged_level(cgrp);
	bpf_loop(PINCAP_MAX_DEPTH - 1, budget_step, &w, 0);
	return w.records >= 0 && w.records < (s64)RECORDS_SHARE;
}

/* Whose the record is, for people to read: who owns the address space, which those that
 * share it inherit. */
static __always_inline void name_owner(struct mm_struct *mm, struct pincap_process *rec)
{
	struct task_struct *owner = mm->owner;
	u32 tgid = owner ? owner->tgid : 0;

	if (!tgid || READ_ONCE(rec->tgid) == tgid)
		return;
	READ_ONCE(rec->tgid) = tgid;
	bpf_probe_read_kernel(rec->comm, sizeof(rec->comm), owner->comm);
}

/* A new record, charged with nothing and to nobody yet. NULL: no room. */
static __noinline struct pincap_process *process_new(struct mm_struct *mm)
{
	struct pincap_config *cfg = config_get();
	u64 key = (u64)mm;
	struct pincap_process p = {
		.mm = key,
		.birth = bpf_ktime_get_ns(),
		.generation = cfg ? cfg->generation : 0,
	};
	struct pincap_process *rec;

	if (may_have_record(mm))
		bpf_map_update_elem(&processes, &key, &p, BPF_NOEXIST);
	rec = bpf_map_lookup_elem(&processes, &key); /* ours, or the one that came first */
	if (!rec)
		STAT(processes_full);
	else
		name_owner(mm, rec);
	return rec;
}

static __always_inline struct pincap_process *process_get(struct mm_struct *mm)
{
	u64 key = (u64)mm;
	struct pincap_process *rec = bpf_map_lookup_elem(&processes, &key);

	return rec ? rec : process_new(mm);
}

/* What the current thread has in flight on this record, or NULL. */
static __always_inline struct pincap_thread *thread_on(struct pincap_process *rec)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct pincap_thread *t = bpf_map_lookup_elem(&threads, &tid);

	return t && t->mm == rec->mm && t->birth == rec->birth ? t : NULL;
}

/* The current thread's entry, made to speak of this record. What it says of
 * another one is void: that address space is gone, and its holds with it. */
static __noinline struct pincap_thread *thread_get(u32 tid, struct pincap_process *rec)
{
	struct pincap_thread fresh = { .mm = rec->mm, .birth = rec->birth };
	struct pincap_thread *t = bpf_map_lookup_elem(&threads, &tid);

	if (t && t->mm == fresh.mm && t->birth == fresh.birth)
		return t;
	if (bpf_map_update_elem(&threads, &tid, &fresh, BPF_ANY)) {
		STAT(threads_full);
		return NULL;
	}
	return bpf_map_lookup_elem(&threads, &tid);
}

/* Pages that the kernel shows are no longer a promise: a rise seen in the asking
 * thread consumes its hold, byte for byte. Returns what was consumed. Runs
 * under the record's lock. */
static __always_inline u64 consume(struct pincap_process *rec, u64 *in_flight, s64 rise)
{
	u64 take = *in_flight;

	if (rise <= 0)
		return 0;
	if (take > (u64)rise)
		take = rise;
	*in_flight -= take;
	rec->held -= take;
	rec->in_flight -= take;
	return take;
}

/*
 * Read locked_vm, under the record's lock. It changes under the mmap lock, and
 * whoever changes it has a sync of his own: before that lock is free (mmap_lock's
 * tracepoint, mlock_fixup), or when his call ends. A reader from outside that met
 * a writer in the middle would take the rise away from the thread whose hold it
 * consumes, so while others have something in flight it leaves the value to them:
 * their settling comes here again. The record's lock, which their sync needs too,
 * makes the second look conclusive.
 */
static __always_inline u64 read_locked(struct mm_struct *mm, u64 last, bool is_mine)
{
	u64 locked;

	if (is_mine)
		return READ_ONCE(mm->locked_vm) << page_shift;
	if (mmap_write_locked(mm))
		return last;
	locked = READ_ONCE(mm->locked_vm) << page_shift;
	return mmap_write_locked(mm) ? last : locked;
}

static __always_inline u64 read_pinned(struct mm_struct *mm)
{
	s64 pages = READ_ONCE(mm->pinned_vm.counter);

	return pages > 0 ? (u64)pages << page_shift : 0;
}

/*
 * The heart: bring a record up to date with its address space and its owner's
 * cgroup. Returns 0; -ESRCH: the address space is gone; -EAGAIN: no room even for the
 * root, or the process kept migrating (its attach event or the sweep comes).
 */
static __noinline int sync_record(struct mm_struct *mm, struct pincap_process *rec, u32 flags)
{
	struct pincap_thread *t = rec->in_flight ? thread_on(rec) : NULL;

	/* Who moves the process meanwhile has a sync of his own; a settling must not
	 * rely on it. Each turn costs the verifier as much again, in every program. */
	for (int i = 0; i < (flags & SYNC_SETTLE ? 8 : 2); i++) {
		struct cgroup *cgrp = owner_cgroup(mm);
		struct amounts old = {}, now = {};
		u64 cgid, old_cgid, own;

		if (!cgrp)
			return 0; /* the owner is gone: exit_mmap or a new owner's sync follows */
		cgid = cgroup_ensure(cgrp);
		if (!cgid)
			return -EAGAIN;
#ifdef MUTANT_APART
		old_cgid = READ_ONCE(rec->cgroup_id);
#endif

		bpf_spin_lock(&rec->lock);
		if (rec->mm != (u64)mm || !READ_ONCE(mm->mm_users.counter)) {
			bpf_spin_unlock(&rec->lock);
			return -ESRCH;
		}
		if (owner_cgroup(mm) != cgrp) {
			bpf_spin_unlock(&rec->lock);
			continue;
		}
#ifndef MUTANT_APART
		old_cgid = rec->cgroup_id;
#endif
		old.locked = rec->locked;
		old.pinned = rec->pinned;
		old.gpu = rec->gpu;
		old.held = rec->held;
		old.in_flight = rec->in_flight;
		own = t ? t->lock + t->driver : 0;
		now.locked = read_locked(mm, rec->locked,
					 flags & SYNC_LOCK_HELD || rec->in_flight <= own);
		now.pinned = read_pinned(mm);
		if (t) {
			consume(rec, &t->lock, now.locked + now.pinned - old.locked - old.pinned);
			if (flags & SYNC_SETTLE) {
				rec->held -= t->lock;
				rec->in_flight -= t->lock + t->driver;
				t->lock = 0;
				t->driver = 0;
			}
		}
		rec->locked = now.locked;
		rec->pinned = now.pinned;
		rec->cgroup_id = cgid;
		now.gpu = rec->gpu;
		now.held = rec->held;
		now.in_flight = rec->in_flight;
		bpf_spin_unlock(&rec->lock);

		/* In place: older kernels (6.1) have 512 bytes for a whole chain of calls. */
		amounts_negate(&old);
		if (old_cgid == cgid) {
			amounts_add(&now, &old);
		} else {
			chain_add(old_cgid, &old);
			chain_records(old_cgid, -1);
			chain_records(cgid, 1);
		}
		chain_add(cgid, &now);
		return 0;
	}
	STAT(sync_retries);
	return -EAGAIN;
}

/* Nothing to charge: what the record says is so. What changes while we look has a
 * sync of its own. */
static __always_inline bool is_current(struct mm_struct *mm, struct pincap_process *rec)
{
	return rec->locked == READ_ONCE(mm->locked_vm) << page_shift &&
	       rec->pinned == read_pinned(mm) && rec->cgroup_id == charged_id(owner_cgroup(mm));
}

/* Look at an address space; one that never locked, pinned or asked has no record
 * and gets none. */
static __noinline int observe(struct mm_struct *mm, u32 flags)
{
	u64 key = (u64)mm;
	struct pincap_process *rec = bpf_map_lookup_elem(&processes, &key);

	if (!rec) {
		if (!mm->locked_vm && !mm->pinned_vm.counter)
			return 0;
		rec = process_new(mm);
		if (!rec)
			return -EAGAIN;
	} else {
		name_owner(mm, rec);
		if (is_current(mm, rec))
			return 0;
	}
	return sync_record(mm, rec, flags);
}

static long drop_buffer(struct bpf_map *map, struct pincap_buffer_key *key,
			struct pincap_buffer *buf, u64 *birth)
{
	if (key->birth == *birth)
		bpf_map_delete_elem(&buffers, key);
	return 0;
}

struct range_walk {
	struct pincap_range_key at;
};

static long drop_range(u32 i, struct range_walk *w)
{
	struct pincap_range *r = w->at.start ? bpf_map_lookup_elem(&ranges, &w->at) : NULL;
	u64 next;

	if (!r)
		return 1;
	next = r->next;
	bpf_map_delete_elem(&ranges, &w->at);
	w->at.start = next;
	return 0;
}

/* The address space is gone: uncharge all that its record holds, forget it.
 * `before`: only if the record was last seen before this generation (0: always). */
static __noinline int release(u64 mm, struct pincap_process *rec, u64 before)
{
	struct amounts d = {};
	struct range_walk w = {};
	u64 cgid, birth;

	bpf_spin_lock(&rec->lock);
	if (rec->mm != mm || (before && rec->generation >= before)) {
		bpf_spin_unlock(&rec->lock);
		return 0;
	}
	d.locked = -rec->locked;
	d.pinned = -rec->pinned;
	d.gpu = -rec->gpu;
	d.held = -rec->held;
	d.in_flight = -rec->in_flight;
	cgid = rec->cgroup_id;
	birth = rec->birth;
	w.at.birth = birth;
	w.at.start = rec->svm_head;
	rec->mm = 0;
	bpf_spin_unlock(&rec->lock);

	chain_add(cgid, &d);
	chain_records(cgid, -1);
	if (d.gpu) {
		bpf_for_each_map_elem(&buffers, drop_buffer, &birth, 0);
		bpf_loop(RANGES_MAX, drop_range, &w, 0);
	}
	bpf_map_delete_elem(&processes, &mm);
	return 1;
}

static __always_inline int release_mm(u64 mm)
{
	struct pincap_process *rec = bpf_map_lookup_elem(&processes, &mm);

	return rec ? release(mm, rec, 0) : 0;
}

/* A thread is gone, or leaves its address space, with a request under way. */
static __noinline int thread_drop(u32 tid)
{
	struct pincap_thread *t = bpf_map_lookup_elem(&threads, &tid);
	struct pincap_process *rec;
	struct amounts d = {};
	u64 cgid = 0, mm, birth, bytes;

	if (!t)
		return 0;
	mm = t->mm;
	birth = t->birth;
	bytes = t->lock + t->driver;
	bpf_map_delete_elem(&threads, &tid);
	rec = bytes ? bpf_map_lookup_elem(&processes, &mm) : NULL;
	if (!rec)
		return 0;
	bpf_spin_lock(&rec->lock);
	if (rec->mm == mm && rec->birth == birth) {
		rec->held -= bytes;
		rec->in_flight -= bytes;
		cgid = rec->cgroup_id;
	}
	bpf_spin_unlock(&rec->lock);
	d.held = -bytes;
	d.in_flight = -bytes;
	return chain_add(cgid, &d);
}

#endif
