/* SPDX-License-Identifier: MIT */
#include "bpf/intf.h"
#include "userspace/control/decide.h"

static bool is_full(const struct decide_in *in)
{
	return in->limit_bytes != PINCAP_UNLIMITED && in->current_bytes >= in->limit_bytes;
}

/* current <= DECIDE_RESUME_PERCENT of limit, without rounding */
static bool has_play(const struct decide_in *in)
{
	return (unsigned __int128)in->current_bytes * 100 <=
	       (unsigned __int128)in->limit_bytes * DECIDE_RESUME_PERCENT;
}

enum decision decide(const struct decide_in *in)
{
	if (!in->stopped)
		return is_full(in) ? DECIDE_STOP : DECIDE_NOTHING;
	if (is_full(in)) /* a limit of 0 is always full */
		return DECIDE_NOTHING;
	if (in->limit_changed)
		return DECIDE_RESUME;
	return has_play(in) && in->since_signal_ms >= DECIDE_DWELL_MS ? DECIDE_RESUME
								      : DECIDE_NOTHING;
}
