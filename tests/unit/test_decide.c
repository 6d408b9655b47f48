/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "bpf/intf.h"
#include "userspace/common/util.h"
#include "userspace/control/decide.h"

#define NEVER UINT64_MAX
#define BIG   (1ULL << 62)

static const struct {
	const char *name;
	struct decide_in in; /* current, limit, since_signal_ms, stopped, limit_changed */
	enum decision out;
} table[] = {
	{ "nothing in use", { 0, 1000, NEVER, false, false }, DECIDE_NOTHING },
	{ "one below", { 999, 1000, NEVER, false, false }, DECIDE_NOTHING },
	{ "at the limit", { 1000, 1000, NEVER, false, false }, DECIDE_STOP },
	{ "above it", { 1001, 1000, NEVER, false, false }, DECIDE_STOP },
	{ "STOP does not dwell", { 1000, 1000, 0, false, false }, DECIDE_STOP },
	{ "limit lowered below", { 500, 400, 10, false, true }, DECIDE_STOP },
	{ "limit changed, still room", { 500, 600, 10, false, true }, DECIDE_NOTHING },
	{ "limit 0", { 0, 0, NEVER, false, false }, DECIDE_STOP },
	{ "limit 0, in use", { 5, 0, NEVER, false, false }, DECIDE_STOP },
	{ "no limit", { BIG, PINCAP_UNLIMITED, NEVER, false, false }, DECIDE_NOTHING },
	{ "no limit, all in use",
	  { UINT64_MAX, PINCAP_UNLIMITED, NEVER, false, false },
	  DECIDE_NOTHING },

	{ "stopped, full", { 1000, 1000, NEVER, true, false }, DECIDE_NOTHING },
	{ "stopped, over", { 2000, 1000, 10000, true, false }, DECIDE_NOTHING },
	{ "stopped, below, no play", { 999, 1000, 10000, true, false }, DECIDE_NOTHING },
	{ "one above 90 %", { 901, 1000, 10000, true, false }, DECIDE_NOTHING },
	{ "at 90 %", { 900, 1000, 10000, true, false }, DECIDE_RESUME },
	{ "empty", { 0, 1000, 10000, true, false }, DECIDE_RESUME },
	{ "dwell, 1 ms short", { 0, 1000, 249, true, false }, DECIDE_NOTHING },
	{ "dwell over", { 0, 1000, 250, true, false }, DECIDE_RESUME },
	{ "90 % of an odd limit", { 9, 11, 10000, true, false }, DECIDE_RESUME },
	{ "above 90 % of it", { 10, 11, 10000, true, false }, DECIDE_NOTHING },
	{ "limit 1, empty", { 0, 1, 10000, true, false }, DECIDE_RESUME },

	{ "limit raised", { 999, 1000, 0, true, true }, DECIDE_RESUME },
	{ "limit raised, still full", { 1000, 1000, 10000, true, true }, DECIDE_NOTHING },
	{ "limit lifted", { 999, PINCAP_UNLIMITED, 0, true, true }, DECIDE_RESUME },
	{ "limit lifted long ago", { BIG, PINCAP_UNLIMITED, 300, true, false }, DECIDE_RESUME },

	{ "limit 0 never resumes", { 0, 0, NEVER, true, false }, DECIDE_NOTHING },
	{ "limit changed to 0", { 0, 0, 10000, true, true }, DECIDE_NOTHING },

	{ "large: 90 % does not overflow", { BIG / 10 * 9, BIG, 300, true, false }, DECIDE_RESUME },
	{ "large: above 90 %", { BIG / 100 * 91, BIG, 300, true, false }, DECIDE_NOTHING },
};

static void test_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		enum decision out = decide(&table[i].in);

		if (out != table[i].out)
			fail_msg("%s: %d, not %d", table[i].name, out, table[i].out);
	}
}

/* Around a fixed figure it must come to rest, whatever the figure. */
static void test_comes_to_rest(void **state)
{
	(void)state;
	for (uint64_t current = 0; current <= 2000; current++) {
		struct decide_in in = { current, 1000, NEVER, false, false };
		unsigned int signals = 0;

		for (unsigned int i = 0; i < 100; i++) {
			enum decision out = decide(&in);

			in.since_signal_ms = out ? 0 : in.since_signal_ms;
			in.since_signal_ms += in.since_signal_ms < NEVER - 50 ? 50 : 0;
			signals += out != DECIDE_NOTHING;
			if (out != DECIDE_NOTHING)
				in.stopped = out == DECIDE_STOP;
		}
		assert_int_equal(signals, current >= 1000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_comes_to_rest),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
