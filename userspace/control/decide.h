/* SPDX-License-Identifier: MIT */
/*
 * The controller's judgement of one cgroup: values in, one action out. No clock,
 * no I/O, no globals, and no idea of cgroups, sockets or libraries; its test is
 * a table.
 *
 *	decide_recall(&past, now_ms, &in);
 *	out = decide(&rules, &in);
 *	... do out.action ...
 *	decide_remember(&past, &in, &out, now_ms);
 */
#ifndef PINCAP_DECIDE_H
#define PINCAP_DECIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct decide_rules {
	/* RESUME needs this part of the limit, in percent, or less in use: a tenth of
	 * the budget as play, else a program that frees and pins one buffer in turn
	 * is told the opposite with every buffer. */
	unsigned int resume_percent;
	/* RELEASE aims at this part of `high`, so that the next pin does not ring
	 * again. */
	unsigned int release_percent;
	/* RESUME needs this long since the last signal. The kernel's admission binds
	 * meanwhile; four changes a second is what a loader can make use of. */
	uint64_t dwell_ms;
	/* RELEASE is repeated no sooner: longer than the counts may lag behind (a
	 * sweep a second), else what is being given back is asked for twice. */
	uint64_t cooldown_ms;
};

#define DECIDE_RULES_DEFAULT           \
	((struct decide_rules){        \
		.resume_percent = 90,  \
		.release_percent = 95, \
		.dwell_ms = 250,       \
		.cooldown_ms = 2000,   \
	})

/* A RELEASE that moved nothing is repeated this many times as seldom. */
#define DECIDE_FUTILE_FACTOR 4

/* Of a STOP, RESUME and RELEASE why, and of DECIDE_NOTHING why not. */
enum decide_reason {
	DECIDE_FINE,	/* nothing to be said */
	DECIDE_FULL,	/* STOP: the limit is reached */
	DECIDE_RESERVE, /* STOP: the host is below its reserve */
	DECIDE_ROOM,	/* RESUME: usage fell, or the host has memory again */
	DECIDE_CHANGED, /* RESUME: the limit was changed */
	DECIDE_OVER,	/* RELEASE: usage is above the limit */
	DECIDE_HIGH,	/* RELEASE: usage is above `high` */
	DECIDE_MET,	/* WITHDRAW: usage is at the target, or below what asked for it */
	DECIDE_DWELLS,	/* NOTHING: it is too soon for RESUME */
	DECIDE_COOLS,	/* NOTHING: it is too soon to repeat RELEASE */
};

struct decide_in {
	uint64_t current_bytes;
	uint64_t limit_bytes; /* PINCAP_UNLIMITED: none; 0: nothing may be pinned */
	uint64_t high_bytes;  /* PINCAP_UNLIMITED: none */
	uint64_t min_bytes;   /* below it the reserve concerns others; 0: unprotected */
	bool host_short;      /* the host is below its reserve */

	/* What decide_recall() fills in. */
	bool limit_changed;		/* since the last signal */
	enum decide_reason stopped_for; /* FULL or RESERVE, the last signal was that STOP */
	uint64_t since_signal_ms;	/* since the last STOP or RESUME; UINT64_MAX: none yet */
	bool releasing;			/* the last RELEASE was not withdrawn ... */
	uint64_t release_target_bytes;	/* ... and aimed at this ... */
	uint64_t release_from_bytes;	/* ... from this `current` */
	uint64_t since_release_ms;
};

enum decision {
	DECIDE_NOTHING,
	DECIDE_STOP,
	DECIDE_RESUME,
	DECIDE_RELEASE,
	DECIDE_WITHDRAW, /* of what was asked, what has not been given may stay */
};

struct decide_out {
	enum decision action;
	enum decide_reason reason;
	uint64_t bytes;	       /* STOP: that current is above the limit; RELEASE: to give back */
	uint64_t target_bytes; /* RELEASE: what current is to be */
};

/* One action at a time; asked again once that is done, the next, until NOTHING.
 * STOP comes before RELEASE: what is given back is not to be taken again. */
struct decide_out decide(const struct decide_rules *rules, const struct decide_in *in);

/* What must be remembered of one cgroup from one decision to the next. All zero:
 * nothing was ever said. */
struct decide_past {
	bool signalled;
	enum decide_reason stopped_for;
	uint64_t signal_ms;
	uint64_t limit_bytes; /* at the last signal */
	bool releasing;
	uint64_t release_ms;
	uint64_t release_target_bytes;
	uint64_t release_from_bytes;
};

void decide_recall(const struct decide_past *past, uint64_t now_ms, struct decide_in *in);
void decide_remember(struct decide_past *past, const struct decide_in *in,
		     const struct decide_out *out, uint64_t now_ms);

/* Somebody of whom memory may be asked back. */
struct decide_holder {
	int64_t id;	      /* the caller's; pid */
	uint64_t bytes;	      /* holds now, as the kernel counts */
	uint64_t asked_bytes; /* held when it was last asked; 0: never was */
	uint64_t give_bytes;  /* out: what to ask for, 0: nothing */
};

/*
 * Distributes `bytes` over holders, the largest first and of each no more than it
 * holds; those who were asked before and hold no less since come last. Sorts the
 * array into that order. Returns what nobody of them holds.
 */
uint64_t decide_share(struct decide_holder *holders, size_t count, uint64_t bytes);

#endif
