/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "bpf/intf.h"
#include "userspace/common/util.h"
#include "userspace/control/decide.h"

static bool is_full(const struct decide_in *in)
{
	return in->limit_bytes != PINCAP_UNLIMITED && in->current_bytes >= in->limit_bytes;
}

static uint64_t percent(uint64_t bytes, unsigned int part)
{
	return (uint64_t)((unsigned __int128)bytes * part / 100);
}

/* bytes <= part of whole, without rounding */
static bool is_within(uint64_t bytes, uint64_t whole, unsigned int part)
{
	return (unsigned __int128)bytes * 100 <= (unsigned __int128)whole * part;
}

static bool is_short(const struct decide_in *in)
{
	return in->host_short && in->current_bytes >= in->min_bytes;
}

static struct decide_out nothing(enum decide_reason reason)
{
	return (struct decide_out){ .action = DECIDE_NOTHING, .reason = reason };
}

static struct decide_out decide_stop(const struct decide_in *in)
{
	if (is_full(in))
		return (struct decide_out){
			.action = DECIDE_STOP,
			.reason = DECIDE_FULL,
			.bytes = in->current_bytes - in->limit_bytes,
		};
	if (is_short(in))
		return (struct decide_out){ .action = DECIDE_STOP, .reason = DECIDE_RESERVE };
	return nothing(DECIDE_FINE);
}

/* Of what stopped it, nothing is left, with play. */
static bool has_play(const struct decide_rules *rules, const struct decide_in *in)
{
	if (in->host_short && !is_within(in->current_bytes, in->min_bytes, rules->resume_percent))
		return false;
	return in->stopped_for == DECIDE_RESERVE ||
	       is_within(in->current_bytes, in->limit_bytes, rules->resume_percent);
}

static struct decide_out decide_resume(const struct decide_rules *rules, const struct decide_in *in)
{
	if (is_full(in) || is_short(in)) /* a limit of 0 is always full */
		return nothing(DECIDE_FINE);
	if (in->limit_changed && in->stopped_for == DECIDE_FULL)
		return (struct decide_out){ .action = DECIDE_RESUME, .reason = DECIDE_CHANGED };
	if (!has_play(rules, in))
		return nothing(DECIDE_FINE);
	if (in->since_signal_ms < rules->dwell_ms)
		return nothing(DECIDE_DWELLS);
	return (struct decide_out){ .action = DECIDE_RESUME, .reason = DECIDE_ROOM };
}

/* What current is to come down to. */
static uint64_t aim(const struct decide_rules *rules, const struct decide_in *in)
{
	uint64_t high = in->high_bytes;

	if (high != PINCAP_UNLIMITED)
		high = percent(high, rules->release_percent);
	return MIN(high, in->limit_bytes);
}

static bool is_over(const struct decide_in *in)
{
	return in->current_bytes > in->limit_bytes || in->current_bytes > in->high_bytes;
}

static struct decide_out release(const struct decide_in *in, uint64_t target)
{
	return (struct decide_out){
		.action = DECIDE_RELEASE,
		.reason = in->current_bytes > in->limit_bytes ? DECIDE_OVER : DECIDE_HIGH,
		.bytes = in->current_bytes - target,
		.target_bytes = target,
	};
}

/* Only the count tells whether anything was given back. */
static uint64_t cooldown_ms(const struct decide_rules *rules, const struct decide_in *in)
{
	bool futile = in->current_bytes >= in->release_from_bytes;

	return rules->cooldown_ms * (futile ? DECIDE_FUTILE_FACTOR : 1);
}

static struct decide_out decide_release(const struct decide_rules *rules,
					const struct decide_in *in)
{
	uint64_t target = aim(rules, in);
	uint64_t wait_ms;

	if (!in->releasing)
		return is_over(in) ? release(in, target) : nothing(DECIDE_FINE);
	if (in->current_bytes <= target)
		return (struct decide_out){ .action = DECIDE_WITHDRAW, .reason = DECIDE_MET };
	/* A target that was lowered meanwhile is news. */
	wait_ms = target < in->release_target_bytes ? rules->dwell_ms : cooldown_ms(rules, in);
	if (in->since_release_ms < wait_ms)
		return nothing(DECIDE_COOLS);
	if (!is_over(in))
		return (struct decide_out){ .action = DECIDE_WITHDRAW, .reason = DECIDE_MET };
	return release(in, target);
}

struct decide_out decide(const struct decide_rules *rules, const struct decide_in *in)
{
	bool stopped = in->stopped_for != DECIDE_FINE;
	struct decide_out signal = stopped ? decide_resume(rules, in) : decide_stop(in);
	struct decide_out back;

	if (signal.action != DECIDE_NOTHING)
		return signal;
	back = decide_release(rules, in);
	if (back.action == DECIDE_NOTHING && back.reason == DECIDE_FINE)
		return signal;
	return back;
}

void decide_recall(const struct decide_past *past, uint64_t now_ms, struct decide_in *in)
{
	in->limit_changed = past->signalled && in->limit_bytes != past->limit_bytes;
	in->stopped_for = past->stopped_for;
	in->since_signal_ms = past->signalled ? now_ms - past->signal_ms : UINT64_MAX;
	in->releasing = past->releasing;
	in->release_target_bytes = past->release_target_bytes;
	in->release_from_bytes = past->release_from_bytes;
	in->since_release_ms = now_ms - past->release_ms;
}

void decide_remember(struct decide_past *past, const struct decide_in *in,
		     const struct decide_out *out, uint64_t now_ms)
{
	switch (out->action) {
	case DECIDE_NOTHING:
		break;
	case DECIDE_STOP:
	case DECIDE_RESUME:
		past->signalled = true;
		past->signal_ms = now_ms;
		past->limit_bytes = in->limit_bytes;
		past->stopped_for = out->action == DECIDE_STOP ? out->reason : DECIDE_FINE;
		break;
	case DECIDE_RELEASE:
		past->releasing = true;
		past->release_ms = now_ms;
		past->release_target_bytes = out->target_bytes;
		past->release_from_bytes = in->current_bytes;
		break;
	case DECIDE_WITHDRAW:
		past->releasing = false;
		break;
	}
}

static bool is_futile(const struct decide_holder *h)
{
	return h->asked_bytes && h->bytes >= h->asked_bytes;
}

static int compare(const void *a, const void *b)
{
	const struct decide_holder *x = a, *y = b;

	if (is_futile(x) != is_futile(y))
		return is_futile(x) ? 1 : -1;
	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x->id < y->id ? -1 : x->id > y->id;
}

uint64_t decide_share(struct decide_holder *holders, size_t count, uint64_t bytes)
{
	if (count)
		qsort(holders, count, sizeof(*holders), compare);
	for (size_t i = 0; i < count; i++) {
		holders[i].give_bytes = MIN(bytes, holders[i].bytes);
		bytes -= holders[i].give_bytes;
	}
	return bytes;
}
