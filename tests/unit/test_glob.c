/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <time.h>

#include "userspace/common/util.h"
#include "userspace/control/glob.h"

static const struct {
	const char *glob;
	const char *path;
	bool matches;
} table[] = {
	/* literal */
	{ "/", "/", true },
	{ "/", "/a", false },
	{ "/a", "/a", true },
	{ "/a", "/", false },
	{ "/a", "/ab", false },
	{ "/a", "/a/b", false },
	{ "/a/b", "/a", false },
	{ "/system.slice/a.service", "/system.slice/a.service", true },
	{ "/system.slice/a.service", "/system.slice/aXservice", false },
	{ "/a\\x2db", "/a\\x2db", true },
	{ "/a\\*", "/a\\bc", true }, /* a backslash is itself */
	{ "/a\\*", "/a*", false },
	/* one component */
	{ "/*", "/", false },
	{ "/*", "/a", true },
	{ "/*", "/a/b", false },
	{ "/*/*", "/a/b", true },
	{ "/*/*", "/a", false },
	{ "/a*", "/a", true },
	{ "/a*c", "/abc", true },
	{ "/a*c", "/abcd", false },
	{ "/a*c", "/acac", true },
	{ "/a*c", "/a/c", false },
	{ "/*a*a*a*b", "/aaaaaaaaaaaaaaaaaaaaaaaac", false },
	{ "/*a*a*a*b", "/aaaaaaaaaaaaaaaaaaaaaaaab", true },
	{ "/a*b*c", "/aXbXbXc", true },
	{ "/*.slice", "/.slice", true }, /* a leading dot is a byte */
	{ "/user.slice/user-*.slice", "/user.slice/user-1000.slice", true },
	{ "/user.slice/user-*.slice", "/user.slice/user-1000.slice/session-1.scope", false },
	{ "/user.slice/user-*.slice", "/user.slice", false },
	{ "/slurm*/uid_*/job_*", "/slurm_node1/uid_1000/job_7", true },
	{ "/slurm*/uid_*/job_*", "/slurm/uid_1000/job_7", true },
	{ "/slurm*/uid_*/job_*", "/slurm/uid_1000/job_7/step_0", false },
	{ "/?", "/a", true },
	{ "/?", "/ab", false },
	{ "/?", "/", false },
	{ "/a?c", "/abc", true },
	{ "/a?c", "/a/c", false },
	{ "/??", "/\xc3\xa4", true }, /* a letter of two bytes */
	{ "/\xc3\xa4*", "/\xc3\xa4x", true },
	/* sets */
	{ "/[abc]", "/b", true },
	{ "/[abc]", "/d", false },
	{ "/[a-c]x", "/bx", true },
	{ "/[a-c]", "/d", false },
	{ "/[!a-c]", "/d", true },
	{ "/[!a-c]", "/b", false },
	{ "/[^a]", "/b", true },
	{ "/[^a]", "/a", false },
	{ "/[!a]", "/", false },
	{ "/[]a]", "/]", true },
	{ "/[!]a]", "/]", false },
	{ "/[!]a]", "/b", true },
	{ "/[a-]", "/-", true },
	{ "/[-a]", "/-", true },
	{ "/[a-]", "/b", false },
	{ "/[*]", "/*", true },
	{ "/[*]", "/a", false },
	{ "/[[]", "/[", true },
	{ "/[?]x", "/?x", true },
	{ "/x]", "/x]", true }, /* alone it is itself */
	{ "/[0-9][0-9]*", "/42x", true },
	{ "/[0-9][0-9]*", "/4x", false },
	{ "/[a\\]", "/\\", true },
	{ "/[\x80-\xff]", "/\xc3", true },
	{ "/*[0-9]", "/job_17", true },
	{ "/*[0-9]", "/job_x", false },
	/* any depth */
	{ "/**", "/", false },
	{ "/**", "/a", true },
	{ "/**", "/a/b/c", true },
	{ "/a/**", "/a", false },
	{ "/a/**", "/a/b", true },
	{ "/a/**", "/a/b/c", true },
	{ "/a/**", "/ab/c", false },
	{ "/**/b", "/b", true },
	{ "/**/b", "/a/b", true },
	{ "/**/b", "/a/a/b", true },
	{ "/**/b", "/a/b/c", false },
	{ "/**/b", "/ab", false },
	{ "/a/**/b", "/a/b", true },
	{ "/a/**/b", "/a/x/y/b", true },
	{ "/a/**/b", "/a/b/x/b", true },
	{ "/a/**/b", "/a/b/x", false },
	{ "/a/**/b", "/b", false },
	{ "/a/**/b/**", "/a/b", false },
	{ "/a/**/b/**", "/a/x/b/y", true },
	{ "/**/**", "/a", true },
	{ "/**/**/a", "/a", true },
	{ "/**/*", "/a/b", true },
	{ "/**/x*/**/z", "/a/x1/b/c/z", true },
	{ "/**/x*/**/z", "/a/x1/b/c/zz", false },
	{ "/**/a/b", "/a/a/a/b", true },
	{ "/kubepods.slice/**", "/kubepods.slice/kubepods-pod1.slice/c.scope", true },
};

static const struct {
	const char *glob;
	const char *why;
} wrong[] = {
	{ "", "must begin with '/'" },	  { "a", "must begin with '/'" },
	{ "*", "must begin with '/'" },	  { "//", "empty component" },
	{ "/a/", "empty component" },	  { "/a//b", "empty component" },
	{ "/.", "'.' or '..'" },	  { "/a/..", "'.' or '..'" },
	{ "/***", "'**' beside" },	  { "/a**", "'**' beside" },
	{ "/**a/b", "'**' beside" },	  { "/[", "'[' without" },
	{ "/[]", "'[' without" },	  { "/[!]", "'[' without" },
	{ "/[a/b]", "'[' without" },	  { "/[b-a]", "wrong order" },
	{ "/[a-b-", "'[' without" },	  { "/a\nb", "control character" },
	{ "/\x7f", "control character" },
};

static struct glob *compile(const char *text)
{
	const char *why = "";
	struct glob *g = NULL;

	if (glob_compile(text, &g, &why))
		fail_msg("'%s' %s", text, why);
	assert_string_equal(glob_text(g), text);
	return g;
}

static void test_matches(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		struct glob *g = compile(table[i].glob);

		if (glob_matches(g, table[i].path) != table[i].matches)
			fail_msg("'%s' and '%s': not %d", table[i].glob, table[i].path,
				 table[i].matches);
		glob_free(g);
	}
}

static void test_wrong(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		const char *why = NULL;
		struct glob *g = NULL;

		if (glob_compile(wrong[i].glob, &g, &why) != -EINVAL)
			fail_msg("'%s' was accepted", wrong[i].glob);
		assert_null(g);
		if (!strstr(why, wrong[i].why))
			fail_msg("'%s' %s", wrong[i].glob, why);
	}
	glob_free(NULL);
}

static void test_too_long(void **state)
{
	char text[5000];
	const char *why = NULL;
	struct glob *g = NULL;

	(void)state;
	memset(text, 'a', sizeof(text) - 1);
	text[0] = '/';
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(glob_compile(text, &g, &why), -EINVAL);
	assert_non_null(strstr(why, "too long"));
}

static void test_escape(void **state)
{
	static const char *const names[] = { "/plain", "/a*b", "/[x]", "/?", "/a\\x2db", "/*?[" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char *text = glob_escape(names[i]);
		struct glob *g = compile(text);

		assert_true(glob_matches(g, names[i]));
		assert_false(glob_matches(g, "/axb"));
		assert_false(glob_matches(g, "/x"));
		glob_free(g);
		free(text);
	}
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Patterns that send naive matchers off for hours. */
static void test_no_blow_up(void **state)
{
	char path[4001], text[4001];
	struct glob *g;
	double start = seconds();

	(void)state;
	for (size_t i = 0; i < sizeof(path) - 1; i += 2)
		memcpy(path + i, "/a", 2);
	path[sizeof(path) - 1] = '\0';
	for (size_t i = 0; i + 3 < sizeof(text) - 3; i += 5)
		memcpy(text + i, "/**/a", 5);
	memcpy(text + sizeof(text) - 6, "/b", 3);
	g = compile(text);
	assert_false(glob_matches(g, path));
	glob_free(g);
	memset(path + 1, 'a', sizeof(path) - 2);
	text[0] = '/';
	for (size_t i = 1; i + 2 < sizeof(text); i += 2)
		memcpy(text + i, "*a", 2);
	memcpy(text + sizeof(text) - 4, "*b", 3);
	g = compile(text);
	assert_false(glob_matches(g, path));
	glob_free(g);
	assert_true(seconds() - start < 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_matches),	   cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_too_long),   cmocka_unit_test(test_escape),
		cmocka_unit_test(test_no_blow_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
