/* SPDX-License-Identifier: MIT */
/*
 * Several tenants of a host: one that wants more than it may have takes nothing from
 * the others; and what each library is told of it, STOP and RESUME with their epochs.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/daemon/pincapd.h"
#include "tests/daemon/workload.h"
#include "tests/kernel/ask.h"
#include "tests/kernel/child.h"
#include "tests/kernel/harness.h"

#define BUDGET	(128 * MIB)
#define PIECE	MIB
#define ROUNDS	5
#define GREEDY	4 /* processes */
#define LOOK_US 200

static _Atomic int64_t *refused;

/* Wants more, all the time, as a loader would that tries each of its buffers. */
static void start_greedy(const struct cg *cg)
{
	for (int i = 0; i < GREEDY; i++) {
		if (cg_fork(cg))
			continue;
		for (int fd = socket(AF_UNIX, SOCK_DGRAM, 0);;) {
			if (!ask_charge(fd, PIECE, PINCAP_DRIVER)) {
				ask_settle(fd);
				continue;
			}
			atomic_fetch_add(refused, 1);
			usleep(LOOK_US);
		}
	}
}

/* us that another takes to lock its whole budget, which it must get. */
static int64_t load_once(const struct cg *cg)
{
	int64_t begin = now_ns();
	pid_t pid = cg_fork(cg);

	if (!pid) {
		char *p = mmap(NULL, BUDGET, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);
		int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

		for (long long at = 0; at < BUDGET; at += PIECE) {
			CHILD_EQUAL(ask_decided(fd, PIECE, PINCAP_LOCK), 0);
			CHILD_EQUAL(mlock(p + at, PIECE), 0);
			ask_settle(fd);
		}
		/* what a key store may have besides, and not a page more */
		CHILD_EQUAL(ask_decided(fd, 128 * KIB, PINCAP_LOCK), -EDQUOT);
		_exit(0);
	}
	assert_int_equal(reap(pid), 0);
	return (now_ns() - begin) / 1000;
}

static int64_t best_load(const struct cg *cg)
{
	int64_t best = INT64_MAX;

	for (int i = 0; i < ROUNDS; i++) {
		int64_t us = load_once(cg);

		best = us < best ? us : best;
		map_wait(cg, 0, 0);
	}
	return best;
}

static void two_tenants(void **state)
{
	struct deadline d = deadline_in(10000);
	struct pincap_cgroup m;
	struct cg a, b;
	int64_t alone, beside;

	(void)state;
	refused = mmap(NULL, sizeof(*refused), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	pincapd_configure("budgets: [{match: '/pincap-kt-*-tenant?', limit: 128M}]\n");
	pincapd_start();
	cg_make(&a, NULL, "tenant1");
	cg_make(&b, NULL, "tenant2");
	alone = best_load(&b);
	start_greedy(&a);
	while (atomic_load(refused) < 100 && deadline_open(&d))
		continue;
	beside = best_load(&b);
	assert_true(map_cgroup(&a, &m));
	print_message("# 128 MiB locked in %" PRId64 " us alone, %" PRId64
		      " us beside one who was refused %" PRId64 " times\n",
		      alone, beside, atomic_load(refused));
	assert_true(atomic_load(refused) >= 100);
	assert_int_equal(m.current, BUDGET);
	assert_int_equal(m.peak, BUDGET);
	assert_true(map_cgroup(&b, &m));
	assert_int_equal(m.peak_locked, BUDGET);
	/* within what a machine with others on it makes of it */
	assert_true(beside < 2 * alone);
}

/* Who is full hears STOP, and RESUME once there is room; the other hears nothing. */
static void stop_and_resume(void **state)
{
	struct workload w, other;
	struct cg a, b;
	uint64_t epoch;

	(void)state;
	pincapd_configure("budgets: [{match: '/pincap-kt-*-tenant?', limit: 16M}]\n");
	pincapd_start();
	cg_make(&a, NULL, "tenant1");
	cg_make(&b, NULL, "tenant2");
	workload_start(&other, &b, WORKLOAD_GIVES, 8);
	workload_start(&w, &a, WORKLOAD_GIVES, 20);
	assert_int_equal(w.shared->locked_mib, 16);
	assert_true(workload_becomes_stopped(&w, true));
	assert_true(pincapd_status("2 budgets, 1 stopped, 0 over; 2 libraries"));
	epoch = w.shared->epoch;
	assert_true(epoch > 0);
	set_limit(&a, "32M");
	assert_true(workload_becomes_stopped(&w, false));
	assert_true(w.shared->epoch > epoch);
	assert_int_equal(other.shared->epoch, 0);
	/* and it is told by the next daemon as well */
	set_limit(&a, "16M");
	assert_true(workload_becomes_stopped(&w, true));
	pincapd_kill();
	pincapd_start();
	assert_true(pincapd_status("1 stopped, 0 over; 2 libraries"));
	assert_true(workload_becomes_stopped(&w, true));
	workload_end(&w);
	workload_end(&other);
}

/* Below the reserve all are stopped, but those who have not used up their min. */
static void stop_for_the_host(void **state)
{
	struct workload plain, kept;
	struct cg a, b;

	(void)state;
	pincapd_configure("budgets: [{match: '/pincap-kt-*-kept', min: 64M}]\n");
	pincapd_start();
	cg_make(&a, NULL, "plain");
	cg_make(&b, NULL, "kept");
	workload_start(&plain, &a, WORKLOAD_GIVES, 8);
	workload_start(&kept, &b, WORKLOAD_GIVES, 8);
	assert_true(pincapd_status("2 libraries"));
	pincapd_configure("reserve: '100%%'\nbudgets: [{match: '/pincap-kt-*-kept', min: 64M}]\n");
	pincapd_reload();
	assert_true(workload_becomes_stopped(&plain, true));
	assert_true(pincapd_status("host below its reserve"));
	assert_int_equal(kept.shared->stopped, 0);
	pincapd_configure("reserve: 16M\nbudgets: [{match: '/pincap-kt-*-kept', min: 64M}]\n");
	pincapd_reload();
	assert_true(workload_becomes_stopped(&plain, false));
	assert_true(pincapd_status("host above its reserve of 16.0 MiB"));
	assert_int_equal(kept.shared->epoch, 0);
	/* who asks for nothing but a look */
	pincapd_configure("reserve: '100%%'\ndry_run: true\n");
	pincapd_reload();
	assert_true(pincapd_says("nothing is refused \\(dry run\\)"));
	usleep(500000); /* two ticks */
	assert_int_equal(plain.shared->stopped, 0);
	workload_end(&plain);
	workload_end(&kept);
}

int main(int argc, char **argv)
{
#define DAEMON_TEST(f) cmocka_unit_test_teardown(f, pincapd_teardown)
	const struct CMUnitTest tests[] = {
		DAEMON_TEST(two_tenants),
		DAEMON_TEST(stop_and_resume),
		DAEMON_TEST(stop_for_the_host),
	};

	harness_init(argc, argv);
	return cmocka_run_group_tests(tests, pincapd_group_setup, pincapd_group_teardown);
}
