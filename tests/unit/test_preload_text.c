/* SPDX-License-Identifier: MIT */
/* What is in /etc/ld.so.preload, before and after. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "userspace/cli/preload_text.h"

#define NEW   "/usr/$LIB/pincap/libpincap-preload.so"
#define OLD   "/opt/libpincap-preload.so"
#define OTHER "/opt/other.so"

static const struct {
	const char *before; /* NULL: no file */
	const char *on;
	const char *off; /* of `on` */
} rows[] = {
	/* ours alone: what we made we take away */
	{ NULL, NEW "\n", NULL },
	/* an empty file was somebody's */
	{ "", "\n" NEW "\n", "\n" },
	{ "\n", "\n" NEW "\n", "\n" },
	{ "# a\n", "# a\n" NEW "\n", "# a\n" },
	{ OTHER "\n", OTHER "\n" NEW "\n", OTHER "\n" },
	/* without a newline at the end */
	{ OTHER, OTHER "\n" NEW "\n", OTHER "\n" },
	{ "# a", "# a\n" NEW "\n", "# a\n" },
	/* there already: nothing changes */
	{ NEW, NEW, NULL },
	{ NEW "\n" OTHER "\n", NEW "\n" OTHER "\n", OTHER "\n" },
	{ OTHER ":" NEW, OTHER ":" NEW, OTHER ":" },
	{ "  " NEW " \n", "  " NEW " \n", NULL },
	/* another place, twice, in every company */
	{ OLD "\n", NEW "\n", NULL },
	{ OLD "\n" OLD "\n" NEW "\n" NEW "\n", NEW "\n", NULL },
	{ "a.so:" OLD " b.so\t# " NEW "\n", "a.so:b.so\t# " NEW "\n" NEW "\n",
	  "a.so:b.so\t# " NEW "\n" },
	{ OLD " # why\n", "# why\n" NEW "\n", "# why\n" },
	{ "\n\n" OLD "\n\n", "\n\n\n" NEW "\n", "\n\n\n" },
	/* alike, and not ours */
	{ "/x/my" PRELOAD_LIBRARY "\n", "/x/my" PRELOAD_LIBRARY "\n" NEW "\n",
	  "/x/my" PRELOAD_LIBRARY "\n" },
	{ NEW ".old\n", NEW ".old\n" NEW "\n", NEW ".old\n" },
	{ "#" NEW "\n", "#" NEW "\n" NEW "\n", "#" NEW "\n" },
	{ "a#" NEW, "a#" NEW "\n" NEW "\n", "a#" NEW "\n" },
	/* by name alone it is ours */
	{ PRELOAD_LIBRARY "\n", NEW "\n", NULL },
};

static void check(const char *text, const char *entry, const char *expected)
{
	char *got = NULL;

	assert_int_equal(preload_text_edit(text, entry, &got), 0);
	if (expected) {
		assert_non_null(got);
		assert_string_equal(got, expected);
	} else {
		assert_null(got);
	}
	free(got);
}

static void test_edit(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		check(rows[i].before, NEW, rows[i].on);
		check(rows[i].on, NEW, rows[i].on);
		check(rows[i].on, NULL, rows[i].off);
		check(rows[i].off, NULL, rows[i].off);
	}
}

static void test_find(void **state)
{
	static const struct {
		const char *text;
		int n;
		const char *first;
	} finds[] = {
		{ NULL, 0, NULL },
		{ "", 0, NULL },
		{ "# " NEW "\n" OTHER, 0, NULL },
		{ NEW, 1, NEW },
		{ "# a\na:b c\t" OLD ":" NEW "# " NEW "\n" NEW, 3, OLD },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(finds); i++) {
		char *first = NULL;

		assert_int_equal(preload_text_find(finds[i].text, &first), finds[i].n);
		if (finds[i].first)
			assert_string_equal(first, finds[i].first);
		free(first);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_edit),
		cmocka_unit_test(test_find),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
