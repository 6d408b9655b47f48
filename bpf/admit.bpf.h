/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * Admission: may this many bytes be pinned? Asked by a private socket option,
 * answered here, with no daemon in the way and no page that a tenant could
 * scribble on.
 */
#ifndef PINCAP_ADMIT_BPF_H
#define PINCAP_ADMIT_BPF_H

#include "account.bpf.h"

/* PINCAP_UNLIMITED is the largest number there is: no case of its own. */
static __always_inline bool fits(struct pincap_cgroup *cg, u64 bytes)
{
	s64 current = READ_ONCE(cg->current);

	return (current > 0 ? (u64)current : 0) + bytes <= READ_ONCE(cg->limit);
}

struct charge_walk {
	u64 cgid;
	u64 bytes;
	u64 refused_by; /* whose limit decided, or 0 */
	u64 top;	/* the cgroup at level 1, or 0 */
	int err;
	bool is_protected; /* from the reserve: a level has this much of its min left */
	bool observes;	   /* a level that refuses nothing on the host's behalf */
};

static __always_inline long refuse(struct charge_walk *w, int err)
{
	w->err = err;
	if (err == -EDQUOT)
		w->refused_by = w->cgid;
	return 1;
}

static __always_inline bool observes(struct pincap_cgroup *cg)
{
	return READ_ONCE(cg->observe);
}

static __always_inline bool is_within_min(struct pincap_cgroup *cg, u64 bytes)
{
	s64 current = READ_ONCE(cg->current);

	return (current > 0 ? (u64)current : 0) + bytes <= READ_ONCE(cg->min);
}

static long fits_step(u32 i, struct charge_walk *w)
{
	struct pincap_cgroup *cg = bpf_map_lookup_elem(&cgroups, &w->cgid);

	if (!cg)
		return refuse(w, -EAGAIN);
	if (observes(cg))
		w->observes = true;
	else if (!fits(cg, w->bytes))
		return refuse(w, -EDQUOT);
	if (is_within_min(cg, w->bytes))
		w->is_protected = true;
	if (cg->level == 1)
		w->top = w->cgid;
	w->cgid = cg->parent;
	return !w->cgid;
}

struct level_try {
	struct pincap_cgroup *cg;
	u64 bytes;
	int err; /* -EAGAIN while there is no verdict */
};

/* Add to `current` of one level without ever passing its limit, unless that is
 * only observed. */
static long level_step(u32 i, struct level_try *t)
{
	s64 *current = &t->cg->current;
	s64 seen = READ_ONCE(*current);
	bool fit = fits(t->cg, t->bytes);

	if (!fit && !observes(t->cg)) {
		t->err = -EDQUOT;
		return 1;
	}
	if (__sync_val_compare_and_swap(current, seen, seen + t->bytes) != seen)
		return 0;
	raise_peak(&t->cg->peak, seen + t->bytes);
	if (!fit) {
		__sync_fetch_and_add(&t->cg->would_refuse, 1);
		__sync_fetch_and_add(&t->cg->would_refuse_bytes, t->bytes);
	}
	t->err = 0;
	return 1;
}

static __always_inline int level_charge(struct pincap_cgroup *cg, u64 bytes)
{
	struct level_try t = { .cg = cg, .bytes = bytes, .err = -EAGAIN };

	bpf_loop(CAS_TRIES, level_step, &t, 0);
	if (t.err == -EAGAIN)
		STAT(charge_races);
	return t.err;
}

static long charge_step(u32 i, struct charge_walk *w)
{
	struct pincap_cgroup *cg = bpf_map_lookup_elem(&cgroups, &w->cgid);
	int err = cg ? level_charge(cg, w->bytes) : -EAGAIN;

	if (!cg || err)
		return refuse(w, err);
	add(&cg->held, &cg->peak_held, w->bytes);
	__sync_fetch_and_add(&cg->in_flight, w->bytes);
	tell_level(cg, w->cgid);
	w->cgid = cg->parent;
	return !w->cgid;
}

struct undo_walk {
	u64 cgid;
	u64 stop;
	u64 bytes;
};

static long undo_step(u32 i, struct undo_walk *w)
{
	struct pincap_cgroup *cg;

	if (w->cgid == w->stop)
		return 1;
	cg = bpf_map_lookup_elem(&cgroups, &w->cgid);
	if (!cg)
		return 1;
	__sync_fetch_and_add(&cg->current, -w->bytes);
	__sync_fetch_and_add(&cg->held, -w->bytes);
	__sync_fetch_and_add(&cg->in_flight, -w->bytes);
	w->cgid = cg->parent;
	return !w->cgid;
}

/* Take back what was added below `stop`; 0: all of it. */
__noinline int chain_undo(u64 cgid, u64 stop, u64 bytes)
{
	struct undo_walk w = { .cgid = cgid, .stop = stop, .bytes = bytes };

	WALK(undo_step, &w);
	return headroom_give(bytes);
}

/*
 * Charge a cgroup and all above it, or none. Every level is looked at before any
 * is touched, so that an impossible request disturbs nobody; only who loses a
 * race to the last bytes has something to take back. The host's headroom comes
 * between: it is the scarcest, and nobody's who is refused anyway.
 */
__noinline int chain_charge(u64 cgid, u64 bytes, u64 *refused_by)
{
	struct charge_walk w = { .cgid = cgid, .bytes = bytes };

	if (!refused_by)
		return -EINVAL;
	WALK(fits_step, &w);
	if (!w.err)
		w.err = headroom_take(w.top, bytes, w.is_protected || w.observes);
	if (!w.err) {
		w.cgid = cgid;
		WALK(charge_step, &w);
		if (w.err)
			chain_undo(cgid, w.cgid, bytes);
	}
	*refused_by = w.refused_by;
	return w.err;
}

static long answer_step(u32 i, struct charge_walk *w)
{
	struct pincap_cgroup *cg = bpf_map_lookup_elem(&cgroups, &w->cgid);

	if (!cg)
		return 1;
	if (!w->err) {
		__sync_fetch_and_add(&cg->charges, 1);
	} else {
		__sync_fetch_and_add(&cg->refused, 1);
		__sync_fetch_and_add(&cg->refused_bytes, w->bytes);
		if (w->err == -ENOMEM)
			__sync_fetch_and_add(&cg->reserve_hits, 1);
		if (w->cgid == w->refused_by || (w->err == -ENOMEM && i == 0))
			tell(cg, w->cgid, PINCAP_EVENT_REFUSED, w->bytes, w->err);
		if (w->cgid == w->refused_by)
			__sync_fetch_and_add(&cg->limit_hits, 1);
	}
	w->cgid = cg->parent;
	return !w->cgid;
}

/* Tell every level how a request ended. */
__noinline int chain_answer(u64 cgid, u64 bytes, u64 refused_by, int err)
{
	struct charge_walk w = { .cgid = cgid, .bytes = bytes, .refused_by = refused_by };

	w.err = err;
	WALK(answer_step, &w);
	return err;
}

static long forbids_step(u32 i, struct charge_walk *w)
{
	struct pincap_cgroup *cg = bpf_map_lookup_elem(&cgroups, &w->cgid);

	if (!cg || !cg->limit)
		return refuse(w, -EDQUOT);
	w->cgid = cg->parent;
	return !w->cgid;
}

/* A limit of 0 somewhere on the way up. */
__noinline int chain_forbids(u64 cgid)
{
	struct charge_walk w = { .cgid = cgid };

	WALK(forbids_step, &w);
	return w.err;
}

/* Enter an admitted charge into the record, if it is still charged to the cgroup
 * that admitted it. */
static __always_inline bool hold(struct pincap_process *rec, u64 mm, u64 cgid, u64 bytes, u64 small)
{
	bool ok = false;

	bpf_spin_lock(&rec->lock);
	if (rec->mm == mm && rec->cgroup_id == cgid && rec->small + small <= PINCAP_SMALL_BYTES) {
		rec->held += bytes;
		rec->in_flight += bytes;
		rec->small += small;
		ok = true;
	}
	bpf_spin_unlock(&rec->lock);
	return ok;
}

/* Key stores, Go and glibc lock a page or two and treat a refusal as fatal: a few
 * pages per address space pass, counted, though the budget is full. */
static __noinline bool admit_small(struct pincap_process *rec, u64 mm, u64 cgid, u64 bytes)
{
	struct amounts d = { .held = bytes, .in_flight = bytes };

	if (bytes > PINCAP_SMALL_BYTES || chain_forbids(cgid) || !hold(rec, mm, cgid, bytes, bytes))
		return false;
	chain_add(cgid, &d);
	headroom_take(0, bytes, true);
	return true;
}

static __noinline int admit(struct mm_struct *mm, struct pincap_process *rec, u64 bytes, u32 kind)
{
	u64 key = (u64)mm;

	for (int i = 0; i < 4; i++) {
		u64 cgid = charged_id(owner_cgroup(mm)), refused_by;
		int err;

		if (rec->cgroup_id != cgid && sync_record(mm, rec, 0))
			return -EAGAIN;
		cgid = rec->cgroup_id;
		if (!cgid)
			return -EAGAIN;
		if (is_undecided(cgid)) {
			STAT(undecided);
			return -EINPROGRESS;
		}
		err = chain_charge(cgid, bytes, &refused_by);
		if ((err == -EDQUOT || err == -ENOMEM) && kind == PINCAP_LOCK &&
		    admit_small(rec, key, cgid, bytes)) {
			err = 0;
		} else if (!err && !hold(rec, key, cgid, bytes, 0)) {
			chain_undo(cgid, 0, bytes);
			continue; /* it migrated meanwhile: ask the new cgroup */
		}
		return chain_answer(cgid, bytes, refused_by, err);
	}
	STAT(sync_retries);
	return -EAGAIN;
}

static __noinline int do_charge(struct mm_struct *mm, u64 bytes, u32 kind)
{
	u64 page = 1ULL << page_shift;
	u32 tid = bpf_get_current_pid_tgid();
	struct pincap_process *rec;
	struct pincap_thread *t;
	int err;

	if (!bytes || bytes > PINCAP_MAX_BYTES)
		return -EINVAL;
	if (kind != PINCAP_LOCK && kind != PINCAP_DRIVER)
		return -EINVAL;
	bytes = (bytes + page - 1) & ~(page - 1);
	rec = process_get(mm);
	if (!rec)
		return -EAGAIN;
	t = thread_get(tid, rec);
	if (!t)
		return -EAGAIN;
	err = admit(mm, rec, bytes, kind);
	if (err)
		return err;
	if (!t->lock && !t->driver)
		t->since_ns = bpf_ktime_get_ns();
	if (kind == PINCAP_LOCK)
		t->lock += bytes;
	else
		t->driver += bytes;
	return 0;
}

/* Settle as far as it goes without the mm: it could not be synced. */
static __noinline int settle_record(struct pincap_process *rec, struct pincap_thread *t)
{
	struct amounts d = { .held = -t->lock, .in_flight = -(t->lock + t->driver) };
	u64 cgid;

	bpf_spin_lock(&rec->lock);
	cgid = rec->cgroup_id;
	rec->held -= t->lock;
	rec->in_flight -= t->lock + t->driver;
	bpf_spin_unlock(&rec->lock);
	t->lock = 0;
	t->driver = 0;
	return chain_add(cgid, &d);
}

/* Returns the bytes that stay held. */
static __noinline u64 do_settle(struct mm_struct *mm)
{
	u64 key = (u64)mm, stays;
	struct pincap_process *rec = bpf_map_lookup_elem(&processes, &key);
	struct pincap_thread *t = rec ? thread_on(rec) : NULL;

	if (!t)
		return 0;
	stays = t->driver;
	if (sync_record(mm, rec, SYNC_SETTLE))
		settle_record(rec, t);
	return stays;
}

/* Give back what was held for good. Never more than that: what the kernel sees is
 * not the library's to lower, what is in flight belongs to the thread that asked. */
static __noinline int do_uncharge(struct mm_struct *mm, u64 bytes)
{
	u64 page = 1ULL << page_shift, key = (u64)mm, cgid, most;
	struct pincap_process *rec = bpf_map_lookup_elem(&processes, &key);
	struct amounts d = {};
	bool under;

	if (!bytes || bytes > PINCAP_MAX_BYTES)
		return -EINVAL;
	bytes = (bytes + page - 1) & ~(page - 1);
	if (!rec) {
		STAT(underflow);
		return 0;
	}
	bpf_spin_lock(&rec->lock);
	most = rec->held - rec->in_flight;
	under = bytes > most;
	if (under)
		bytes = most;
	if (rec->mm != key)
		bytes = 0;
	rec->held -= bytes;
	cgid = rec->cgroup_id;
	bpf_spin_unlock(&rec->lock);
	if (under)
		STAT(underflow);
	d.held = -bytes;
	chain_add(cgid, &d);
	return 0;
}

struct status_walk {
	u64 cgid;
	struct pincap_status st;
};

/* Find the level with the least room. */
static long status_step(u32 i, struct status_walk *w)
{
	struct pincap_cgroup *cg = bpf_map_lookup_elem(&cgroups, &w->cgid);
	u64 current, limit, room;

	if (!cg)
		return 1;
	current = cg->current > 0 ? cg->current : 0;
	limit = READ_ONCE(cg->limit);
	room = limit > current ? limit - current : 0;
	if (limit != PINCAP_UNLIMITED && (!w->st.bound_id || room < w->st.room)) {
		w->st.bound_id = w->cgid;
		w->st.level = cg->level;
		w->st.limit = limit;
		w->st.current_bytes = current;
		w->st.room = room;
	}
	if (!w->st.alloc)
		w->st.alloc = cg->alloc;
	if (!w->st.release)
		w->st.release = cg->release;
	w->cgid = cg->parent;
	return !w->cgid;
}

static __noinline int do_status(struct mm_struct *mm, struct pincap_status *out)
{
	u64 key = (u64)mm;
	struct pincap_process *rec = bpf_map_lookup_elem(&processes, &key);
	struct cgroup *cgrp = owner_cgroup(mm);
	struct status_walk w = {
		.st = { .abi = PINCAP_ABI, .limit = PINCAP_UNLIMITED, .room = PINCAP_UNLIMITED },
	};

	w.st.bound_id = unknown_0;
	w.st.alloc = unknown_0;
	w.st.release = unknown_0;
	w.cgid = cgroup_ensure(cgrp);
	w.st.cgroup_id = w.cgid;
	if (w.cgid)
		WALK(status_step, &w);
	if (rec) {
		w.st.locked = rec->locked;
		w.st.pinned = rec->pinned;
		w.st.gpu = rec->gpu;
		w.st.held = rec->held;
	}
	*out = w.st;
	return 0;
}

/* Other levels' options must behave as if we were not there. Where the kernel shows
 * us less than the length that it returns (at most a page, nothing of an empty
 * buffer), it would refuse that length; 0 tells it to use the original. */
static __always_inline void leave_alone(struct bpf_sockopt *ctx)
{
	if (ctx->optlen > ctx->optval_end - ctx->optval)
		ctx->optlen = 0;
}

/* Named one by one: what comes back from a global function may be anything to the
 * verifier, which since Linux 7 wants an errno here. */
static __always_inline int answer(int err)
{
	if (err == -EDQUOT)
		bpf_set_retval(-EDQUOT);
	else if (err == -ENOMEM)
		bpf_set_retval(-ENOMEM);
	else if (err == -EINPROGRESS)
		bpf_set_retval(-EINPROGRESS);
	else if (err == -EINVAL)
		bpf_set_retval(-EINVAL);
	else
		bpf_set_retval(-EAGAIN);
	return 0;
}

SEC("cgroup/setsockopt")
int admit_setsockopt(struct bpf_sockopt *ctx)
{
	void *val = ctx->optval, *end = ctx->optval_end;
	struct mm_struct *mm;
	int err = -EINVAL;

	if (ctx->level != SOL_PINCAP) {
		leave_alone(ctx);
		return 1;
	}
	if (bpf_get_retval() < 0)
		return 0; /* another program said no before */
	mm = current_mm();
	if (!mm)
		return 1;
	if (is_shut())
		return answer(-EINPROGRESS);
	if (ctx->optname == PINCAP_CHARGE) {
		struct pincap_charge *c = val;

		if (ctx->optlen == sizeof(*c) && (void *)(c + 1) <= end && !c->zero)
			err = do_charge(mm, c->bytes, c->kind);
	} else if (ctx->optname == PINCAP_UNCHARGE) {
		u64 *bytes = val;

		if (ctx->optlen == sizeof(*bytes) && (void *)(bytes + 1) <= end)
			err = do_uncharge(mm, *bytes);
	} else {
		return 1; /* the kernel's own "no such option" */
	}
	if (err)
		return answer(err);
	ctx->optlen = -1; /* done: the kernel's handler is not asked */
	return 1;
}

SEC("cgroup/getsockopt")
int admit_getsockopt(struct bpf_sockopt *ctx)
{
	void *val = ctx->optval, *end = ctx->optval_end;
	struct mm_struct *mm;

	if (ctx->level != SOL_PINCAP) {
		leave_alone(ctx);
		return 1;
	}
	mm = current_mm();
	if (!mm)
		return 1;
	if (is_shut())
		return answer(-EINPROGRESS);
	if (ctx->optname == PINCAP_SETTLE) {
		u64 *stays = val;

		if (ctx->optlen != sizeof(*stays) || (void *)(stays + 1) > end)
			return answer(-EINVAL);
		*stays = do_settle(mm);
	} else if (ctx->optname == PINCAP_STATUS) {
		struct pincap_status *out = val, st = {};

		if (ctx->optlen != sizeof(*out) || (void *)(out + 1) > end)
			return answer(-EINVAL);
		do_status(mm, &st);
		*out = st;
	} else {
		return 1;
	}
	ctx->retval = 0;
	return 1;
}

#endif
