/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "bpf/intf.h"
#include "userspace/common/util.h"
#include "userspace/control/decide.h"

#define NEVER UINT64_MAX
#define NONE  PINCAP_UNLIMITED
#define BIG   (1ULL << 62)
#define AGES  10000

static const struct decide_rules rules = DECIDE_RULES_DEFAULT;

/* A budget that nobody was told anything of, and one that stopped its library
 * `since` milliseconds ago. */
#define FRESH(current, limit)                                                   \
	.current_bytes = (current), .limit_bytes = (limit), .high_bytes = NONE, \
	.since_signal_ms = NEVER
#define STOPPED(current, limit, since)                                          \
	.current_bytes = (current), .limit_bytes = (limit), .high_bytes = NONE, \
	.since_signal_ms = (since), .stopped_for = DECIDE_FULL
/* One that asked `since` ago to come from `from` down to `target`. */
#define ASKED(from, target, since)                                                         \
	.releasing = true, .release_from_bytes = (from), .release_target_bytes = (target), \
	.since_release_ms = (since)

struct row {
	const char *name;
	struct decide_in in;
	enum decision action;
	enum decide_reason reason;
	uint64_t bytes;
	uint64_t target;
};

/* clang-format off */
static const struct row stop[] = {
	{ "nothing in use", { FRESH(0, 1000) }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },
	{ "one below", { FRESH(999, 1000) }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },
	{ "at the limit", { FRESH(1000, 1000) }, DECIDE_STOP, DECIDE_FULL, 0, 0 },
	{ "above it", { FRESH(1001, 1000) }, DECIDE_STOP, DECIDE_FULL, 1, 0 },
	{ "STOP does not dwell", { FRESH(1000, 1000), .limit_changed = true }, DECIDE_STOP, DECIDE_FULL, 0, 0 },
	{ "limit lowered below", { FRESH(500, 400), .limit_changed = true }, DECIDE_STOP, DECIDE_FULL, 100, 0 },
	{ "limit changed, still room", { FRESH(500, 600), .limit_changed = true }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },
	{ "limit 0", { FRESH(0, 0) }, DECIDE_STOP, DECIDE_FULL, 0, 0 },
	{ "limit 0, in use", { FRESH(5, 0) }, DECIDE_STOP, DECIDE_FULL, 5, 0 },
	{ "no limit", { FRESH(BIG, NONE) }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },
	{ "no limit, all in use", { FRESH(UINT64_MAX, NONE) }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },

	{ "host short", { FRESH(0, 1000), .host_short = true }, DECIDE_STOP, DECIDE_RESERVE, 0, 0 },
	{ "host short, no budget", { FRESH(5, NONE), .host_short = true }, DECIDE_STOP, DECIDE_RESERVE, 0, 0 },
	{ "host short, below min", { FRESH(299, 1000), .host_short = true, .min_bytes = 300 }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },
	{ "host short, at min", { FRESH(300, 1000), .host_short = true, .min_bytes = 300 }, DECIDE_STOP, DECIDE_RESERVE, 0, 0 },
	{ "host short, full below min", { FRESH(200, 200), .host_short = true, .min_bytes = 300 }, DECIDE_STOP, DECIDE_FULL, 0, 0 },
	{ "host short and full", { FRESH(1000, 1000), .host_short = true }, DECIDE_STOP, DECIDE_FULL, 0, 0 },
};

static const struct row resume[] = {
	{ "full", { STOPPED(1000, 1000, AGES) }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },
	{ "below, no play", { STOPPED(999, 1000, AGES) }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },
	{ "one above 90 %", { STOPPED(901, 1000, AGES) }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },
	{ "at 90 %", { STOPPED(900, 1000, AGES) }, DECIDE_RESUME, DECIDE_ROOM, 0, 0 },
	{ "empty", { STOPPED(0, 1000, AGES) }, DECIDE_RESUME, DECIDE_ROOM, 0, 0 },
	{ "dwell, 1 ms short", { STOPPED(0, 1000, 249) }, DECIDE_NOTHING, DECIDE_DWELLS, 0, 0 },
	{ "dwell over", { STOPPED(0, 1000, 250) }, DECIDE_RESUME, DECIDE_ROOM, 0, 0 },
	{ "90 % of an odd limit", { STOPPED(9, 11, AGES) }, DECIDE_RESUME, DECIDE_ROOM, 0, 0 },
	{ "above 90 % of it", { STOPPED(10, 11, AGES) }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },
	{ "limit 1, empty", { STOPPED(0, 1, AGES) }, DECIDE_RESUME, DECIDE_ROOM, 0, 0 },

	{ "limit raised", { STOPPED(999, 1000, 0), .limit_changed = true }, DECIDE_RESUME, DECIDE_CHANGED, 0, 0 },
	{ "raised, still full", { STOPPED(1000, 1000, AGES), .limit_changed = true }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },
	{ "limit lifted", { STOPPED(999, NONE, 0), .limit_changed = true }, DECIDE_RESUME, DECIDE_CHANGED, 0, 0 },
	{ "lifted long ago", { STOPPED(BIG, NONE, 300) }, DECIDE_RESUME, DECIDE_ROOM, 0, 0 },

	{ "limit 0 never resumes", { STOPPED(0, 0, AGES) }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },
	{ "limit changed to 0", { STOPPED(0, 0, AGES), .limit_changed = true }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },

	{ "large: 90 % does not overflow", { STOPPED(BIG / 10 * 9, BIG, 300) }, DECIDE_RESUME, DECIDE_ROOM, 0, 0 },
	{ "large: above 90 %", { STOPPED(BIG / 100 * 91, BIG, 300) }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },

	{ "room, host short", { STOPPED(0, 1000, AGES), .host_short = true }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },
	{ "raised, host short", { STOPPED(5, 1000, AGES), .host_short = true, .limit_changed = true }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },
	{ "host short, just below min", { STOPPED(299, 1000, AGES), .host_short = true, .min_bytes = 300 }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },
	{ "host short, 90 % of min", { STOPPED(270, 1000, AGES), .host_short = true, .min_bytes = 300 }, DECIDE_RESUME, DECIDE_ROOM, 0, 0 },
	{ "was short, near the limit", { FRESH(950, 1000), .stopped_for = DECIDE_RESERVE }, DECIDE_RESUME, DECIDE_ROOM, 0, 0 },
	{ "was short, full by now", { FRESH(1000, 1000), .stopped_for = DECIDE_RESERVE }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },
	{ "was short, dwells", { .current_bytes = 5, .limit_bytes = 1000, .high_bytes = NONE, .since_signal_ms = 249, .stopped_for = DECIDE_RESERVE }, DECIDE_NOTHING, DECIDE_DWELLS, 0, 0 },
	{ "still short", { FRESH(5, 1000), .host_short = true, .stopped_for = DECIDE_RESERVE }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },
};

#define HIGH(current, high) \
	.current_bytes = (current), .limit_bytes = NONE, .high_bytes = (high), .since_signal_ms = NEVER

static const struct row release[] = {
	{ "at high", { HIGH(1000, 1000) }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },
	{ "above high", { HIGH(1001, 1000) }, DECIDE_RELEASE, DECIDE_HIGH, 51, 950 },
	{ "high 0: everything", { HIGH(7, 0) }, DECIDE_RELEASE, DECIDE_HIGH, 7, 0 },
	{ "high 0, nothing in use", { HIGH(0, 0) }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },
	{ "large high does not overflow", { HIGH(BIG + 1, BIG) }, DECIDE_RELEASE, DECIDE_HIGH, BIG + 1 - BIG / 100 * 95 - 3, BIG / 100 * 95 + 3 },
	{ "at the limit: stopped only", { STOPPED(1000, 1000, AGES) }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },
	{ "above the limit: STOP first", { FRESH(1500, 1000) }, DECIDE_STOP, DECIDE_FULL, 500, 0 },
	{ "then RELEASE", { STOPPED(1500, 1000, 0) }, DECIDE_RELEASE, DECIDE_OVER, 500, 1000 },
	{ "limit 0", { STOPPED(5, 0, 0) }, DECIDE_RELEASE, DECIDE_OVER, 5, 0 },
	{ "above both, high below", { .current_bytes = 1500, .limit_bytes = 1000, .high_bytes = 800, .stopped_for = DECIDE_FULL }, DECIDE_RELEASE, DECIDE_OVER, 740, 760 },
	{ "above both, high above", { .current_bytes = 1500, .limit_bytes = 1000, .high_bytes = 1200, .stopped_for = DECIDE_FULL }, DECIDE_RELEASE, DECIDE_OVER, 500, 1000 },

	{ "cools", { HIGH(1001, 1000), ASKED(1002, 950, 1999) }, DECIDE_NOTHING, DECIDE_COOLS, 0, 0 },
	{ "has cooled", { HIGH(1001, 1000), ASKED(1002, 950, 2000) }, DECIDE_RELEASE, DECIDE_HIGH, 51, 950 },
	{ "moved nothing: cools longer", { HIGH(1001, 1000), ASKED(1001, 950, 7999) }, DECIDE_NOTHING, DECIDE_COOLS, 0, 0 },
	{ "moved nothing: again", { HIGH(1001, 1000), ASKED(1001, 950, 8000) }, DECIDE_RELEASE, DECIDE_HIGH, 51, 950 },
	{ "grew: likewise", { HIGH(1100, 1000), ASKED(1001, 950, 7999) }, DECIDE_NOTHING, DECIDE_COOLS, 0, 0 },
	{ "target met", { HIGH(950, 1000), ASKED(1001, 950, 5) }, DECIDE_WITHDRAW, DECIDE_MET, 0, 0 },
	{ "below high, above the target, cools", { HIGH(951, 1000), ASKED(1001, 950, 5) }, DECIDE_NOTHING, DECIDE_COOLS, 0, 0 },
	{ "below high is enough in the end", { HIGH(951, 1000), ASKED(1001, 950, 2000) }, DECIDE_WITHDRAW, DECIDE_MET, 0, 0 },
	{ "limit raised meanwhile", { FRESH(1500, 2000), ASKED(1500, 1000, 5) }, DECIDE_WITHDRAW, DECIDE_MET, 0, 0 },
	{ "RESUME comes first", { STOPPED(1500, 2000, 5), .limit_changed = true, ASKED(1500, 1000, 5) }, DECIDE_RESUME, DECIDE_CHANGED, 0, 0 },
	{ "limit lifted", { FRESH(1500, NONE), ASKED(1500, 1000, 5) }, DECIDE_WITHDRAW, DECIDE_MET, 0, 0 },
	{ "lowered again, dwells", { STOPPED(1500, 500, 5), ASKED(1500, 1000, 249) }, DECIDE_NOTHING, DECIDE_COOLS, 0, 0 },
	{ "lowered again", { STOPPED(1500, 500, 5), ASKED(1500, 1000, 250) }, DECIDE_RELEASE, DECIDE_OVER, 1000, 500 },
	{ "at the limit it fell to", { STOPPED(1000, 1000, AGES), ASKED(1500, 1000, 5) }, DECIDE_WITHDRAW, DECIDE_MET, 0, 0 },
	{ "the reserve asks for nothing", { FRESH(500, 1000), .host_short = true, .stopped_for = DECIDE_RESERVE }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },
};
/* clang-format on */

static void check(const struct decide_rules *r, const struct row *row)
{
	struct decide_out out = decide(r, &row->in);

	if (out.action != row->action || out.reason != row->reason || out.bytes != row->bytes ||
	    out.target_bytes != row->target)
		fail_msg("%s: action %d reason %d, %llu bytes to %llu, not %d %d %llu %llu",
			 row->name, out.action, out.reason, (unsigned long long)out.bytes,
			 (unsigned long long)out.target_bytes, row->action, row->reason,
			 (unsigned long long)row->bytes, (unsigned long long)row->target);
}

static void test_stop(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(stop); i++)
		check(&rules, &stop[i]);
}

static void test_resume(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(resume); i++)
		check(&rules, &resume[i]);
}

static void test_release(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(release); i++)
		check(&rules, &release[i]);
}

/* The figures are the caller's. */
static void test_rules(void **state)
{
	static const struct decide_rules other = { 50, 80, 10, 100 };
	/* clang-format off */
	static const struct row table[] = {
		{ "above 50 %", { STOPPED(501, 1000, AGES) }, DECIDE_NOTHING, DECIDE_FINE, 0, 0 },
		{ "at 50 %", { STOPPED(500, 1000, 10) }, DECIDE_RESUME, DECIDE_ROOM, 0, 0 },
		{ "dwells", { STOPPED(500, 1000, 9) }, DECIDE_NOTHING, DECIDE_DWELLS, 0, 0 },
		{ "to 80 % of high", { HIGH(1001, 1000) }, DECIDE_RELEASE, DECIDE_HIGH, 201, 800 },
		{ "cools", { HIGH(1001, 1000), ASKED(1002, 800, 99) }, DECIDE_NOTHING, DECIDE_COOLS, 0, 0 },
		{ "again", { HIGH(1001, 1000), ASKED(1002, 800, 100) }, DECIDE_RELEASE, DECIDE_HIGH, 201, 800 },
	};
	/* clang-format on */

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++)
		check(&other, &table[i]);
}

/* How often each action is taken of a budget in 20 s of looks, 50 ms apart. */
struct tally {
	unsigned int of[DECIDE_WITHDRAW + 1];
};

static void look(struct decide_past *past, struct decide_in *in, uint64_t now_ms, struct tally *t)
{
	struct decide_out out;
	unsigned int actions = 0;

	do {
		decide_recall(past, now_ms, in);
		out = decide(&rules, in);
		decide_remember(past, in, &out, now_ms);
		t->of[out.action]++;
		assert_true(++actions < 4); /* it ends */
	} while (out.action != DECIDE_NOTHING);
}

/* Around a fixed figure it comes to rest, whatever the figure. */
static void test_comes_to_rest(void **state)
{
	(void)state;
	for (uint64_t current = 0; current <= 2000; current++) {
		struct decide_past past = { 0 };
		struct decide_in in = { .current_bytes = current,
					.limit_bytes = 1000,
					.high_bytes = NONE };
		struct tally t = { 0 };

		for (uint64_t now = 5; now < 20000; now += 50)
			look(&past, &in, now, &t);
		assert_int_equal(t.of[DECIDE_STOP], current >= 1000);
		assert_int_equal(t.of[DECIDE_RESUME], 0);
		/* moves nothing: at 5, 8005 and 16005 ms */
		assert_int_equal(t.of[DECIDE_RELEASE], current > 1000 ? 3 : 0);
		assert_int_equal(t.of[DECIDE_WITHDRAW], 0);
	}
}

/* From lowered to given back to raised: each said once. */
static void test_story(void **state)
{
	struct decide_past past = { 0 };
	struct decide_in in = { .current_bytes = 640, .limit_bytes = 1000, .high_bytes = NONE };
	struct tally t = { 0 };

	(void)state;
	look(&past, &in, 1000, &t);
	assert_int_equal(t.of[DECIDE_NOTHING], 1);
	in.limit_bytes = 320;
	look(&past, &in, 1050, &t);
	assert_int_equal(t.of[DECIDE_STOP], 1);
	assert_int_equal(t.of[DECIDE_RELEASE], 1);
	assert_int_equal(past.release_target_bytes, 320);
	in.current_bytes = 400;
	look(&past, &in, 1100, &t);
	in.current_bytes = 320;
	look(&past, &in, 1150, &t);
	assert_int_equal(t.of[DECIDE_WITHDRAW], 1);
	in.limit_bytes = 1000;
	look(&past, &in, 1200, &t);
	assert_int_equal(t.of[DECIDE_RESUME], 1);
	for (uint64_t now = 1250; now < 10000; now += 50)
		look(&past, &in, now, &t);
	assert_int_equal(t.of[DECIDE_STOP], 1);
	assert_int_equal(t.of[DECIDE_RESUME], 1);
	assert_int_equal(t.of[DECIDE_RELEASE], 1);
	assert_int_equal(t.of[DECIDE_WITHDRAW], 1);
}

static void test_share(void **state)
{
	/* id, holds, asked before; what is asked of whom, in order */
	static const struct {
		const char *name;
		struct decide_holder holders[4];
		size_t count;
		uint64_t bytes;
		struct {
			int64_t id;
			uint64_t bytes;
		} asks[4];
		uint64_t rest;
	} table[] = {
		{ "nobody", { { 0 } }, 0, 10, { { 0 } }, 10 },
		{ "one", { { .id = 1, .bytes = 50 } }, 1, 10, { { 1, 10 } }, 0 },
		{ "largest first",
		  { { .id = 1, .bytes = 5 }, { .id = 2, .bytes = 50 }, { .id = 3, .bytes = 20 } },
		  3,
		  60,
		  { { 2, 50 }, { 3, 10 }, { 1, 0 } },
		  0 },
		{ "more than all hold",
		  { { .id = 1, .bytes = 5 }, { .id = 2, .bytes = 50 } },
		  2,
		  60,
		  { { 2, 50 }, { 1, 5 } },
		  5 },
		{ "equals by number",
		  { { .id = 9, .bytes = 5 }, { .id = 2, .bytes = 5 } },
		  2,
		  7,
		  { { 2, 5 }, { 9, 2 } },
		  0 },
		{ "asked in vain comes last",
		  { { .id = 1, .bytes = 500, .asked_bytes = 500 }, { .id = 2, .bytes = 10 } },
		  2,
		  7,
		  { { 2, 7 }, { 1, 0 } },
		  0 },
		{ "... but comes",
		  { { .id = 1, .bytes = 500, .asked_bytes = 400 }, { .id = 2, .bytes = 10 } },
		  2,
		  30,
		  { { 2, 10 }, { 1, 20 } },
		  0 },
		{ "asked and gave",
		  { { .id = 1, .bytes = 500, .asked_bytes = 501 }, { .id = 2, .bytes = 10 } },
		  2,
		  30,
		  { { 1, 30 }, { 2, 0 } },
		  0 },
		{ "nothing wanted", { { .id = 1, .bytes = 5 } }, 1, 0, { { 1, 0 } }, 0 },
		{ "holds nothing", { { .id = 1 } }, 1, 5, { { 1, 0 } }, 5 },
		{ "everything",
		  { { .id = 1, .bytes = UINT64_MAX }, { .id = 2, .bytes = BIG } },
		  2,
		  UINT64_MAX,
		  { { 1, UINT64_MAX }, { 2, 0 } },
		  0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct decide_holder h[4];
		uint64_t rest;

		memcpy(h, table[i].holders, sizeof(h));
		rest = decide_share(h, table[i].count, table[i].bytes);
		if (rest != table[i].rest)
			fail_msg("%s: rest %llu", table[i].name, (unsigned long long)rest);
		for (size_t j = 0; j < table[i].count; j++)
			if (h[j].id != table[i].asks[j].id ||
			    h[j].give_bytes != table[i].asks[j].bytes)
				fail_msg("%s: %zu. is %lld with %llu", table[i].name, j,
					 (long long)h[j].id, (unsigned long long)h[j].give_bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stop),	      cmocka_unit_test(test_resume),
		cmocka_unit_test(test_release),	      cmocka_unit_test(test_rules),
		cmocka_unit_test(test_comes_to_rest), cmocka_unit_test(test_story),
		cmocka_unit_test(test_share),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
