/* SPDX-License-Identifier: MIT */
/* Configurations that are wrong, and the one line that each must give. */
#include "tests/unit/config_case.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/wrong.h"

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
