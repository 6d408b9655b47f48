/* SPDX-License-Identifier: MIT */
/*
 * What a library asked for against what the driver is seen to take: promises are
 * fulfilled byte for byte, and threads that mix all kinds end exact.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/kernel/ask.h"
#include "tests/kernel/gpu.h"

#define RW   (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

/* Asking for little and pinning much gains nothing; what the driver is seen to take
 * was promised, and is no longer held. */
static void lie_low(const struct cg *cg)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t handle;

	gpu_open();
	CHILD_EQUAL(ask_charge(fd, MIB, PINCAP_DRIVER), 0);
	handle = gpu_alloc_gtt(64 * MIB);
	CHILD_EQUAL(current_of(cg), 64 * MIB);
	CHILD_EQUAL(ask_settle(fd), 0);
	CHILD_EQUAL(current_of(cg), 64 * MIB);
	CHILD_EQUAL(gpu_free(handle), 0);
	CHILD_EQUAL(current_of(cg), 0);

	CHILD_EQUAL(ask_charge(fd, 64 * MIB, PINCAP_DRIVER), 0);
	handle = gpu_alloc_gtt(16 * MIB);
	CHILD_EQUAL(current_of(cg), 64 * MIB);
	CHILD_EQUAL(ask_settle(fd), 48 * MIB); /* to be given back by the library */
	CHILD_EQUAL(current_of(cg), 64 * MIB);
	CHILD_EQUAL(gpu_free(handle), 0);
	CHILD_EQUAL(current_of(cg), 48 * MIB);
}

static void ask_and_allow(int fd, int64_t promised, const char *at, size_t pages, int64_t stays)
{
	CHILD_EQUAL(ask_charge(fd, (uint64_t)promised, PINCAP_DRIVER), 0);
	gpu_allow(at, pages);
	CHILD_EQUAL(ask_settle(fd), stays);
}

/* A range that the GPU has kept is not new when it is asked for again, and counts once:
 * all of it, a part of it, and with more around it. */
static void allow_again(const struct cg *cg)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char *p = mmap(NULL, 64 * PAGE, RW, ANON, -1, 0);

	gpu_open();
	ask_and_allow(fd, 16 * PAGE, p, 16, 0);
	CHILD_EQUAL(current_of(cg), 16 * PAGE);
	ask_and_allow(fd, 16 * PAGE, p, 16, 0);
	CHILD_EQUAL(current_of(cg), 16 * PAGE);
	ask_and_allow(fd, 4 * PAGE, p + 8 * PAGE, 4, 0);
	CHILD_EQUAL(current_of(cg), 16 * PAGE);
	ask_and_allow(fd, 16 * PAGE, p + 8 * PAGE, 16, 0);
	CHILD_EQUAL(current_of(cg), 24 * PAGE);
	/* No more than the request: the rest is still promised. */
	ask_and_allow(fd, 16 * PAGE, p, 4, 12 * PAGE);
	CHILD_EQUAL(current_of(cg), 36 * PAGE);
	CHILD_EQUAL(ask_uncharge(fd, 12 * PAGE), 0);
	CHILD_EQUAL(munmap(p, 64 * PAGE), 0);
	CHILD_EQUAL(current_of(cg), 0);
	/* Nor more than what this thread has under way. */
	ask_and_allow(fd, 4 * PAGE, mmap(p, 64 * PAGE, RW, ANON | MAP_FIXED, -1, 0), 16, 0);
	CHILD_EQUAL(current_of(cg), 16 * PAGE);
	gpu_allow(p, 16);
	CHILD_EQUAL(current_of(cg), 16 * PAGE);
}

static void promises_and_pins(void **state)
{
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "promises");
	child_run(&cg, lie_low, &cg);
	map_wait(&cg, 0, 0);
	child_run(&cg, allow_again, &cg);
	map_wait(&cg, 0, 0);
}

#define MIXERS 8

#define MIXED_PAGES 16
#define MIXES	    ((int)harness_number("PINCAP_TEST_MIXES", 3000))

/* A preemptible kernel may skip both programs that see an ioctl, when tasks are preempted
 * in each; an emulated processor does that now and then. Calls that may go unseen. */
#define UNSEEN_MAX ((unsigned int)harness_number("PINCAP_TEST_UNSEEN", 0))

static atomic_uint unseen;

/* Seen by the driver's own words, seen in locked_vm, and not seen at all. */
static void mix_buffer(int fd, int64_t bytes)
{
	uint64_t handle;

	CHILD_EQUAL(ask_charge(fd, bytes, PINCAP_DRIVER), 0);
	handle = gpu_alloc_gtt(bytes);
	if (ask_settle(fd)) {
		atomic_fetch_add(&unseen, 1);
		CHILD_EQUAL(ask_uncharge(fd, bytes), 0);
	}
	CHILD_EQUAL(gpu_free(handle), 0);
}

static void mix_lock(int fd, const char *at, int64_t bytes)
{
	CHILD_EQUAL(ask_charge(fd, bytes, PINCAP_LOCK), 0);
	CHILD_EQUAL(mlock2(at, bytes, MLOCK_ONFAULT), 0);
	CHILD_EQUAL(ask_settle(fd), 0);
	CHILD_EQUAL(munlock(at, bytes), 0);
}

static void mix_unseen(int fd, int64_t bytes)
{
	CHILD_EQUAL(ask_charge(fd, bytes, PINCAP_DRIVER), 0);
	CHILD_EQUAL(ask_settle(fd), bytes);
	CHILD_EQUAL(ask_uncharge(fd, bytes), 0);
}

static void *mix(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char *own = mmap(NULL, MIXED_PAGES * PAGE, RW, ANON, -1, 0);

	CHILD_EQUAL(own != MAP_FAILED, 1);
	for (int i = 0; i < MIXES; i++) {
		int64_t bytes = (int64_t)(1 + rand_r(&seed) % MIXED_PAGES) * (int64_t)PAGE;

		if (i % 3 == 0)
			mix_buffer(fd, bytes);
		else if (i % 3 == 1)
			mix_lock(fd, own, bytes);
		else
			mix_unseen(fd, bytes);
	}
	return NULL;
}

/* Threads that mix all kinds at full speed on one address space, with handles used
 * again at once. */
static void mix_kinds(const struct cg *cg)
{
	pthread_t threads[MIXERS];

	gpu_open();
	for (uintptr_t i = 0; i < MIXERS; i++)
		CHILD_EQUAL(pthread_create(&threads[i], NULL, mix, (void *)(i + 1)), 0);
	for (size_t i = 0; i < MIXERS; i++)
		pthread_join(threads[i], NULL);
	fprintf(stderr, "# %u buffers unseen, %lld bytes left\n", unseen,
		(long long)current_of(cg));
	CHILD_EQUAL(unseen <= UNSEEN_MAX, true);
	CHILD_EQUAL(current_of(cg) <= (int64_t)(UNSEEN_MAX * MIXED_PAGES * PAGE), true);
	CHILD_EQUAL(current_of(cg) >= 0, true);
}

static void threads_mix_both(void **state)
{
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "mix");
	child_run(&cg, mix_kinds, &cg);
	map_wait(&cg, 0, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(promises_and_pins, test_teardown),
		cmocka_unit_test_teardown(threads_mix_both, test_teardown),
	};

	harness_init(argc, argv);
	return cmocka_run_group_tests(tests, gpu_setup, gpu_teardown);
}
