/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <time.h>

#include "userspace/common/hostmem.h"
#include "userspace/common/size.h"
#include "userspace/common/util.h"
#include "userspace/control/config.h"

#define GIB (1ULL << 30)

static struct config *parse(const char *text)
{
	struct config *c = NULL;
	struct config_error error;

	if (config_parse("test", text, strlen(text), &c, &error))
		fail_msg("%s", error.text);
	return c;
}

static const char *match_of(const struct config *c, const char *path)
{
	const struct rule *rule = rules_find(&c->rules, path);

	return rule ? rule->match : "none";
}

static void test_last_wins(void **state)
{
	struct config *c = parse("budgets:\n"
				 "- match: /user.slice/**\n"
				 "  limit: 1G\n"
				 "  min: 1M\n"
				 "- match: /user.slice/user-*.slice\n"
				 "  limit: 2G\n"
				 "- match: /user.slice/user-0.slice\n"
				 "- match: /\n");

	(void)state;
	assert_string_equal(match_of(c, "/user.slice"), "none");
	assert_string_equal(match_of(c, "/system.slice"), "none");
	assert_string_equal(match_of(c, "/"), "/");
	assert_string_equal(match_of(c, "/user.slice/x"), "/user.slice/**");
	assert_string_equal(match_of(c, "/user.slice/user-1.slice"), "/user.slice/user-*.slice");
	assert_string_equal(match_of(c, "/user.slice/user-1.slice/s"), "/user.slice/**");
	assert_string_equal(match_of(c, "/user.slice/user-0.slice"), "/user.slice/user-0.slice");
	/* as a whole: nothing of the earlier rules shines through */
	assert_true(rules_find(&c->rules, "/user.slice/user-0.slice")->limit.bytes ==
		    SIZE_UNLIMITED);
	assert_int_equal(rules_find(&c->rules, "/user.slice/user-1.slice")->min.bytes, 0);
	config_free(c);
}

static void test_none(void **state)
{
	struct rules none = { 0 };

	(void)state;
	assert_null(rules_find(&none, "/"));
	assert_null(rules_find(&none, "/a/b"));
	rules_done(&none);
}

/* limit, high and min as written, and what they come to; -1: infinity */
static const struct {
	const char *limit, *high, *min;
	struct rule_base base;
	struct rule_sizes sizes;
} resolved[] = {
	{ "8G", "6G", "1G", { 0 }, { 8 * GIB, 6 * GIB, GIB } },
	{ "infinity", "infinity", "0", { 0 }, { SIZE_UNLIMITED, SIZE_UNLIMITED, 0 } },
	{ "0", "0", "0", { 0 }, { 0, 0, 0 } },
	{ "40%", "30%", "10%", { 100 * GIB, 0 }, { 40 * GIB, 30 * GIB, 10 * GIB } },
	{ "100%", "infinity", "0%", { 4096, 0 }, { 4096, SIZE_UNLIMITED, 0 } },
	{ "12.5%", "infinity", "0", { 8 * GIB, 0 }, { GIB, SIZE_UNLIMITED, 0 } },
	/* mixed: the limit holds */
	{ "50%", "6G", "1G", { 8 * GIB, 0 }, { 4 * GIB, 4 * GIB, GIB } },
	{ "50%", "6G", "5G", { 8 * GIB, 0 }, { 4 * GIB, 4 * GIB, 4 * GIB } },
	{ "8G", "50%", "3G", { 4 * GIB, 0 }, { 8 * GIB, 2 * GIB, 2 * GIB } },
	{ "2G", "infinity", "50%", { 64 * GIB, 0 }, { 2 * GIB, SIZE_UNLIMITED, 2 * GIB } },
	/* auto: max(0.4 R, min(0.9 R, R - 4 GiB, R + S - 16 GiB)) */
	{ "auto", "infinity", "0", { 100 * GIB, 0 }, { 84 * GIB, SIZE_UNLIMITED, 0 } },
	{ "auto", "infinity", "0", { 100 * GIB, 8 * GIB }, { 90 * GIB, SIZE_UNLIMITED, 0 } },
	{ "auto", "infinity", "0", { 10 * GIB, 0 }, { 4 * GIB, SIZE_UNLIMITED, 0 } },
};

static void test_resolve(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(resolved); i++) {
		struct rule rule = rule_default;
		struct rule_sizes got, want = resolved[i].sizes;

		assert_int_equal(rule_size_parse(resolved[i].limit, &rule.limit), 0);
		assert_int_equal(rule_size_parse(resolved[i].high, &rule.high), 0);
		assert_int_equal(rule_size_parse(resolved[i].min, &rule.min), 0);
		assert_int_equal(rule_resolve(&rule, &resolved[i].base, &got), 0);
		if (got.limit_bytes != want.limit_bytes || got.high_bytes != want.high_bytes ||
		    got.min_bytes != want.min_bytes)
			fail_msg("%zu: %ju %ju %ju", i, (uintmax_t)got.limit_bytes,
				 (uintmax_t)got.high_bytes, (uintmax_t)got.min_bytes);
	}
}

/* An unknown base is not a base of 0, which would refuse everything. */
static void test_unknown_base(void **state)
{
	static const char *const relative[] = { "40%", "auto", "0%" };
	struct rule_base unknown = { 0 };
	struct rule_sizes got = { 1, 2, 3 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(relative); i++) {
		struct rule rule = rule_default;

		assert_int_equal(rule_size_parse(relative[i], &rule.limit), 0);
		assert_int_equal(rule_resolve(&rule, &unknown, &got), -ENODATA);
		assert_int_equal(got.limit_bytes, 1);
		assert_int_equal(got.min_bytes, 3);
	}
}

static void test_size_text(void **state)
{
	static const struct {
		const char *text, *back; /* NULL: not a size */
	} sizes[] = {
		{ "8G", "8589934592" },
		{ "infinity", "infinity" },
		{ "max", "infinity" },
		{ "auto", "auto" },
		{ "40%", "40%" },
		{ "99.9999999999999999%", "99.9999999999999999%" },
		{ "0", "0" },
		{ "AUTO", NULL },
		{ "%", NULL },
		{ "-1%", NULL },
		{ "", NULL },
		{ "0000000000000000000000001%", NULL }, /* too long to keep */
	};
	char buf[RULE_PERCENT_BYTES];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct rule_size s = { .bytes = 42 };
		int err = rule_size_parse(sizes[i].text, &s);

		assert_int_equal(err, sizes[i].back ? 0 : -EINVAL);
		if (!err)
			assert_string_equal(rule_size_format(&s, buf), sizes[i].back);
		else
			assert_int_equal(s.bytes, 42);
	}
	assert_int_equal(rule_size_parse("101%", &(struct rule_size){ 0 }), -ERANGE);
}

static bool less(const char *a, const char *b)
{
	struct rule_size x, y;

	assert_int_equal(rule_size_parse(a, &x) | rule_size_parse(b, &y), 0);
	return rule_size_is_less(&x, &y);
}

static void test_less(void **state)
{
	(void)state;
	assert_true(less("1G", "2G"));
	assert_false(less("2G", "2048M"));
	assert_true(less("2G", "infinity"));
	assert_true(less("9%", "10%"));
	assert_true(less("40%", "40.0000000000000001%"));
	assert_false(less("40%", "40.0%"));
	/* the machine decides */
	assert_false(less("1", "100%"));
	assert_false(less("0%", "1G"));
	assert_false(less("auto", "infinity"));
	assert_false(less("1G", "auto"));
}

/* 10,000 cgroups of a busy host against a hundred rules of every kind. */
static void test_speed(void **state)
{
	struct timespec a, b;
	struct config *c;
	char *text = NULL, path[200];
	size_t len, hits = 0;
	double ms;
	FILE *f = open_memstream(&text, &len);

	(void)state;
	fputs("budgets:\n", f);
	for (int i = 0; i < 40; i++)
		fprintf(f, "- match: /user.slice/user-%d.slice\n", i);
	for (int i = 0; i < 40; i++)
		fprintf(f, "- match: /system.slice/unit%d-*.service\n", i);
	for (int i = 0; i < 20; i++)
		fprintf(f, "- match: /kubepods.slice/**/pod%d*/*.scope\n", i);
	fclose(f);
	c = parse(text);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	for (int i = 0; i < 10000; i++) {
		static const char *const paths[] = {
			"/user.slice/user-%d.slice/session-1.scope",
			"/user.slice/user-%d.slice",
			"/system.slice/unit%d-a.service",
			"/kubepods.slice/kubepods-burstable.slice/pod%d_4f1c9e2a/cri-1.scope",
		};

		snprintf(path, sizeof(path), paths[i % 4], i / 4);
		hits += rules_find(&c->rules, path) != NULL;
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	ms = (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6;
	print_message("10000 cgroups, 100 rules: %.1f ms\n", ms);
	/* users 0-39, units 0-39, pods of every number that begins with 0 to 19 */
	assert_in_range(hits, 80, 10000);
	assert_true(ms < 250); /* five times the aim, for the sanitizers and a busy machine */
	config_free(c);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_last_wins), cmocka_unit_test(test_none),
		cmocka_unit_test(test_resolve),	  cmocka_unit_test(test_unknown_base),
		cmocka_unit_test(test_size_text), cmocka_unit_test(test_less),
		cmocka_unit_test(test_speed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
