/* SPDX-License-Identifier: MIT */
/*
 * A daemon that runs is given what is wrong, in every way that tests/unit/wrong.h
 * knows: it says one line, and goes on with what it had.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/daemon/pincapd.h"
#include "tests/kernel/ask.h"
#include "tests/kernel/harness.h"
#include "tests/kernel/play.h"
#include "tests/unit/wrong.h"
#include "userspace/common/util.h"

/* Refusals are no warnings, and would come between. */
#define GOOD "log: warning\nbudgets: [{match: '/pincap-kt-*-good', limit: 8M}]\n"

static struct cg cg;
static struct actor actor;

static int setup(void **state)
{
	(void)state;
	cg_make(&cg, NULL, "good");
	pincapd_configure(GOOD);
	pincapd_start();
	actor_start(&actor, &cg, false);
	return 0;
}

/* What was in force is. */
static void still_good(void)
{
	struct pincap_cgroup m;

	actor_fails(&actor, EDQUOT, "charge %lld %d", 8 * MIB + 4096, PINCAP_DRIVER);
	assert_true(map_cgroup(&cg, &m));
	assert_int_equal(m.limit, 8 * MIB);
}

static const char *path_of(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", pincapd_dir(), name);
	return path;
}

/* One line, which begins and goes on as it should, from the daemon and from --check. */
static void refused(const char *where, const char *what)
{
	char text[8192], check[8192], begin[512];
	const char *line = "pincapd: reload: ";

	pincapd_reload();
	pincapd_log(text, sizeof(text));
	snprintf(begin, sizeof(begin), "%s%s%s", line, path_of("pincap.yaml"), where);
	if (strncmp(text, begin, strlen(begin)) || !strstr(text, what) ||
	    strchr(text, '\n') != text + strlen(text) - 1 ||
	    !strstr(text, "; the last good configuration stays\n"))
		fail_msg("expected '%s', '%s':\n%s", begin, what, text);
	assert_int_equal(pincapd_check(check, sizeof(check)), 1);
	if (strncmp(check, begin + strlen(line), strlen(begin) - strlen(line)) ||
	    !strstr(check, what) || strchr(check, '\n') != check + strlen(check) - 1)
		fail_msg("expected '%s', '%s':\n%s", begin + strlen(line), what, check);
	pincapd_forget();
	still_good();
}

static void table(void **state)
{
	char where[256];

	(void)state;
	pincapd_forget();
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		pincapd_configure_raw(wrong[i].text);
		snprintf(where, sizeof(where), ":%s", wrong[i].where);
		refused(where, wrong[i].what);
	}
	print_message("# %zu faults, one line each\n", ARRAY_SIZE(wrong));
	assert_true(pincapd_status("last reload failed"));
	pincapd_configure(GOOD);
	pincapd_reload();
	assert_true(pincapd_status("no reserve$"));
}

/* What is no file at all, or not one to be read. */
static void no_file(void **state)
{
	char path[256], *big = malloc(10 << 20);
	FILE *f;

	(void)state;
	strcpy(path, path_of("pincap.yaml"));
	pincapd_forget();
	unlink(path);
	refused(": cannot be read: No such file", "create it");
	assert_return_code(mkdir(path, 0755), errno);
	refused(": is a directory", "name a regular file");
	rmdir(path);
	assert_return_code(mkfifo(path, 0644), errno);
	refused(": is a device or a pipe", "");
	unlink(path);
	assert_return_code(symlink("nowhere", path), errno);
	refused(": cannot be read", "");
	unlink(path);
	memset(big, '#', (10 << 20) - 1);
	big[(10 << 20) - 1] = '\0';
	pincapd_configure_raw(big);
	refused(": is larger than 1024 KiB", "");
	free(big);
	/* a drop-in that is wrong takes all with it */
	pincapd_configure("budgets: []\n");
	assert_return_code(mkdir(path_of("pincap.yaml.d"), 0755), errno);
	f = fopen(path_of("pincap.yaml.d/a.yaml"), "we");
	assert_non_null(f);
	fputs("tick: never\n", f);
	fclose(f);
	refused(".d/a.yaml:1: tick: ", "'never' is not a time");
	unlink(path_of("pincap.yaml.d/a.yaml"));
	rmdir(path_of("pincap.yaml.d"));
}

/* None is started with one. */
static void not_started(void **state)
{
	char line[400];

	(void)state;
	pincapd_stop();
	pincapd_configure_raw("tick: never\n");
	snprintf(line, sizeof(line), "%s --config %s 2>%s", getenv("PINCAPD") ?: "build/pincapd",
		 path_of("pincap.yaml"), "/dev/null");
	assert_int_equal(WEXITSTATUS(system(line)), 1);
	still_good();
}

int main(int argc, char **argv)
{
#define DAEMON_TEST(f) cmocka_unit_test_setup_teardown(f, setup, pincapd_teardown)
	const struct CMUnitTest tests[] = {
		DAEMON_TEST(table),
		DAEMON_TEST(no_file),
		DAEMON_TEST(not_started),
	};

	harness_init(argc, argv);
	return cmocka_run_group_tests(tests, pincapd_group_setup, pincapd_group_teardown);
}
