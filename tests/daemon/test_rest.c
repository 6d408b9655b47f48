/* SPDX-License-Identifier: MIT */
/*
 * What the daemon costs while nothing happens, on a host with many cgroups and
 * processes: a budget for each cgroup, a locked page in each, a reserve far away.
 *
 * Environment: PINCAP_TEST_CGROUPS (1000), _PROCESSES (3000), _SECONDS (20).
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/daemon/pincapd.h"
#include "tests/kernel/ask.h"
#include "tests/kernel/child.h"
#include "tests/kernel/harness.h"

#define MOST_CGROUPS 1000

static struct cg top, cgs[MOST_CGROUPS];

static void live(bool locks)
{
	char *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (locks)
		CHILD_EQUAL(mlock(p, 4096), 0);
	for (;;)
		pause();
}

/* A process that has them all as its children, so that they die with it. */
static pid_t start_all(int cgroups, int processes, int *ready)
{
	pid_t pid;
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	*ready = ends[0];
	pid = cg_fork(&top);
	if (pid) {
		close(ends[1]);
		return pid;
	}
	for (int i = 0; i < processes; i++) {
		pid = fork();
		CHILD_EQUAL(pid < 0, 0);
		if (!pid)
			live(i < cgroups);
		cg_move(&cgs[i % cgroups], pid);
	}
	CHILD_EQUAL(write(ends[1], "", 1), 1);
	for (;;)
		pause();
}

/* ns on a processor so far */
static int64_t runtime(void)
{
	char path[64];
	int64_t ns = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)pincapd_pid());
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%" SCNd64, &ns), 1);
	fclose(f);
	return ns;
}

static int64_t ticks(void)
{
	char path[64];
	long user = 0, kernel = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pincapd_pid());
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %ld %ld",
				&user, &kernel),
			 2);
	fclose(f);
	return user + kernel;
}

static void at_rest(void **state)
{
	int cgroups = (int)harness_number("PINCAP_TEST_CGROUPS", MOST_CGROUPS), ready;
	int processes = (int)harness_number("PINCAP_TEST_PROCESSES", 3000);
	int64_t seconds = (int64_t)harness_number("PINCAP_TEST_SECONDS", 20), ran, ticked, begin,
		rss;
	struct pincap_cgroup m;
	struct deadline d;
	char name[16], c;
	double part;

	(void)state;
	pincapd_configure("reserve: 256M\nbudgets: [{match: '/pincap-kt-*-host/*', limit: 64M, "
			  "high: 32M, min: 1M}]\n");
	pincapd_start();
	cg_make(&top, NULL, "host");
	for (int i = 0; i < cgroups; i++) {
		snprintf(name, sizeof(name), "c%d", i);
		cg_make(&cgs[i], &top, name);
	}
	start_all(cgroups, processes, &ready);
	assert_int_equal(read(ready, &c, 1), 1);
	close(ready);
	snprintf(name, sizeof(name), "^%d budgets", cgroups);
	assert_true(pincapd_status(name));
	assert_true(map_cgroup(&top, &m));
	assert_int_equal(m.locked, cgroups * 4 * KIB);
	/* what was just begun is over */
	usleep(3000000);
	ran = runtime();
	ticked = ticks();
	begin = now_ns();
	for (d = deadline_in((unsigned int)seconds * 1000); deadline_open(&d);)
		usleep(100000);
	ran = runtime() - ran;
	ticked = ticks() - ticked;
	part = (double)ran * 100 / (double)(now_ns() - begin);
	rss = pincapd_number("status", "VmRSS:");
	print_message("# %d cgroups, %d processes: %.2f %% of a core (%" PRId64 " ms in %" PRId64
		      " s; utime + stime %" PRId64 " ticks), VmRSS %" PRId64 " KiB\n",
		      cgroups, processes, part, ran / 1000000, seconds, ticked, rss);
	assert_true(part < 0.5);
	assert_true(rss < 10 * 1024);
}

int main(int argc, char **argv)
{
#define DAEMON_TEST(f) cmocka_unit_test_teardown(f, pincapd_teardown)
	const struct CMUnitTest tests[] = {
		DAEMON_TEST(at_rest),
	};

	harness_init(argc, argv);
	return cmocka_run_group_tests(tests, pincapd_group_setup, pincapd_group_teardown);
}
