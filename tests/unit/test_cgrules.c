/* SPDX-License-Identifier: MIT */
/* Where cgrules.conf sends people: the reading of libcgroup's print-out, and the whole
 * way through libcgroup, with an /etc of the test's own. */
#include "tests/unit/config_case.h"

#include <errno.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "userspace/common/cgrules.h"
#include "userspace/common/cgroup.h"

/* libcgroup 2.0.2, word for word */
static const char text[] = "Rule: alice\n"
			   "  UID: 1001\n"
			   "  GID: N/A\n"
			   "  DEST: users/alice\n"
			   "  CONTROLLERS:\n"
			   "    cpu\n"
			   "    memory\n"
			   "  OPTIONS:\n"
			   "    IS_IGNORE: False\n"
			   "\n"
			   "Rule: @students:make\n"
			   "  UID: N/A\n"
			   "  GID: 2000\n"
			   "  DEST: students/%u/\n"
			   "  CONTROLLERS:\n"
			   "    *\n"
			   "  OPTIONS:\n"
			   "    IS_IGNORE: True\n"
			   "\n"
			   "Rule: %\n"
			   "  UID: N/A\n"
			   "  GID: 2000\n"
			   "  DEST: b\n"
			   "Rule: *\n"
			   "  UID: any\n"
			   "  GID: any\n"
			   "  DEST: /\n"
			   "  CONTROLLERS:\n"
			   "    *\n"
			   "  OPTIONS:\n"
			   "    IS_IGNORE: False\n"
			   "\n";

static int parse(const char *from, struct cgrules *ret)
{
	FILE *f = fmemopen((void *)from, strlen(from), "r");
	int err;

	assert_non_null(f);
	err = cgrules_parse(f, ret);
	fclose(f);
	return err;
}

static void test_parse(void **state)
{
	struct cgrules r;
	const struct cgrules_line *l;

	(void)state;
	assert_int_equal(parse(text, &r), 0);
	assert_int_equal(r.count, 4);
	l = r.lines;
	assert_int_equal(l->uid, 1001);
	assert_int_equal(l->gid, CGRULES_NOBODY);
	assert_string_equal(l->dest, "users/alice");
	assert_false(l->process || l->ignore || l->everybody);
	l++;
	assert_int_equal(l->uid, CGRULES_NOBODY);
	assert_int_equal(l->gid, 2000);
	assert_string_equal(l->dest, "students/%u/");
	assert_true(l->process && l->ignore && !l->everybody);
	assert_false(l->continues);
	l++;
	assert_true(l->continues && l->gid == 2000);
	l++;
	assert_true(l->everybody && !l->process && !l->ignore);
	cgrules_done(&r);
}

static void test_parse_odd(void **state)
{
	struct cgrules r = { .count = 42 };

	(void)state;
	assert_int_equal(parse("Rule: x\n  UID: N/A\n", &r), -EBADMSG);
	assert_int_equal(parse("Rule: x\n  UID: 1x\n  DEST: a\n", &r), -EBADMSG);
	assert_int_equal(parse("Rule: x\n  UID: 4294967296\n  DEST: a\n", &r), -EBADMSG);
	assert_int_equal(r.count, 42);
	assert_int_equal(parse("The rules table is empty.\n\n", &r), 0);
	assert_int_equal(r.count, 0);
	cgrules_done(&r);
}

static void test_pattern(void **state)
{
	static const struct cgrules_names all = { "al*ice", "1001", "users", "100" }, none = { 0 };
	static const struct {
		const char *dest, *all, *none;
	} table[] = {
		{ "a/b", "/a/b", "/a/b" },
		{ "/a//b/", "/a/b", "/a/b" },
		{ "/", "/", "/" },
		{ "users/%u", "/users/al[*]ice", "/users/*" },
		{ "%U/x%G-%g", "/1001/x100-users", "/*/x*-*" },
		{ "a/%p/%P", "/a/*/*", "/a/*/*" },
		{ "100%", "/100%", "/100%" },
		{ "%%u", "/%%u", "/%%u" }, /* as libcgroup reads it */
		{ "%x", "/%x", "/%x" },
		{ "a[1]?", "/a[[]1][?]", "/a[[]1][?]" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		char *a = cgrules_pattern(table[i].dest, &all);
		char *b = cgrules_pattern(table[i].dest, &none);

		assert_string_equal(a, table[i].all);
		assert_string_equal(b, table[i].none);
		free(a);
		free(b);
	}
	assert_true(cgrules_is_per_user("a/%u"));
	assert_true(cgrules_is_per_user("%U"));
	assert_false(cgrules_is_per_user("a/%g"));
}

static const char passwd[] = "root:x:0:0::/:/bin/sh\n"
			     "alice:x:1001:100::/:/bin/sh\n"
			     "bob:x:1002:100::/:/bin/sh\n"
			     "carol:x:1003:2000::/:/bin/sh\n"
			     "dave:x:1004:100::/:/bin/sh\n"
			     "erin:x:1005:100::/:/bin/sh\n";
static const char group[] = "root:x:0:\n"
			    "users:x:100:\n"
			    "students:x:2000:bob\n"
			    "staff:x:3000:alice,dave,gone\n"
			    "empty:x:4000:\n";
static const char cgrules_conf[] = "# who      what   where\n"
				   "alice      cpu    people/alice/\n"
				   "%          memory big/alice\n"
				   "dave:make  cpu    builds/%u\n"
				   "dave       *      /dave\n"
				   "dave       *      /never\n"
				   "erin       *      x ignore\n"
				   "@students  *      students/%u/%p\n"
				   "@staff     cpu    shared\n"
				   "*          *      all/%U\n";

static const struct {
	const char *match;
	const char *path;
	bool matches;
} who[] = {
	{ "user:alice", "/user.slice/user-1001.slice", true },
	{ "user:1001", "/people/alice", true },
	{ "user:alice", "/big/alice", true }, /* the line goes on in the next */
	{ "user:alice", "/people/alice/x", false },
	{ "user:alice", "/shared", false },
	{ "user:alice", "/all/1001", false }, /* the first line that fits */
	{ "user:dave", "/builds/dave", true },
	{ "user:dave", "/dave", true },
	{ "user:dave", "/never", false },
	{ "user:erin", "/user.slice/user-1005.slice", true },
	{ "user:erin", "/x", false },
	{ "user:erin", "/all/1005", false },
	{ "user:bob", "/students/bob/make", true },
	{ "user:bob", "/students/carol/make", false },
	{ "user:carol", "/students/carol/x", true }, /* by her first group */
	{ "user:root", "/all/0", true },
	{ "user:root", "/all/1", false },
	{ "user:7777", "/all/7777", true }, /* nobody of this name */
	{ "user:7777", "/user.slice/user-7777.slice", true },
	{ "group:students", "/students/anybody/x", true },
	{ "group:2000", "/user.slice/user-1002.slice", true },
	{ "group:students", "/user.slice/user-1003.slice", true },
	{ "group:students", "/user.slice/user-1001.slice", false },
	{ "group:staff", "/shared", true },
	{ "group:staff", "/people/alice", true },
	{ "group:staff", "/user.slice/user-1004.slice", true },
	{ "group:empty", "/shared", false },
	{ "group:empty", "/user.slice/user-4000.slice", false },
};

static int own_etc(void)
{
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/etc", "tmpfs", 0, NULL))
		return -errno;
	write_text("/etc/passwd", passwd);
	write_text("/etc/group", group);
	write_text("/etc/nsswitch.conf", "passwd: files\ngroup: files\n");
	return 0;
}

static void check_people(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(who); i++) {
		struct config_error error;
		struct config *c = NULL;
		char yaml[100];

		snprintf(yaml, sizeof(yaml), "budgets:\n- match: %s\n", who[i].match);
		if (config_parse("t", yaml, strlen(yaml), &c, &error))
			fail_msg("%s", error.text);
		if (!rules_find(&c->rules, who[i].path) == who[i].matches)
			fail_msg("%s and %s: not %d", who[i].match, who[i].path, who[i].matches);
		config_free(c);
	}
}

/* In a child: the file systems it mounts are its own. */
static void in_own_etc(void (*fn)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (!pid) {
		if (own_etc())
			_exit(77);
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
		print_message("no mount namespace: not run\n");
		skip();
	}
	assert_int_equal(status, 0);
}

static void people(void)
{
	write_text("/etc/cgrules.conf", cgrules_conf);
	check_people();
}

static void no_rules(void)
{
	char *printed_rules = NULL;
	size_t len;
	FILE *f = open_memstream(&printed_rules, &len);
	struct config *c = NULL;
	struct config_error error;
	static const char yaml[] = "budgets:\n- match: user:alice\n";

	assert_int_equal(cgroup_print_rules(f), -ENOENT);
	fclose(f);
	free(printed_rules);
	assert_int_equal(config_parse("t", yaml, strlen(yaml), &c, &error), 0);
	assert_int_equal(c->rules.list[0].glob_count, 1);
	config_free(c);
	/* it is there, and says nothing */
	write_text("/etc/cgrules.conf", "# nothing\n");
	assert_int_equal(config_parse("t", yaml, strlen(yaml), &c, &error), 0);
	assert_int_equal(c->rules.list[0].glob_count, 1);
	config_free(c);
}

static void bad_rules(void)
{
	write_text("/etc/cgrules.conf", "alice\n");
	write_text("/tmp/pincap-bad.yaml", "tick: 1s\nbudgets:\n- match: user:alice\n");
	expect_fault("/tmp/pincap-bad.yaml",
		     "/tmp/pincap-bad.yaml:3: budgets[0].match: ", "/etc/cgrules.conf");
	unlink("/tmp/pincap-bad.yaml");
}

static void test_people(void **state)
{
	(void)state;
	in_own_etc(people);
}

static void test_no_rules(void **state)
{
	(void)state;
	in_own_etc(no_rules);
}

static void test_bad_rules(void **state)
{
	(void)state;
	in_own_etc(bad_rules);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),	 cmocka_unit_test(test_parse_odd),
		cmocka_unit_test(test_pattern),	 cmocka_unit_test(test_people),
		cmocka_unit_test(test_no_rules), cmocka_unit_test(test_bad_rules),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
