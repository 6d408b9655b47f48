/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * Between admission and the controller: the headroom that it publishes for the
 * whole host, whether it lives, and the doorbell that tells it where to look.
 */
#ifndef PINCAP_GATE_BPF_H
#define PINCAP_GATE_BPF_H

#include "maps.bpf.h"

#define EVENT_GAP_NS 100000000ULL /* between two events of one cgroup */

static __always_inline struct pincap_gate *gate_get(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&gate, &zero);
}

static __always_inline bool is_alive(struct pincap_gate *g, u64 now)
{
	u64 beat = READ_ONCE(g->heartbeat_ns);

	return beat && now < beat + PINCAP_HEARTBEAT_NS;
}

/* Made after the controller last looked; it will be told what to do with it. */
static __noinline bool is_undecided(u64 cgid)
{
	struct pincap_gate *g = gate_get();

	return g && cgid > READ_ONCE(g->decided_id) && is_alive(g, bpf_ktime_get_ns());
}

/* An older kernel side's records are being taken over: nothing may change meanwhile. */
static __noinline bool is_shut(void)
{
	struct pincap_gate *g = gate_get();

	return g && READ_ONCE(g->shut) && is_alive(g, bpf_ktime_get_ns());
}

static __always_inline void event_fill(struct pincap_event *e, u32 kind, u64 cgid, u64 bytes,
				       s32 err, u64 now)
{
	e->kind = kind;
	e->tgid = bpf_get_current_pid_tgid() >> 32;
	e->cgroup_id = cgid;
	e->time_ns = now;
	e->bytes = bytes;
	e->err = err;
	e->zero = 0;
	bpf_get_current_comm(e->comm, sizeof(e->comm));
}

/* Ring for an entry. It rang a moment ago: the controller looks at it anyway.
 * Inline: a walk's step may be the eighth frame, and there is no ninth. */
static __always_inline int tell(struct pincap_cgroup *cg, u64 cgid, u32 kind, u64 bytes, s32 err)
{
	struct pincap_gate *g = gate_get();
	u64 now = bpf_ktime_get_ns();
	struct pincap_event *e;

	if (!g || !cg || !is_alive(g, now) || now < READ_ONCE(cg->told_ns) + EVENT_GAP_NS)
		return 0;
	READ_ONCE(cg->told_ns) = now;
	e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e) {
		STAT(events_lost);
		return 0;
	}
	event_fill(e, kind, cgid, bytes, err, now);
	bpf_ringbuf_submit(e, 0);
	return 0;
}

/* Whatever is lost here leaves a cgroup without its budget, so it is counted,
 * also while nobody listens. */
static __noinline int tell_mkdir(u64 cgid, const char *path)
{
	struct pincap_gate *g = gate_get();
	struct pincap_mkdir_event *e = NULL;
	u64 now = bpf_ktime_get_ns();

	if (!g)
		return 0;
	if (is_alive(g, now))
		e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e) {
		__sync_fetch_and_add(&g->lost, 1);
		return 0;
	}
	event_fill(&e->event, PINCAP_EVENT_MKDIR, cgid, 0, 0, now);
	bpf_probe_read_kernel_str(e->path, sizeof(e->path), path);
	bpf_ringbuf_submit(e, 0);
	return 0;
}

/* Not one of many: however soon after the last. */
static __noinline int tell_now(u64 cgid, u32 kind, u64 bytes)
{
	struct pincap_gate *g = gate_get();
	u64 now = bpf_ktime_get_ns();
	struct pincap_event *e;

	if (!g || !is_alive(g, now))
		return 0;
	e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e) {
		STAT(events_lost);
		return 0;
	}
	event_fill(e, kind, cgid, bytes, 0, now);
	bpf_ringbuf_submit(e, 0);
	return 0;
}

/*
 * What a top-level cgroup took of the present headroom is one word, so that it is
 * checked, added and begun anew with the next epoch at once: the epoch in the
 * upper 16 bits, pages below.
 */
#define TAKEN_EPOCH_SHIFT 48
#define TAKEN_PAGES	  ((1ULL << TAKEN_EPOCH_SHIFT) - 1)

struct take {
	struct pincap_gate *gate;
	struct pincap_headroom *room;
	struct pincap_cgroup *top;
	u64 bytes;
	int err; /* -EAGAIN while there is no verdict */
};

static long share_step(u32 i, struct take *t)
{
	u64 epoch = (u64)(t->room->epoch & 0xffff) << TAKEN_EPOCH_SHIFT;
	u64 seen = READ_ONCE(t->top->taken), pages = 0;

	if ((seen & ~TAKEN_PAGES) == epoch)
		pages = seen & TAKEN_PAGES;
	pages += t->bytes >> page_shift;
	if (pages << page_shift > t->room->share) {
		t->err = -ENOMEM;
		return 1;
	}
	if (__sync_val_compare_and_swap(&t->top->taken, seen, epoch | pages) != seen)
		return 0;
	t->err = 0;
	return 1;
}

static long room_step(u32 i, struct take *t)
{
	u64 seen = READ_ONCE(t->gate->admitted);
	s64 since = seen - t->room->snapshot;

	if (since + (s64)t->bytes > t->room->bytes) {
		t->err = -ENOMEM;
		return 1;
	}
	if (__sync_val_compare_and_swap(&t->gate->admitted, seen, seen + t->bytes) != seen)
		return 0;
	t->err = 0;
	return 1;
}

/* Every loss is another's gain: on any machine somebody is done long before. */
#define CAS_TRIES 65536

static __always_inline int take_share(struct take *t)
{
	s64 in_flight = READ_ONCE(t->top->in_flight);

	if (t->room->share == PINCAP_UNLIMITED)
		return 0;
	if ((in_flight > 0 ? (u64)in_flight : 0) + t->bytes > t->room->share)
		return -ENOMEM;
	t->err = -EAGAIN;
	bpf_loop(CAS_TRIES, share_step, t, 0);
	return t->err;
}

/* The headroom in force, or NULL: none was published, or its author is dead. */
static __always_inline struct pincap_headroom *headroom_get(struct pincap_gate *g)
{
	struct pincap_headroom *room = &g->headroom[READ_ONCE(g->slot) & 1];
	u64 time = READ_ONCE(room->time_ns);

	return time && bpf_ktime_get_ns() < time + PINCAP_HEADROOM_NS ? room : NULL;
}

/*
 * Take bytes from the host's headroom, for the top-level cgroup `top`. 0 or
 * -ENOMEM. All that is admitted is added to `admitted`, whether or not a reserve
 * is set, so that a snapshot taken at any time forgets nothing.
 */
static __noinline int headroom_take(u64 top, u64 bytes, bool must_pass)
{
	struct take t = { .gate = gate_get(), .bytes = bytes };

	if (!t.gate)
		return 0;
	t.room = headroom_get(t.gate);
	if (t.room && !must_pass) {
		t.top = bpf_map_lookup_elem(&cgroups, &top);
		t.err = t.top ? take_share(&t) : 0;
		if (!t.err) {
			t.err = -EAGAIN;
			bpf_loop(CAS_TRIES, room_step, &t, 0);
		}
		if (t.err != -ENOMEM || !t.room->observe)
			return t.err;
		__sync_fetch_and_add(&t.gate->observed, 1);
	}
	__sync_fetch_and_add(&t.gate->admitted, bytes);
	return 0;
}

/* It was not admitted in the end. */
static __noinline int headroom_give(u64 bytes)
{
	struct pincap_gate *g = gate_get();

	if (g)
		__sync_fetch_and_add(&g->admitted, -bytes);
	return 0;
}

#endif
