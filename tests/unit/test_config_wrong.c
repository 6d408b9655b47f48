/* SPDX-License-Identifier: MIT */
/* Configurations that are wrong, and the one line that each must give. */
#include "tests/unit/config_case.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define RULE "budgets:\n- match: /a\n" /* line 3 is the rule's next key */

static const struct {
	const char *text;
	const char *where; /* LINE: KEY */
	const char *what;
} wrong[] = {
	/* sizes */
	{ RULE "  limit: 8Q\n", "3: budgets[0].limit", "'8Q' is not a size" },
	{ RULE "  limit: 8 G\n", "3: budgets[0].limit", "'8 G' is not a size" },
	{ RULE "  limit: -1\n", "3: budgets[0].limit", "'-1' is not a size" },
	{ RULE "  limit: 1.5\n", "3: budgets[0].limit", "'1.5' is not a size" },
	{ RULE "  limit: 0x10\n", "3: budgets[0].limit", "'0x10' is not a size" },
	{ RULE "  limit: 8Gx\n", "3: budgets[0].limit", "'8Gx' is not a size" },
	{ RULE "  limit: 101%\n", "3: budgets[0].limit", "'101%' is out of range" },
	{ RULE "  limit: 16384P\n", "3: budgets[0].limit", "'16384P' is out of range" },
	{ RULE "  limit: 99999999999999999999\n", "3: budgets[0].limit", "is out of range" },
	{ RULE "  limit:\n", "3: budgets[0].limit", "'' is not a size" },
	{ RULE "  limit: ~\n", "3: budgets[0].limit", "'~' is not a size" },
	{ RULE "  limit: true\n", "3: budgets[0].limit", "'true' is not a size" },
	{ RULE "  limit:\n\n    8Q\n", "3: budgets[0].limit", "'8Q' is not a size" },
	{ RULE "  limit: \"8G\\n\"\n", "3: budgets[0].limit", "'8G?' is not a size" },
	{ RULE "  high: auto\n", "3: budgets[0].high", "'auto' is not a size for this" },
	{ RULE "  min: auto\n", "3: budgets[0].min", "'auto' is not a size for this" },
	{ RULE "  min: infinity\n", "3: budgets[0].min", "'infinity' is not a size for this" },
	{ "reserve: infinity\n", "1: reserve", "'infinity' is not a size for this" },
	{ "reserve: auto\n", "1: reserve", "'auto' is not a size for this" },
	{ "reserve: 4 GiB\n", "1: reserve", "'4 GiB' is not a size" },
	{ "reserve: 100.1%\n", "1: reserve", "out of range" },
	/* sizes against each other */
	{ RULE "  limit: 8G\n  high: 9G\n", "4: budgets[0].high", "'9G' is above limit '8G'" },
	{ RULE "  min: 9G\n  limit: 8G\n", "3: budgets[0].min", "'9G' is above limit '8G'" },
	{ RULE "  high: 1G\n  min: 2G\n", "4: budgets[0].min", "'2G' is above high '1G'" },
	{ RULE "  limit: 40%\n  high: 40.0000000000000001%\n", "4: budgets[0].high",
	  "is above limit '40%'" },
	{ RULE "  limit: 0\n  min: 1\n", "4: budgets[0].min", "is above limit '0'" },
	/* words */
	{ RULE "  mode: kernel\n", "3: budgets[0].mode", "write enforce or observe" },
	{ RULE "  mode: Enforce\n", "3: budgets[0].mode", "'Enforce' is not known" },
	{ RULE "  mode:\n", "3: budgets[0].mode", "'' is not known" },
	{ RULE "  alloc: deny\n", "3: budgets[0].alloc", "write refuse, pageable or pass" },
	{ RULE "  release: yes\n", "3: budgets[0].release",
	  "write cooperative, transparent or none" },
	{ "log: verbose\n", "1: log", "write error, warning, info or debug" },
	{ "dry_run: maybe\n", "1: dry_run", "write false or true" },
	{ "dry_run: 1\n", "1: dry_run", "write false or true" },
	/* times and percentages */
	{ "tick: 250\n", "1: tick", "'250' is not a time" },
	{ "tick: 1.5s\n", "1: tick", "'1.5s' is not a time" },
	{ "tick: -1s\n", "1: tick", "'-1s' is not a time" },
	{ "tick: 10ms\n", "1: tick", "from 50ms to 1s" },
	{ "tick: 2s\n", "1: tick", "from 50ms to 1s" },
	{ "tick: 0s\n", "1: tick", "out of range" },
	{ "dwell: 5000000000ms\n", "1: dwell", "out of range" },
	{ "release_timeout: 1d\n", "1: release_timeout", "'1d' is not a time" },
	{ "release_cooldown: 2h\n", "1: release_cooldown", "from 100ms to 1h" },
	{ "hysteresis: 10\n", "1: hysteresis", "'10' is not a percentage" },
	{ "hysteresis: 0%\n", "1: hysteresis", "from 1% to 50%" },
	{ "hysteresis: 51%\n", "1: hysteresis", "from 1% to 50%" },
	{ "hysteresis: 4294967306%\n", "1: hysteresis", "from 1% to 50%" },
	/* paths and names */
	{ "notify_socket: run/x\n", "1: notify_socket", "begins with '/'" },
	{ "notify_socket: /run/\n", "1: notify_socket", "not the path of a file" },
	{ "notify_socket: \"/run/a\\tb\"\n", "1: notify_socket", "'/run/a?b'" },
	{ "control_socket: /run/pincap/notify.sock\n", "1: control_socket", "the other socket" },
	{ "control_socket: /"
	  "12345678901234567890123456789012345678901234567890"
	  "123456789012345678901234567890123456789012345678901234567\n",
	  "1: control_socket", "at most 107 bytes" },
	{ "group: no-such-group\n", "1: group", "there is no group 'no-such-group'" },
	{ "group: -1\n", "1: group", "there is no group '-1'" },
	{ "devices:\n  kfd: dev/kfd\n", "2: devices.kfd", "begins with '/'" },
	{ "devices:\n  kfd:\n", "2: devices.kfd", "begins with '/'" },
	/* matches */
	{ "budgets:\n- match: user.slice\n", "2: budgets[0].match", "is no pattern" },
	{ "budgets:\n- match:\n", "2: budgets[0].match", "'' is no pattern" },
	{ "budgets:\n- match: /a//b\n", "2: budgets[0].match", "an empty component" },
	{ "budgets:\n- match: /a/\n", "2: budgets[0].match", "'/' at the end" },
	{ "budgets:\n- match: /a/../b\n", "2: budgets[0].match", "'..'" },
	{ "budgets:\n- match: /a**\n", "2: budgets[0].match", "'**' beside something else" },
	{ "budgets:\n- match: /a[bc\n", "2: budgets[0].match", "'[' without its ']'" },
	{ "budgets:\n- match: '/a[/]'\n", "2: budgets[0].match", "'[' without its ']'" },
	{ "budgets:\n- match: '/a[z-a]'\n", "2: budgets[0].match", "wrong order" },
	{ "budgets:\n- match: \"/a\\x01\"\n", "2: budgets[0].match", "control character" },
	{ "budgets:\n- match: user:no-such-user\n", "2: budgets[0].match",
	  "there is no user 'no-such-user'" },
	{ "budgets:\n- match: 'user:'\n", "2: budgets[0].match", "there is no user ''" },
	{ "budgets:\n- match: group:4294967295\n", "2: budgets[0].match", "there is no group" },
	{ "budgets:\n- match: {user: root}\n", "2: budgets[0].match", "must be one value" },
	{ RULE "- match: /b\n- match: /a\n", "4: budgets[2].match",
	  ":2 has the same match; merge" },
	{ "budgets:\n- match: user:root\n- match: user:0\n", "3: budgets[1].match",
	  ":2 has the same match" },
	/* rungs */
	{ RULE "  on_over: [logg]\n", "3: budgets[0].on_over[0]", "'logg' is not a rung" },
	{ RULE "  on_over:\n  - log\n  - kill\n", "5: budgets[0].on_over[1]",
	  "needs 'after TIME'" },
	{ RULE "  on_over: [kill after now]\n", "3: budgets[0].on_over[0]", "has no time" },
	{ RULE "  on_over: [kill after 0s]\n", "3: budgets[0].on_over[0]", "from 1s to 24h" },
	{ RULE "  on_over: [kill after 25h]\n", "3: budgets[0].on_over[0]", "from 1s to 24h" },
	{ RULE "  on_over: [signal after 5s]\n", "3: budgets[0].on_over[0]", "is not a rung" },
	{ RULE "  on_over: [signal:KILL after 5s]\n", "3: budgets[0].on_over[0]",
	  "names no signal" },
	{ RULE "  on_over: [signal:15 after 5s]\n", "3: budgets[0].on_over[0]", "names no signal" },
	{ RULE "  on_over: [log after 5s]\n", "3: budgets[0].on_over[0]", "remove 'after'" },
	{ RULE "  on_over: [log:x]\n", "3: budgets[0].on_over[0]", "is not a rung" },
	{ RULE "  on_over: [log, log]\n", "3: budgets[0].on_over[1]", "is there twice" },
	{ RULE "  on_over: [freeze after 1min, log]\n", "3: budgets[0].on_over[1]",
	  "order of their times" },
	{ RULE "  on_over: [log, freeze after 60s]\n  mode: observe\n", "3: budgets[0].on_over[1]",
	  "does more than observe" },
	{ RULE "  on_over: log\n", "3: budgets[0].on_over", "must be a list" },
	{ RULE "  on_over: [[log]]\n", "3: budgets[0].on_over[0]", "must be one value" },
	{ RULE "  on_over: [a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a]\n", "3: budgets[0].on_over",
	  "more than 16 entries" },
	/* keys and structure */
	{ "tock: 1s\n", "1: tock", "no such key; there are budgets, devices, reserve, tick" },
	{ "tick: 1s\n\n\n# far below\nTick: 1s\n", "5: Tick", "no such key" },
	{ RULE "  high: 1G\n  limti: 8G\n", "4: budgets[0].limti",
	  "no such key; there are match, limit, high, min" },
	{ RULE "- match: /b\n  limit:\n    x: 1\n", "4: budgets[1].limit", "must be one value" },
	{ "devices:\n  kfd: /a\n  nvidia: /b\n", "3: devices.nvidia", "there are kfd, drm" },
	{ "devices: /dev/kfd\n", "1: devices", "must have keys" },
	{ "devices: [/dev/kfd]\n", "1: devices", "must have keys" },
	{ "tick: 1s\n# between\ntick: 100ms\n", "3: tick", "second time; first in line 1" },
	{ RULE "  limit: 1G\n  high: 1G\n  limit: 2G\n", "5: budgets[0].limit",
	  "second time; first in line 3" },
	{ "budgets: []\nbudgets: []\n", "2: budgets", "second time" },
	{ "budgets:\n- limit: 8G\n", "2: budgets[0].match", "is missing" },
	{ RULE "-\n  limit: 8G\n  high: 8G\n- match: /b\n", "4: budgets[1].match", "is missing" },
	{ "budgets:\n- {}\n", "2: budgets[0].match", "is missing" },
	{ "budgets: 8G\n", "1: budgets", "must be a list" },
	{ "budgets:\n  match: /a\n", "1: budgets", "must be a list" },
	{ "budgets:\n- /a\n", "2: budgets[0]", "must have keys" },
	{ "budgets:\n-\n", "2: budgets[0]", "must have keys" },
	{ "budgets:\n- [match, /a]\n", "2: budgets[0]", "must have keys" },
	{ "- match: /a\n", "1: top level", "must have keys" },
	{ "just words\n", "1: top level", "must have keys" },
	{ "~\n", "1: top level", "must have keys" },
	{ "tick: [1s]\n", "1: tick", "must be one value" },
	{ "? [a, b]\n: c\n", "1: top level", "a key that is not a word" },
	{ "'': c\n", "1: ", "no such key" },
	{ "\"a\\0b\": c\n", "1: top level", "key that is too long or not text" },
	{ "tick: \"1s\\0\"\n", "1: tick", "a NUL character" },
	{ "a123456789b123456789c123456789d123456789e123456789f123456789g1234: x\n", "1: top level",
	  "key that is too long" },
	/* what YAML has and no configuration needs */
	{ "tick: &t 1s\ndwell: *t\n", "1: tick", "has an anchor" },
	{ "tick: 1s\ndwell: *t\n", "2: dwell", "is an alias" },
	{ "tick: !!str 1s\n", "1: tick", "has a tag" },
	{ "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\n", "1: a", "has an anchor" },
	{ "budgets: &b\n- *b\n", "1: budgets", "has an anchor" },
	{ RULE "  <<: {limit: 8G}\n", "3: budgets[0].<<", "no such key" },
	{ "a: [[[[[[[[[[[[\n", "1: a[0][0][0][0][0][0][0]", "nested too deeply" },
	{ "tick: 1s\n---\ntick: 1s\n", "2: top level", "a second document" },
	{ "tick: 1s\n...\n---\n", "3: top level", "a second document" },
	/* not YAML */
	{ "budgets:\n\t- match: /a\n", "2: budgets", "spaces, not with tabs" },
	{ "tick: 1s\n  dwell: 1s\n", "2: tick", "not YAML: mapping values are not allowed" },
	{ "tick: 1s\nbudgets: [\n", "3: budgets", "not YAML" },
	{ "tick: 'abc\nx: y\n", "3: tick", "that began in line 1" },
	{ "tick: @x\n", "1: tick", "cannot start any token" },
	{ "tick: *\n", "1: tick", "not YAML" },
	{ "budgets:\n- match: *.slice\n", "2: budgets[0].match", "not YAML" },
	{ "tick 1s\ndwell: 1s\n", "2: top level", "not YAML" },
	{ "{tick: 1s\n", "2: tick", "not YAML" },
	{ "tick: \"\\q\"\n", "1: tick", "unknown escape" },
	{ "%YAML 9.9\n---\ntick: 1s\n", "1: top level", "incompatible YAML" },
	{ "tick: 1s\n\x01\n", "2: top level", "not text: control characters" },
	{ "tick: \xff\xfe\n", "1: top level", "not text: invalid leading UTF-8" },
	{ "\x7f\x45\x4c\x46\x02\x01\x01", "1: top level", "not text" },
};

static void test_table(void **state)
{
	char where[256];

	(void)state;
	assert_true(ARRAY_SIZE(wrong) >= 40);
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		write_text("bad.yaml", wrong[i].text);
		snprintf(where, sizeof(where), "bad.yaml:%s", wrong[i].where);
		expect_fault("bad.yaml", where, wrong[i].what);
	}
}

/* The fault is found wherever the line ends are CRLF, and after a byte order mark. */
static void test_line_ends(void **state)
{
	(void)state;
	write_text("crlf.yaml", "tick: 1s\r\nbudgets:\r\n- match: /a\r\n  limit: 8Q\r\n");
	expect_fault("crlf.yaml", "crlf.yaml:4: budgets[0].limit: ", "'8Q'");
	write_text("bom.yaml", "\xef\xbb\xbftick: 1s\ntock: 1s\n");
	expect_fault("bom.yaml", "bom.yaml:2: tock: ", "no such key");
}

static void test_nul_bytes(void **state)
{
	static const char text[] = "tick: 1s\ndwell: 1s\0\nlog: info\n";

	(void)state;
	write_bytes("nul.yaml", text, sizeof(text) - 1);
	expect_fault("nul.yaml", "nul.yaml:2: top level: ", "not text");
}

static void fill(const char *name, const char *head, char c, size_t count)
{
	FILE *f = fopen(name, "we");

	assert_non_null(f);
	fputs(head, f);
	for (; count; count--)
		fputc(c, f);
	assert_int_equal(fclose(f), 0);
}

static void test_large(void **state)
{
	(void)state;
	fill("10m.yaml", "", '#', 10 << 20);
	expect_fault("10m.yaml", "10m.yaml: is larger than 1024 KiB", "name another");
	fill("1m1.yaml", "", '#', (1 << 20) + 1);
	expect_fault("1m1.yaml", "1m1.yaml: is larger", "");
	/* said to have no size, and endless */
	assert_int_equal(symlink("/proc/kallsyms", "proc.yaml"), 0);
	expect_fault("proc.yaml", "proc.yaml: is larger", "");
	/* within the size, and yet nothing that could be read through */
	fill("deep.yaml", "a: ", '[', 1000000);
	expect_fault("deep.yaml", "deep.yaml:1: a[0]", "nested too deeply");
	fill("value.yaml", "tick: ", 'x', 1000000);
	expect_fault("value.yaml", "value.yaml:1: tick: ", "longer than 4096 bytes");
}

static void test_many(void **state)
{
	FILE *f = fopen("rules.yaml", "we");

	(void)state;
	assert_non_null(f);
	fputs("budgets:\n", f);
	for (int i = 0; i <= CONFIG_RULES_MAX; i++)
		fprintf(f, "- match: /c%d\n", i);
	fclose(f);
	expect_fault("rules.yaml", "rules.yaml:1: budgets: ", "more than 1024 entries");
	f = fopen("keys.yaml", "we");
	assert_non_null(f);
	for (int i = 0; i <= 100000; i++)
		fputs("a:\n", f);
	fclose(f);
	expect_fault("keys.yaml", "keys.yaml:100001: a: ", "one key too many");
}

static void test_not_a_file(void **state)
{
	(void)state;
	expect_fault("absent.yaml", "absent.yaml: cannot be read: No such file", "create it");
	mkdir("dir.yaml", 0755);
	expect_fault("dir.yaml", "dir.yaml: is a directory", "name a regular file");
	write_text("plain", "");
	expect_fault("plain/x.yaml", "plain/x.yaml: cannot be read: Not a directory", "");
	assert_int_equal(symlink("nowhere", "dangling.yaml"), 0);
	expect_fault("dangling.yaml", "dangling.yaml: cannot be read", "");
	assert_int_equal(symlink("loop.yaml", "loop.yaml"), 0);
	expect_fault("loop.yaml", "loop.yaml: cannot be read: Too many", "");
	assert_int_equal(mkfifo("fifo.yaml", 0644), 0);
	expect_fault("fifo.yaml", "fifo.yaml: is a device or a pipe", "");
	expect_fault("/dev/null", "/dev/null: is a device or a pipe", "");
	assert_int_equal(symlink("nowhere", "new\nline.yaml"), 0);
	expect_fault("new\nline.yaml", "new?line.yaml: cannot be read", "");
}

/* The daemon may start without a file, but not with a bad one. */
static void test_errno(void **state)
{
	struct config_error error;
	struct config *c = NULL;

	(void)state;
	assert_int_equal(config_load("absent.yaml", &c, &error), -ENOENT);
	assert_int_equal(config_load(".", &c, &error), -EISDIR);
	write_text("bad.yaml", "tock: 1s\n");
	assert_int_equal(config_load("bad.yaml", &c, &error), -EINVAL);
	write_text("bad.yaml", "tick: [\n");
	assert_int_equal(config_load("bad.yaml", &c, &error), -EINVAL);
	assert_null(c);
}

/* Root reads everything: ask as nobody. */
static void test_unreadable(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	write_text("secret.yaml", "");
	chmod("secret.yaml", 0);
	chmod(".", 0755);
	pid = fork();
	if (!pid) {
		struct config *c = NULL;
		struct config_error error;
		bool good;

		if (!getuid() && (setgid(65534) || setuid(65534)))
			_exit(2);
		good = config_load("secret.yaml", &c, &error) == -EACCES && !c &&
		       strstr(error.text, "secret.yaml: cannot be read: Permission denied");
		_exit(!good);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* A fault in a drop-in is the drop-in's, and nothing of the other files remains. */
static void test_drop_in(void **state)
{
	(void)state;
	write_text("m.yaml", "tick: 1s\n");
	write_text("m.yaml.d", "");
	expect_fault("m.yaml", "m.yaml.d: cannot be read: Not a directory", "");
	unlink("m.yaml.d");
	mkdir("m.yaml.d", 0755);
	write_text("m.yaml.d/10-good.yaml", "dwell: 1s\n");
	write_text("m.yaml.d/20-bad.yaml", "\nlog: loud\n");
	expect_fault("m.yaml", "m.yaml.d/20-bad.yaml:2: log: ", "'loud'");
	write_text("m.yaml.d/20-bad.yaml", "");
	mkdir("m.yaml.d/30.yaml", 0755);
	expect_fault("m.yaml", "m.yaml.d/30.yaml: is a directory", "");
	rmdir("m.yaml.d/30.yaml");
	/* the two sockets meet only across files */
	write_text("m.yaml", "control_socket: /run/x\n");
	write_text("m.yaml.d/20-bad.yaml", "notify_socket: /run/x\n");
	expect_fault("m.yaml", "m.yaml.d/20-bad.yaml:1: notify_socket: ", "the other socket");
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, config_case_enter, config_case_leave)
	const struct CMUnitTest tests[] = {
		CASE(test_table), CASE(test_line_ends),	 CASE(test_nul_bytes),
		CASE(test_large), CASE(test_many),	 CASE(test_not_a_file),
		CASE(test_errno), CASE(test_unreadable), CASE(test_drop_in),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
