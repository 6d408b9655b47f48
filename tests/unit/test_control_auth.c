/* SPDX-License-Identifier: MIT */
/* Who may do what by the control socket: a table. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "userspace/common/util.h"
#include "userspace/control/control_auth.h"

#define MIB  1048576ULL
#define FREE PINCAP_UNLIMITED

static const struct {
	const char *what;
	struct control_facts facts;
	struct pincap_set_budget budget;
	int want;
} sets[] = {
	{ "root sets anything",
	  { 0, false, true, MIB },
	  { .limit = 8 * MIB, .min = MIB, .mask = PINCAP_SET_LIMIT | PINCAP_SET_MIN },
	  0 },
	{ "root lifts", { 0, false, false, FREE }, { .limit = FREE, .mask = PINCAP_SET_LIMIT }, 0 },
	{ "nothing to set", { 0, true, false, FREE }, { .mask = 0 }, -EINVAL },
	{ "something unknown", { 0, true, false, FREE }, { .mask = 1U << 30 }, -EINVAL },
	{ "rules are the daemon's to mark",
	  { 0, true, false, FREE },
	  { .mask = PINCAP_SET_RULED },
	  -EINVAL },
	{ "a user, below his own",
	  { 1000, true, false, FREE },
	  { .limit = MIB, .mask = PINCAP_SET_LIMIT },
	  0 },
	{ "as much as those above have",
	  { 1000, true, false, 4 * MIB },
	  { .limit = 4 * MIB, .mask = PINCAP_SET_LIMIT },
	  0 },
	{ "a byte more",
	  { 1000, true, false, 4 * MIB },
	  { .limit = 4 * MIB + 1, .mask = PINCAP_SET_LIMIT },
	  -ERANGE },
	{ "high likewise",
	  { 1000, true, false, 4 * MIB },
	  { .high = 5 * MIB, .mask = PINCAP_SET_HIGH },
	  -ERANGE },
	{ "he lifts what he set",
	  { 1000, true, false, 4 * MIB },
	  { .limit = FREE, .mask = PINCAP_SET_LIMIT },
	  0 },
	{ "nothing at all", { 1000, true, false, 0 }, { .limit = 0, .mask = PINCAP_SET_LIMIT }, 0 },
	{ "another's",
	  { 1000, false, false, FREE },
	  { .limit = MIB, .mask = PINCAP_SET_LIMIT },
	  -EPERM },
	{ "a rule's",
	  { 1000, true, true, FREE },
	  { .limit = MIB, .mask = PINCAP_SET_LIMIT },
	  -EPERM },
	{ "protection from the host's needs",
	  { 1000, true, false, FREE },
	  { .min = MIB, .mask = PINCAP_SET_MIN },
	  -EPERM },
	{ "a way past refusals",
	  { 1000, true, false, FREE },
	  { .alloc = PINCAP_ALLOC_PASS, .mask = PINCAP_SET_ALLOC },
	  -EPERM },
	{ "hidden behind what he may",
	  { 1000, true, false, FREE },
	  { .limit = MIB, .min = MIB, .mask = PINCAP_SET_LIMIT | PINCAP_SET_MIN },
	  -EPERM },
	{ "observe is a rule's",
	  { 1000, true, false, FREE },
	  { .observe = 1, .mask = PINCAP_SET_OBSERVE },
	  -EINVAL },
};

static void may_set(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(sets); i++) {
		const char *why;
		int err = control_may_set(&sets[i].facts, &sets[i].budget, &why);

		if (err != sets[i].want)
			fail_msg("%s: %d, not %d", sets[i].what, err, sets[i].want);
		assert_non_null(why);
		assert_true(!err || *why);
	}
}

static const struct {
	const char *what;
	uid_t uid;
	bool is_of_group;
	const char *at, *cgpath;
	bool is_owned, want;
} reads[] = {
	{ "root", 0, false, "/a", "/b", false, true },
	{ "the group", 1000, true, "/a", "/b", false, true },
	{ "where he is", 1000, false, "/a/b", "/a/b", false, true },
	{ "what binds him", 1000, false, "/a/b", "/a", false, true },
	{ "the root", 1000, false, "/a/b", "/", false, true },
	{ "below, another's", 1000, false, "/a/b", "/a/b/c", false, false },
	{ "below, his", 1000, false, "/a/b", "/a/b/c", true, true },
	{ "beside", 1000, false, "/a/b", "/a/c", false, false },
	{ "beside, his", 1000, false, "/a/b", "/a/c", true, true },
	{ "a longer name", 1000, false, "/a/bc", "/a/b", false, false },
};

static void may_read(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(reads); i++) {
		const struct control_reader r = { reads[i].uid, reads[i].is_of_group, reads[i].at };

		if (control_may_read(&r, reads[i].cgpath, reads[i].is_owned) != reads[i].want)
			fail_msg("%s: not %d", reads[i].what, reads[i].want);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(may_set),
		cmocka_unit_test(may_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
