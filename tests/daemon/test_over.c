/* SPDX-License-Identifier: MIT */
/*
 * The rungs of `on_over` that an administrator may write: a signal to those that catch
 * it, freezing, killing; each in its time, and undone when the budget is kept again.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/daemon/pincapd.h"
#include "tests/daemon/workload.h"
#include "tests/kernel/ask.h"
#include "tests/kernel/harness.h"

static bool is_frozen(const struct cg *cg)
{
	char path[600], line[64];
	bool frozen = false;
	FILE *f;

	snprintf(path, sizeof(path), "%s/cgroup.events", cg->dir);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		frozen |= !strcmp(line, "frozen 1\n");
	fclose(f);
	return frozen;
}

static bool becomes_frozen(const struct cg *cg, bool frozen)
{
	struct deadline d = deadline_in(5000);

	while (is_frozen(cg) != frozen)
		if (!deadline_open(&d))
			return false;
	return true;
}

/* One that does not catch it, and would die of it. */
static pid_t start_bystander(const struct cg *cg)
{
	pid_t pid = cg_fork(cg);

	if (!pid)
		for (;;)
			pause();
	return pid;
}

static void signalled(void **state)
{
	struct deadline d = deadline_in(8000);
	struct cg cg, inner;
	struct workload w;
	pid_t bystander;

	(void)state;
	pincapd_configure("budgets:\n"
			  "- match: /pincap-kt-*-told\n"
			  "  limit: 8M\n"
			  "  on_over: [log, 'signal:USR2 after 1s']\n");
	pincapd_start();
	cg_make(&cg, NULL, "told");
	cg_make(&inner, &cg, "inner");
	workload_start(&w, &inner, WORKLOAD_UNMANAGED, 16);
	bystander = start_bystander(&cg);
	while (!w.shared->signals && deadline_open(&d))
		continue;
	assert_int_equal(w.shared->signals, 1);
	assert_true(pincapd_says("-told' is over its limit: SIGUSR2 sent to 1 process, 1 do not "
				 "catch it"));
	assert_int_equal(waitpid(bystander, NULL, WNOHANG), 0);
	usleep(1500000);
	assert_int_equal(w.shared->signals, 1); /* once */
	kill(bystander, SIGKILL);
	reap(bystander);
	workload_end(&w);
}

#define COLD                           \
	"budgets:\n"                   \
	"- match: /pincap-kt-*-cold\n" \
	"  limit: 8M\n"                \
	"  on_over: [freeze after 1s]\n"

static void frozen(void **state)
{
	struct workload w;
	struct cg cg;

	(void)state;
	pincapd_configure(COLD);
	pincapd_start();
	cg_make(&cg, NULL, "cold");
	workload_start(&w, &cg, WORKLOAD_UNMANAGED, 16);
	assert_true(becomes_frozen(&cg, true));
	assert_true(pincapd_says("-cold' is frozen"));
	set_limit(&cg, "64M");
	assert_true(becomes_frozen(&cg, false));
	set_limit(&cg, "8M");
	assert_true(becomes_frozen(&cg, true));
	/* whoever comes after a daemon that was killed knows whose doing it was */
	pincapd_kill();
	assert_true(is_frozen(&cg));
	pincapd_configure("budgets: [{match: '/pincap-kt-*-cold', limit: 64M}]\n");
	pincapd_start();
	assert_true(becomes_frozen(&cg, false));
	pincapd_configure(COLD);
	pincapd_reload();
	assert_true(becomes_frozen(&cg, true));
	/* nobody stays frozen whom nobody would thaw: without a rule ... */
	pincapd_configure("budgets: []\n");
	pincapd_reload();
	assert_true(becomes_frozen(&cg, false));
	pincapd_configure(COLD);
	pincapd_reload();
	assert_true(becomes_frozen(&cg, true));
	pincapd_kill();
	pincapd_configure("budgets: []\n");
	pincapd_start();
	assert_true(becomes_frozen(&cg, false));
	/* ... or without a daemon */
	pincapd_configure(COLD);
	pincapd_reload();
	assert_true(becomes_frozen(&cg, true));
	pincapd_stop();
	assert_false(is_frozen(&cg));
	assert_true(workload_is_well(&w));
	workload_end(&w);
}

static void killed(void **state)
{
	struct workload w;
	int64_t begin;
	struct cg cg;
	int status;

	(void)state;
	pincapd_configure("budgets:\n"
			  "- match: /pincap-kt-*-doomed\n"
			  "  limit: 8M\n"
			  "  on_over: [log, kill after 2s]\n");
	cg_make(&cg, NULL, "doomed");
	/* a dry run has words alone */
	pincapd_start_with("--dry-run");
	workload_start(&w, &cg, WORKLOAD_UNMANAGED, 16);
	assert_true(pincapd_says("-doomed' is over: "));
	usleep(3000000);
	assert_true(workload_is_well(&w));
	pincapd_stop();
	pincapd_start();
	begin = now_ns();
	status = reap(w.pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_in_range((now_ns() - begin) / 1000000, 1800, 4000);
	assert_true(pincapd_says("-doomed' is over its limit: killed"));
}

/* Tenants name their cgroups and processes as they like. */
static void names(void **state)
{
	struct workload w;
	struct cg cg, odd;

	(void)state;
	pincapd_configure("budgets: [{match: '/pincap-kt-*-host/**', limit: 8M}]\n");
	pincapd_start();
	cg_make(&cg, NULL, "host");
	cg_make(&odd, &cg, "a\033[31mb c\\x2d");
	workload_start(&w, &odd, WORKLOAD_UNMANAGED, 16);
	assert_true(pincapd_says("-host/a\\\\x1b\\[31mb c\\\\x2d' is over: [0-9.]+ MiB"));
	workload_end(&w);
}

int main(int argc, char **argv)
{
#define DAEMON_TEST(f) cmocka_unit_test_teardown(f, pincapd_teardown)
	const struct CMUnitTest tests[] = {
		DAEMON_TEST(signalled),
		DAEMON_TEST(frozen),
		DAEMON_TEST(killed),
		DAEMON_TEST(names),
	};

	harness_init(argc, argv);
	return cmocka_run_group_tests(tests, pincapd_group_setup, pincapd_group_teardown);
}
