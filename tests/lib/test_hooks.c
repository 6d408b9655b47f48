/* SPDX-License-Identifier: MIT */
/*
 * The HIP interposers between a runtime that counts and a kernel with a budget.
 * Linked with versioned symbols (hip_4.2); run under LD_PRELOAD.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <cmocka.h>

#include "bpf/intf.h"
#include "tests/lib/fakehip.h"
#include "tests/lib/fakekernel.h"
#include "userspace/lib/pincap.h"

#define MIB	      (1ULL << 20)
#define OUT_OF_MEMORY 2

static char buf[4 << 20] __attribute__((aligned(4096)));

static int setup(void **state)
{
	(void)state;
	fakekernel_reset(2 * MIB);
	kernel.blind = true;
	memset(fakehip(), 0, sizeof(struct fakehip));
	fakehip()->trace = trace_event;
	return 0;
}

static void test_order(void **state)
{
	(void)state;
	assert_int_equal(hipHostRegister(buf, MIB, 0), 0);
	assert_int_equal(kernel.last_charge, MIB);
	assert_int_equal(kernel.held, MIB);
	assert_int_equal(hipHostUnregister(buf), 0);
	assert_string_equal(trace_log, "CPSFU");
	assert_int_equal(kernel.held, 0);
}

static void test_refused_never_reaches(void **state)
{
	void *p = buf;

	(void)state;
	assert_int_equal(hipHostRegister(buf, 3 * MIB, 0), OUT_OF_MEMORY);
	assert_int_equal(hipHostMalloc(&p, 3 * MIB, 0), OUT_OF_MEMORY);
	assert_int_equal(hipHostAlloc(&p, 3 * MIB, 0), OUT_OF_MEMORY);
	assert_int_equal(hipMallocHost(&p, 3 * MIB), OUT_OF_MEMORY);
	assert_int_equal(hipMemAllocHost(&p, 3 * MIB), OUT_OF_MEMORY);
	assert_int_equal(hipExtMallocWithFlags(&p, 3 * MIB, 2), OUT_OF_MEMORY);
	assert_int_equal(fakehip()->pins, 0);
	assert_ptr_equal(p, buf);
	assert_string_equal(trace_log, "RRRRRR");
}

/* All three answers refuse; every other error is nobody's answer. */
static void test_answers(void **state)
{
	static const int refusals[] = { EDQUOT, ENOMEM, EAGAIN };
	static const int others[] = { ENOPROTOOPT, EOPNOTSUPP, EPERM, EINVAL, EFAULT, ENOSYS };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(refusals) / sizeof(*refusals); i++) {
		kernel.answer = refusals[i];
		assert_int_equal(hipHostRegister(buf, 4096, 0), OUT_OF_MEMORY);
		assert_int_equal(pincap_charge(4096, PINCAP_KIND_DRIVER), -refusals[i]);
	}
	assert_int_equal(fakehip()->pins, 0);
	for (i = 0; i < sizeof(others) / sizeof(*others); i++) {
		kernel.answer = others[i];
		assert_int_equal(hipHostRegister(buf, 3 * MIB, 0), 0);
		assert_int_equal(pincap_charge(4096, PINCAP_KIND_DRIVER), PINCAP_UNMANAGED);
	}
	assert_int_equal(fakehip()->pins, i);
	assert_int_equal(kernel.settles, 0);
}

static void test_failure_settles(void **state)
{
	(void)state;
	fakehip()->fail = 1;
	assert_int_equal(hipHostRegister(buf, MIB, 0), 1);
	assert_string_equal(trace_log, "CPSU");
	assert_int_equal(kernel.held, 0);
	/* A failed free gives nothing back; the next one does. */
	fakehip()->fail = 0;
	assert_int_equal(hipHostRegister(buf, MIB, 0), 0);
	fakehip()->fail = 713;
	assert_int_equal(hipHostUnregister(buf), 713);
	assert_int_equal(kernel.held, MIB);
	fakehip()->fail = 0;
	assert_int_equal(hipHostUnregister(buf), 0);
	assert_int_equal(kernel.held, 0);
}

static void test_visible_driver(void **state)
{
	(void)state;
	kernel.blind = false;
	assert_int_equal(hipHostRegister(buf, MIB, 0), 0);
	assert_int_equal(hipHostUnregister(buf), 0);
	assert_string_equal(trace_log, "CPSF");
}

static void test_twice(void **state)
{
	(void)state;
	assert_int_equal(hipHostRegister(buf, MIB, 0), 0);
	assert_int_equal(hipHostRegister(buf, MIB, 0), 0);
	assert_int_equal(kernel.held, 2 * MIB);
	assert_int_equal(hipHostRegister(buf, MIB, 0), OUT_OF_MEMORY);
	assert_int_equal(hipHostUnregister(buf), 0);
	assert_int_equal(kernel.held, MIB);
	assert_int_equal(hipHostUnregister(buf), 0);
	assert_int_equal(kernel.held, 0);
	assert_int_equal(hipHostUnregister(buf), 0);
	assert_int_equal(kernel.uncharges, 2);
}

/* Where the kernel sees the driver, what it did not see was not taken: the runtime has
 * the pointer already. */
static void test_twice_in_sight(void **state)
{
	(void)state;
	kernel.gpu = MIB;
	assert_int_equal(hipHostRegister(buf, MIB, 0), 0);
	assert_int_equal(kernel.held, 0);
	assert_string_equal(trace_log, "CPSU");
	assert_int_equal(hipHostUnregister(buf), 0);
	assert_int_equal(kernel.uncharges, 1);
}

static void test_alloc_family(void **state)
{
	void *p[5];

	(void)state;
	assert_int_equal(hipHostMalloc(&p[0], 4096, 0), 0);
	assert_int_equal(hipHostAlloc(&p[1], 4096, 0), 0);
	assert_int_equal(hipMallocHost(&p[2], 4096), 0);
	assert_int_equal(hipMemAllocHost(&p[3], 4096), 0);
	assert_int_equal(hipExtMallocWithFlags(&p[4], 4096, 2), 0);
	assert_int_equal(kernel.held, 5 * 4096);
	assert_int_equal(hipHostFree(p[0]), 0);
	assert_int_equal(hipFreeHost(p[1]), 0);
	assert_int_equal(hipFree(p[2]), 0);
	assert_int_equal(hipFree(p[3]), 0);
	assert_int_equal(hipFree(p[4]), 0);
	assert_int_equal(kernel.held, 0);
	/* Device memory, values 0, 1, 3: not asked for. */
	assert_int_equal(hipExtMallocWithFlags(&p[0], 3 * MIB, 0), 0);
	assert_int_equal(hipExtMallocWithFlags(&p[1], 3 * MIB, 3), 0);
	assert_int_equal(kernel.charges, 5);
	hipFree(p[0]);
	hipFree(p[1]);
	assert_int_equal(hipFree(NULL), 0);
	assert_int_equal(kernel.uncharges, 5);
}

static void test_sizes(void **state)
{
	(void)state;
	assert_int_equal(hipHostRegister(buf, 0, 0), 0);
	assert_int_equal(hipHostRegister(buf, (1ULL << 46) + 1, 0), 0);
	assert_int_equal(hipHostRegister(buf, SIZE_MAX, 0), 0);
	assert_int_equal(fakehip()->pins, 3);
	assert_int_equal(kernel.charges, 0);
	assert_int_equal(hipHostRegister(buf + 1, 4096, 0), 0);
	assert_int_equal(kernel.last_charge, 8192);
	assert_int_equal(hipHostUnregister(buf + 1), 0);
	assert_int_equal(pincap_charge(0, PINCAP_KIND_LOCK), -EINVAL);
	assert_int_equal(pincap_charge((1ULL << 46) + 1, PINCAP_KIND_LOCK), -EINVAL);
	assert_int_equal(pincap_charge(4096, 3), -EINVAL);
	assert_int_equal(pincap_uncharge(0), -EINVAL);
}

static void test_reentry(void **state)
{
	(void)state;
	fakehip()->nested = 1;
	assert_int_equal(hipHostRegister(buf, MIB, 0), 0);
	assert_int_equal(kernel.charges, 1);
	assert_int_equal(hipHostUnregister(buf), 0);
	assert_int_equal(kernel.uncharges, 1);
	assert_int_equal(kernel.held, 0);
}

static void test_errno(void **state)
{
	(void)state;
	errno = 1234;
	assert_int_equal(hipHostRegister(buf, MIB, 0), 0);
	assert_int_equal(errno, 1234);
	assert_int_equal(hipHostUnregister(buf), 0);
	assert_int_equal(errno, 1234);
	assert_int_equal(hipHostRegister(buf, 3 * MIB, 0), OUT_OF_MEMORY);
	assert_int_equal(errno, 1234);
	fakehip()->set_errno = 77;
	assert_int_equal(hipHostRegister(buf, MIB, 0), 0);
	assert_int_equal(errno, 77);
	assert_int_equal(hipHostUnregister(buf), 0);
	errno = 1234;
	pincap_charge(4096, PINCAP_KIND_LOCK);
	pincap_settle();
	pincap_uncharge(4096);
	pincap_fd();
	pincap_dispatch();
	assert_int_equal(errno, 1234);
}

/* A program that asks itself is not asked for again. */
static void test_api(void **state)
{
	struct pincap_info info = { .size = sizeof(info) };

	(void)state;
	assert_int_equal(pincap_charge(MIB, PINCAP_KIND_DRIVER), 0);
	assert_int_equal(hipHostRegister(buf, MIB, 0), 0);
	assert_int_equal(kernel.charges, 1);
	assert_int_equal(pincap_settle(), MIB);
	assert_int_equal(pincap_status(&info), 0);
	assert_int_equal(info.held, MIB);
	assert_int_equal(info.limit, 2 * MIB);
	assert_int_equal(info.size, sizeof(info));
	assert_int_equal(hipHostUnregister(buf), 0);
	assert_int_equal(kernel.uncharges, 0);
	assert_int_equal(pincap_uncharge(MIB), 0);
	assert_int_equal(hipHostRegister(buf, MIB, 0), 0);
	assert_int_equal(kernel.charges, 2);
	assert_int_equal(hipHostUnregister(buf), 0);

	info.size = 8;
	assert_int_equal(pincap_status(&info), -EINVAL);
	kernel.answer = ENOPROTOOPT;
	info.size = sizeof(info);
	assert_int_equal(pincap_status(&info), PINCAP_UNMANAGED);
	assert_int_equal(pincap_settle(), -ENOPROTOOPT);
	assert_int_equal(pincap_fd(), -ENOTCONN);
	assert_int_equal(pincap_dispatch(), 0);
	assert_true(strlen(pincap_version()) > 0);
}

/* More pointers than the first table holds, freed in another order. */
static void test_many(void **state)
{
	enum { COUNT = 5000 };
	static char *p[COUNT];
	size_t i;

	(void)state;
	kernel.limit = 1ULL << 40;
	for (i = 0; i < COUNT; i++) {
		p[i] = (char *)(0x7f0000000000ULL + i * 0x200000);
		assert_int_equal(hipHostRegister(p[i], 4096 * (i % 7 + 1), 0), 0);
	}
	for (i = 0; i < COUNT; i++) {
		size_t k = i * 1237 % COUNT;
		uint64_t before = kernel.uncharged;

		assert_int_equal(hipHostUnregister(p[k]), 0);
		assert_int_equal(kernel.uncharged - before, 4096 * (k % 7 + 1));
	}
	assert_int_equal(kernel.held, 0);
}

static void *hammer(void *arg)
{
	char *mine = arg;
	long bad = 0;
	void *p;
	int i;

	for (i = 0; i < 2000; i++) {
		if (hipHostRegister(mine, 512 << 10, 0) == 0)
			bad += hipHostUnregister(mine) != 0;
		if (hipHostMalloc(&p, 256 << 10, 0) == 0)
			bad += hipHostFree(p) != 0;
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
		assert_int_equal(pthread_create(&threads[i], NULL, hammer, buf + i * (512 << 10)),
				 0);
	for (i = 0; i < 8; i++) {
		pthread_join(threads[i], &bad);
		assert_null(bad);
	}
	assert_int_equal(kernel.held, 0);
	assert_true(kernel.peak <= kernel.limit);
	assert_true(kernel.refused > 0);
	assert_int_equal(fakehip()->pins, kernel.charges - kernel.refused);
	assert_int_equal(fakehip()->pins, fakehip()->frees);
}

/* `alloc: pass` lets through what allocates, and nothing else; it is asked for
 * after a refusal only. */
static void test_pass(void **state)
{
	void *p = NULL;

	(void)state;
	kernel.alloc = PINCAP_ALLOC_PASS;
	kernel.blind = false;
	assert_int_equal(hipHostMalloc(&p, MIB, 0), 0);
	assert_int_equal(kernel.statuses, 0);
	assert_int_equal(hipHostFree(p), 0);
	memset(trace_log, 0, sizeof(trace_log));

	assert_int_equal(hipHostMalloc(&p, 3 * MIB, 0), 0);
	assert_int_equal(hipHostFree(p), 0);
	assert_int_equal(hipHostAlloc(&p, 3 * MIB, 0), 0);
	assert_int_equal(hipFreeHost(p), 0);
	assert_int_equal(hipMallocHost(&p, 3 * MIB), 0);
	assert_int_equal(hipFreeHost(p), 0);
	assert_int_equal(hipMemAllocHost(&p, 3 * MIB), 0);
	assert_int_equal(hipFreeHost(p), 0);
	assert_int_equal(hipExtMallocWithFlags(&p, 3 * MIB, 2), 0);
	assert_int_equal(hipFree(p), 0);
	assert_string_equal(trace_log, "RPFRPFRPFRPFRPF");
	assert_int_equal(kernel.statuses, 5);
	assert_int_equal(kernel.held, 0);
	assert_int_equal(kernel.uncharges, 0);

	assert_int_equal(hipHostRegister(buf, 3 * MIB, 0), OUT_OF_MEMORY);
	assert_int_equal(mlock(buf, sizeof(buf)), -1);
	assert_int_equal(kernel.statuses, 5);
}

static void test_no_pass(void **state)
{
	static const uint32_t policies[] = { PINCAP_ALLOC_UNSET, PINCAP_ALLOC_REFUSE,
					     PINCAP_ALLOC_PAGEABLE, 77 };
	void *p = buf;

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		kernel.alloc = policies[i];
		assert_int_equal(hipHostMalloc(&p, 3 * MIB, 0), OUT_OF_MEMORY);
	}
	assert_ptr_equal(p, buf);
	assert_int_equal(fakehip()->pins, 0);
}

static void on_alarm(int sig)
{
	(void)sig;
}

static long charge_ms(int *ret_rc)
{
	struct timespec from, to;

	clock_gettime(CLOCK_MONOTONIC, &from);
	errno = EXDEV;
	*ret_rc = pincap_charge(MIB, PINCAP_KIND_DRIVER);
	assert_int_equal(errno, EXDEV);
	clock_gettime(CLOCK_MONOTONIC, &to);
	return (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000;
}

/* The budget of a new cgroup is being decided: asked again, but not for ever. */
static void test_undecided(void **state)
{
	const struct itimerval often = { { 0, 3000 }, { 0, 3000 } };
	const struct itimerval never = { { 0, 0 }, { 0, 0 } };
	struct sigaction action = { .sa_handler = on_alarm }, before;
	long ms;
	int rc;

	(void)state;
	kernel.undecided = 5; /* slept 1, 2, 4, 8 and 10 ms in between */
	ms = charge_ms(&rc);
	assert_int_equal(rc, 0);
	assert_int_equal(kernel.put_off, 5);
	assert_int_equal(kernel.charges, 1);
	assert_true(ms >= 25);
	pincap_uncharge((uint64_t)pincap_settle());

	/* decided, and full */
	kernel.undecided = 1;
	kernel.limit = 0;
	charge_ms(&rc);
	assert_int_equal(rc, -EDQUOT);

	/* Signals interrupt the sleep, and do not shorten it. */
	sigaction(SIGALRM, &action, &before);
	setitimer(ITIMER_REAL, &often, NULL);
	kernel.limit = 2 * MIB;
	kernel.undecided = 5;
	ms = charge_ms(&rc);
	setitimer(ITIMER_REAL, &never, NULL);
	sigaction(SIGALRM, &before, NULL);
	assert_int_equal(rc, 0);
	assert_true(ms >= 25);
	pincap_uncharge((uint64_t)pincap_settle());

	/* Never decided. */
	kernel.undecided = UINT_MAX;
	kernel.put_off = 0;
	ms = charge_ms(&rc);
	assert_int_equal(rc, PINCAP_UNMANAGED);
	assert_in_range(ms, 900, 1500);
	assert_in_range(kernel.put_off, 3, 110);
	kernel.undecided = UINT_MAX;
	assert_int_equal(hipHostRegister(buf, MIB, 0), 0);
	assert_string_equal(trace_log + strlen(trace_log) - 1, "P");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_order, setup),
		cmocka_unit_test_setup(test_refused_never_reaches, setup),
		cmocka_unit_test_setup(test_answers, setup),
		cmocka_unit_test_setup(test_failure_settles, setup),
		cmocka_unit_test_setup(test_visible_driver, setup),
		cmocka_unit_test_setup(test_twice, setup),
		cmocka_unit_test_setup(test_twice_in_sight, setup),
		cmocka_unit_test_setup(test_alloc_family, setup),
		cmocka_unit_test_setup(test_sizes, setup),
		cmocka_unit_test_setup(test_reentry, setup),
		cmocka_unit_test_setup(test_errno, setup),
		cmocka_unit_test_setup(test_api, setup),
		cmocka_unit_test_setup(test_pass, setup),
		cmocka_unit_test_setup(test_no_pass, setup),
		cmocka_unit_test_setup(test_undecided, setup),
		cmocka_unit_test_setup(test_many, setup),
		cmocka_unit_test_setup(test_threads, setup),
	};
	int rc = require_preload();

	unsetenv("PINCAP_NOTIFY");
	return rc ? rc : cmocka_run_group_tests(tests, NULL, NULL);
}
