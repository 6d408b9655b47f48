/* SPDX-License-Identifier: MIT */
/*
 * The mlock family against the real kernel's VmLck of this process, under the
 * budget of fakekernel.c. Locks at most 6 MiB. Run under LD_PRELOAD.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <cmocka.h>

#include "tests/lib/fakekernel.h"

#define PAGE 4096UL
#define MIB  (1UL << 20)

static char *mem; /* 4 MiB, with a mapping boundary on either side */

static int setup(void **state)
{
	(void)state;
	mem = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	fakekernel_reset(2 * MIB);
	return mem == MAP_FAILED ? -1 : 0;
}

static int teardown(void **state)
{
	(void)state;
	munlockall();
	return munmap(mem, 4 * MIB);
}

static void test_lock(void **state)
{
	(void)state;
	assert_int_equal(mlock(mem, MIB), 0);
	assert_int_equal(vmlck(), MIB);
	assert_string_equal(trace_log, "CS");
	assert_int_equal(kernel.held, 0);
	assert_int_equal(munlock(mem, MIB), 0);
	assert_int_equal(vmlck(), 0);
	assert_string_equal(trace_log, "CS");
	assert_int_equal(mlock2(mem, MIB, MLOCK_ONFAULT), 0);
	assert_int_equal(vmlck(), MIB);
	assert_int_equal(munlock(mem, MIB), 0);
}

static void test_refused(void **state)
{
	(void)state;
	errno = 0;
	assert_int_equal(mlock(mem, 3 * MIB), -1);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(vmlck(), 0);
	errno = 0;
	assert_int_equal(mlock2(mem, 3 * MIB, 0), -1);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(vmlck(), 0);
	assert_int_equal(kernel.settles, 0);
}

static void test_failure(void **state)
{
	(void)state;
	assert_int_equal(mlock2(mem, PAGE, 0x40), -1);
	assert_int_equal(errno, EINVAL);
	assert_string_equal(trace_log, "CS");
	assert_int_equal(kernel.held, 0);
	/* Half of the range is mapped: the kernel locks that half and says ENOMEM. */
	munmap(mem + PAGE, PAGE);
	assert_int_equal(mlock(mem, 2 * PAGE), -1);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(vmlck(), PAGE);
	assert_int_equal(kernel.held, 0);
}

static void test_span(void **state)
{
	(void)state;
	assert_int_equal(mlock(mem + PAGE - 1, 2), 0);
	assert_int_equal(kernel.last_charge, 2 * PAGE);
	assert_int_equal(vmlck(), 2 * PAGE);
	kernel.charges = 0;
	assert_int_equal(mlock(mem, 0), 0);
	assert_int_equal(mlock(mem, SIZE_MAX - PAGE), -1);
	assert_int_equal(mlock(mem, 1UL << 47), -1);
	assert_int_equal(kernel.charges, 0);
}

static void test_again(void **state)
{
	(void)state;
	assert_int_equal(mlock(mem, 2 * MIB), 0);
	/* The budget is full; what is locked may be locked again ... */
	assert_int_equal(mlock(mem, 2 * MIB), 0);
	assert_int_equal(mlock(mem + PAGE, MIB), 0);
	assert_int_equal(mlock2(mem, MIB, MLOCK_ONFAULT), 0);
	/* ... and not a page more. */
	assert_int_equal(mlock(mem, 2 * MIB + PAGE), -1);
	assert_int_equal(vmlck(), 2 * MIB);
	/* Only the missing part needs room. */
	assert_int_equal(munlock(mem + MIB, 16 * PAGE), 0);
	assert_int_equal(mlock(mem, 2 * MIB), 0);
	assert_int_equal(kernel.last_charge, 16 * PAGE);
	assert_int_equal(vmlck(), 2 * MIB);
	assert_int_equal(kernel.held, 0);
}

static void test_lockall(void **state)
{
	struct rlimit memlock;
	uint64_t charge;

	(void)state;
	assert_int_equal(mlockall(MCL_FUTURE), 0);
	assert_int_equal(kernel.charges, 0);
	munlockall();

	errno = 0;
	kernel.limit = PAGE;
	assert_int_equal(mlockall(MCL_CURRENT), -1);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(vmlck(), 0);

	getrlimit(RLIMIT_MEMLOCK, &memlock);
	kernel.limit = 1ULL << 40;
	if (mlockall(MCL_CURRENT | MCL_ONFAULT)) {
		print_message("not permitted beyond RLIMIT_MEMLOCK, not tried further\n");
		return;
	}
	charge = kernel.last_charge;
	assert_int_equal(vmlck(), charge);
	/* Again: at most what was mapped meanwhile. */
	kernel.limit = vmlck() + 64 * PAGE;
	assert_int_equal(mlockall(MCL_CURRENT | MCL_ONFAULT), 0);
	assert_int_equal(kernel.refused, 1);
}

static void test_many_mappings(void **state)
{
	size_t i;

	(void)state;
	/* Every other page locked: more mappings than one read(2) of maps holds. */
	for (i = 0; i < 400; i += 2)
		assert_int_equal(mlock(mem + i * PAGE, PAGE), 0);
	kernel.limit = vmlck() + 200 * PAGE;
	assert_int_equal(mlock(mem, 400 * PAGE), 0);
	assert_int_equal(kernel.last_charge, 200 * PAGE);
	assert_int_equal(vmlck(), 400 * PAGE);
}

static void *hammer(void *arg)
{
	char *mine = arg;
	long bad = 0;
	int i;

	for (i = 0; i < 1000; i++) {
		if (mlock(mine, MIB / 2) == 0) {
			bad += vmlck() > kernel.limit;
			bad += munlock(mine, MIB / 2) != 0;
		}
	}
	return (void *)bad;
}

static void test_threads(void **state)
{
	pthread_t threads[8];
	void *bad;
	size_t i;

	(void)state;
	for (i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, hammer, mem + i * (MIB / 2)), 0);
	for (i = 0; i < 8; i++) {
		pthread_join(threads[i], &bad);
		assert_null(bad);
	}
	assert_true(kernel.peak <= kernel.limit);
	assert_int_equal(kernel.held, 0);
	assert_int_equal(vmlck(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_lock, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_failure, setup, teardown),
		cmocka_unit_test_setup_teardown(test_span, setup, teardown),
		cmocka_unit_test_setup_teardown(test_again, setup, teardown),
		cmocka_unit_test_setup_teardown(test_lockall, setup, teardown),
		cmocka_unit_test_setup_teardown(test_many_mappings, setup, teardown),
		cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
	};
	int rc = require_preload();

	unsetenv("PINCAP_NOTIFY");
	return rc ? rc : cmocka_run_group_tests(tests, NULL, NULL);
}
