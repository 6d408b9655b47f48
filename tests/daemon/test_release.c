/* SPDX-License-Identifier: MIT */
/*
 * Memory asked back: above `high`, and below a limit that was lowered. Who cooperates
 * gives, and who does not is shown and left alone, unless a rule says otherwise.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/daemon/pincapd.h"
#include "tests/daemon/workload.h"
#include "tests/kernel/ask.h"
#include "tests/kernel/harness.h"

static int64_t current(const struct cg *cg)
{
	struct pincap_cgroup m = { 0 };

	map_cgroup(cg, &m);
	return m.current;
}

/* ms since then until it is so little, 5000 at most. */
static int64_t falls_to(const struct cg *cg, int64_t bytes, int64_t begin)
{
	struct deadline d = deadline_in(5000);

	while (current(cg) > bytes && deadline_open(&d))
		continue;
	return (now_ns() - begin) / 1000000;
}

static void lowered(void **state)
{
	struct workload w;
	struct cg cg;
	int64_t begin, ms;

	(void)state;
	pincapd_configure("release_cooldown: 1s\n"
			  "budgets: [{match: '/pincap-kt-*-lowered', limit: 128M}]\n");
	pincapd_start();
	cg_make(&cg, NULL, "lowered");
	workload_start(&w, &cg, WORKLOAD_GIVES, 64);
	assert_int_equal(w.shared->locked_mib, 64);
	assert_true(pincapd_status("1 libraries, 0 deaf"));
	begin = now_ns();
	set_limit(&cg, "16M");
	ms = falls_to(&cg, 16 * MIB, begin);
	print_message("# given back after %" PRId64 " ms\n", ms);
	assert_in_range(ms, 0, 1000);
	assert_int_equal(w.shared->locked_mib, 16);
	assert_true(workload_is_well(&w));
	/* by a reload, too */
	pincapd_configure("release_cooldown: 1s\n"
			  "budgets: [{match: '/pincap-kt-*-lowered', limit: 4M}]\n");
	begin = now_ns();
	pincapd_reload();
	ms = falls_to(&cg, 4 * MIB, begin);
	assert_in_range(ms, 0, 1000);
	assert_true(workload_is_well(&w));
	workload_end(&w);
}

static void high(void **state)
{
	struct workload w;
	struct cg cg;

	(void)state;
	pincapd_configure("budgets: [{match: '/pincap-kt-*-high', limit: 128M}]\n");
	pincapd_start();
	pincapd_forget();
	cg_make(&cg, NULL, "high");
	workload_start(&w, &cg, WORKLOAD_GIVES, 64);
	pincapd_configure("budgets: [{match: '/pincap-kt-*-high', limit: 128M, high: 40M}]\n");
	pincapd_reload();
	/* down to 95 % of it, so that the next pin does not ring again */
	assert_in_range(falls_to(&cg, 38 * MIB, now_ns()), 0, 1000);
	assert_int_equal(w.shared->locked_mib, 38);
	assert_int_equal(pincapd_said("is over"), 0);
	workload_end(&w);
}

static void nobody_is_asked(void **state)
{
	struct workload w;
	struct cg cg;

	(void)state;
	pincapd_configure("budgets: [{match: '/pincap-kt-*-kept', limit: 64M, high: 8M, "
			  "release: none}]\n");
	pincapd_start();
	cg_make(&cg, NULL, "kept");
	workload_start(&w, &cg, WORKLOAD_GIVES, 32);
	set_limit(&cg, "16M");
	assert_true(pincapd_says("-kept' is over: .* over by 16.0 MiB"));
	usleep(1500000); /* later than it would have given back */
	assert_int_equal(current(&cg), 32 * MIB);
	assert_int_equal(w.shared->released, 0);
	workload_end(&w);
}

/* A minute over its limit: seen, told, and left alone. */
static void deaf(void **state)
{
	struct workload asked, unasked;
	struct deadline d;
	struct cg a, b;

	(void)state;
	pincapd_configure("budgets: [{match: '/pincap-kt-*-deaf?', limit: 128M}]\n");
	pincapd_start();
	pincapd_forget();
	cg_make(&a, NULL, "deaf1");
	cg_make(&b, NULL, "deaf2");
	workload_start(&asked, &a, WORKLOAD_DEAF, 64);
	workload_start(&unasked, &b, WORKLOAD_UNMANAGED, 32);
	set_limit(&a, "16M");
	set_limit(&b, "8M");
	d = deadline_in((unsigned int)harness_number("PINCAP_TEST_DEAF_SECONDS", 60) * 1000);
	assert_true(pincapd_says("'/pincap-kt-.*-deaf1' is over: 64.0 MiB in use, limit 16.0 MiB, "
				 "over by 48.0 MiB"));
	assert_true(pincapd_says("'/pincap-kt-.*-deaf2' is over: 32.0 MiB in use, limit 8.0 MiB, "
				 "over by 24.0 MiB"));
	assert_true(pincapd_says("-deaf1': 1 process asked for memory did not answer within "
				 "1000 ms, test_release\\[[0-9]+\\]; 64.0 MiB stay"));
	assert_true(pincapd_status("2 over; 1 libraries, 1 deaf"));
	while (deadline_open(&d))
		usleep(100000);
	assert_true(workload_is_well(&asked));
	assert_true(workload_is_well(&unasked));
	assert_int_equal(current(&a), 64 * MIB);
	assert_int_equal(current(&b), 32 * MIB);
	/* once each */
	assert_int_equal(pincapd_said("is over"), 2);
	assert_int_equal(pincapd_said("did not answer"), 1);
	set_limit(&a, "64M");
	assert_true(pincapd_says("-deaf1' is within its limit again after [0-9.]+ s: 64.0 MiB in "
				 "use, limit 64.0 MiB"));
	workload_end(&asked);
	workload_end(&unasked);
}

int main(int argc, char **argv)
{
#define DAEMON_TEST(f) cmocka_unit_test_teardown(f, pincapd_teardown)
	const struct CMUnitTest tests[] = {
		DAEMON_TEST(lowered),
		DAEMON_TEST(high),
		DAEMON_TEST(nobody_is_asked),
		DAEMON_TEST(deaf),
	};

	harness_init(argc, argv);
	return cmocka_run_group_tests(tests, pincapd_group_setup, pincapd_group_teardown);
}
