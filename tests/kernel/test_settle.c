/* SPDX-License-Identifier: MIT */
/*
 * What stays held after a request, and that nothing does when the asker is gone
 * before it settled: its thread, its program or its process.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <cmocka.h>

#include "tests/kernel/ask.h"
#include "tests/kernel/child.h"
#include "tests/kernel/harness.h"
#include "tests/kernel/play.h"

#define RW (PROT_READ | PROT_WRITE)

static void driver_stays(void **state)
{
	struct pincap_stats before, after;
	struct actor p;
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "driver");
	actor_start(&p, &cg, false);
	actor_must(&p, 0, "settle"); /* nothing is under way */
	actor_must(&p, 0, "charge %lld %d", 8 * MIB - 1, PINCAP_DRIVER);
	assert_usage_held(&cg, 0, 0, 8388608);
	actor_must(&p, 8388608, "settle");
	actor_must(&p, 0, "settle");
	assert_usage_held(&cg, 0, 0, 8388608);
	actor_must(&p, 0, "uncharge %lld", 2 * MIB);
	assert_usage_held(&cg, 0, 0, 6291456);
	before = map_stats();
	actor_must(&p, 0, "uncharge %lld", 100 * MIB);
	after = map_stats();
	assert_int_equal(after.underflow - before.underflow, 1);
	assert_usage(&cg, 0, 0);
	actor_must(&p, 0, "uncharge 4096");
	assert_usage(&cg, 0, 0);
	actor_exit(&p);
}

static void ask_in_vain(struct actor *p, const struct cg *cg)
{
	actor_must(p, 0, "charge %lld %d", 64 * MIB, PINCAP_DRIVER);
	actor_must(p, 67108864, "settle");
	assert_usage_held(cg, 0, 0, 67108864);
	actor_must(p, 0, "settle");
	assert_usage_held(cg, 0, 0, 67108864);
}

/* What the kernel does not see counts until it is given back, or its process ends. */
static void driver_in_vain(void **state)
{
	struct actor p;
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "vain");
	actor_start(&p, &cg, false);
	ask_in_vain(&p, &cg);
	actor_must(&p, 0, "uncharge %lld", 64 * MIB);
	assert_usage(&cg, 0, 0);
	ask_in_vain(&p, &cg);
	actor_exit(&p);
	assert_usage(&cg, 0, 0);
}

/* A lock's promise lasts until the kernel shows it, or until it is settled. */
static void lock_is_consumed(void **state)
{
	struct actor p;
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "lock");
	actor_start(&p, &cg, false);
	actor_must(&p, 0, "map 0 %lld %d 0", 8 * MIB, RW);
	actor_must(&p, 0, "charge %lld %d", 8 * MIB, PINCAP_LOCK);
	assert_usage_held(&cg, 0, 0, 8388608);
	actor_must(&p, 0, "lock 0 0 %lld", 5 * MIB);
	assert_usage_held(&cg, 5242880, 0, 3145728);
	actor_must(&p, 0, "settle");
	assert_usage(&cg, 5242880, 0);
	/* Unlocking gives no promise back. */
	actor_must(&p, 0, "charge %lld %d", MIB, PINCAP_LOCK);
	actor_must(&p, 0, "unlock 0 0 %lld", 2 * MIB);
	assert_usage_held(&cg, 3145728, 0, 1048576);
	/* More was locked than asked for: the promise is used up, the rest counts. */
	actor_must(&p, 0, "lock 0 0 %lld", 8 * MIB);
	assert_usage(&cg, 8388608, 0);
	actor_must(&p, 0, "settle");
	actor_exit(&p);
	assert_usage(&cg, 0, 0);
}

struct pair {
	pthread_barrier_t barrier;
	int fd;
};

static void *ask_and_wait(void *arg)
{
	struct pair *p = arg;

	CHILD_EQUAL(ask_charge(p->fd, 4 * MIB, PINCAP_DRIVER), 0);
	pthread_barrier_wait(&p->barrier);
	pthread_barrier_wait(&p->barrier);
	CHILD_EQUAL(ask_settle(p->fd), 4 * MIB);
	return NULL;
}

static int64_t held_now(int fd)
{
	struct pincap_status st;

	CHILD_EQUAL(ask_status(fd, &st), 0);
	return (int64_t)st.held;
}

static void check_neighbours(const struct cg *cg)
{
	struct pair p = { .fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) };
	pthread_t thread;

	(void)cg;
	pthread_barrier_init(&p.barrier, NULL, 2);
	CHILD_EQUAL(pthread_create(&thread, NULL, ask_and_wait, &p), 0);
	pthread_barrier_wait(&p.barrier);
	CHILD_EQUAL(ask_settle(p.fd), 0); /* the other's is not ours to settle */
	CHILD_EQUAL(held_now(p.fd), 4 * MIB);
	CHILD_EQUAL(ask_charge(p.fd, 2 * MIB, PINCAP_DRIVER), 0);
	CHILD_EQUAL(ask_settle(p.fd), 2 * MIB);
	CHILD_EQUAL(held_now(p.fd), 6 * MIB);
	CHILD_EQUAL(ask_uncharge(p.fd, 100 * MIB), 0);
	CHILD_EQUAL(held_now(p.fd), 4 * MIB);
	pthread_barrier_wait(&p.barrier);
	pthread_join(thread, NULL);
	CHILD_EQUAL(held_now(p.fd), 4 * MIB);
	CHILD_EQUAL(ask_uncharge(p.fd, 4 * MIB), 0);
	CHILD_EQUAL(held_now(p.fd), 0);
}

static void neighbours(void **state)
{
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "pair");
	child_run(&cg, check_neighbours, &cg);
	assert_usage(&cg, 0, 0);
}

static void *ask_and_go(void *arg)
{
	int fd = *(int *)arg;

	CHILD_EQUAL(ask_charge(fd, 4 * MIB, PINCAP_DRIVER), 0);
	CHILD_EQUAL(ask_charge(fd, 2 * MIB, PINCAP_LOCK), 0);
	return NULL;
}

static void check_thread_gone(const struct cg *cg)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct pincap_cgroup m;
	struct deadline d;
	pthread_t thread;

	CHILD_EQUAL(ask_charge(fd, MIB, PINCAP_DRIVER), 0);
	for (int i = 0; i < 50; i++) {
		CHILD_EQUAL(pthread_create(&thread, NULL, ask_and_go, &fd), 0);
		pthread_join(thread, NULL);
	}
	d = deadline_in(2000);
	while (held_now(fd) != MIB && deadline_open(&d))
		;
	CHILD_EQUAL(held_now(fd), MIB);
	map_cgroup(cg, &m);
	CHILD_EQUAL(m.current, MIB);
	CHILD_EQUAL(ask_settle(fd), MIB);
}

static void thread_gone(void **state)
{
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "thread");
	child_run(&cg, check_thread_gone, &cg);
	assert_usage(&cg, 0, 0);
}

/* Part of its promise was fulfilled: that part stays, as pages. */
static void *lock_and_leave(void *arg)
{
	char *p = arg;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	CHILD_EQUAL(ask_charge(fd, 8 * MIB, PINCAP_LOCK), 0);
	CHILD_EQUAL(ask_charge(fd, 2 * MIB, PINCAP_DRIVER), 0);
	CHILD_EQUAL(mlock2(p, 5 * MIB, MLOCK_ONFAULT), 0);
	CHILD_EQUAL(held_now(fd), 5 * MIB);
	close(fd);
	syscall(SYS_exit, 0);
	return NULL;
}

static void check_half_done(const struct cg *cg)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char *p = mmap(NULL, 8 * MIB, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct pincap_cgroup m;
	struct deadline d;
	pthread_t thread;

	for (int i = 0; i < 50; i++) {
		CHILD_EQUAL(pthread_create(&thread, NULL, lock_and_leave, p), 0);
		pthread_join(thread, NULL);
		d = deadline_in(2000);
		while (held_now(fd) && deadline_open(&d))
			;
		map_cgroup(cg, &m);
		CHILD_EQUAL(m.held, 0);
		CHILD_EQUAL(m.in_flight, 0);
		CHILD_EQUAL(m.locked, 5 * MIB);
		CHILD_EQUAL(m.current, 5 * MIB);
		CHILD_EQUAL(munlock(p, 8 * MIB), 0);
	}
	CHILD_EQUAL(ask_settle(fd), 0);
}

static void thread_gone_half_done(void **state)
{
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "half");
	child_run(&cg, check_half_done, &cg);
	assert_usage(&cg, 0, 0);
}

static void program_gone(void **state)
{
	struct actor p;
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "exec");
	actor_start(&p, &cg, false);
	actor_must(&p, 0, "charge %lld %d", 4 * MIB, PINCAP_DRIVER);
	actor_must(&p, 0, "charge %lld %d", 2 * MIB, PINCAP_LOCK);
	assert_usage_held(&cg, 0, 0, 6291456);
	actor_must(&p, 0, "exec");
	assert_usage(&cg, 0, 0);
	actor_must(&p, 0, "settle");
	actor_must(&p, 0, "charge %lld %d", 4 * MIB, PINCAP_DRIVER);
	actor_must(&p, 0, "threadexec %lld", 8 * MIB);
	assert_usage(&cg, 0, 0);
	actor_must(&p, 0, "settle");
	assert_usage(&cg, 0, 0);
	actor_exit(&p);
}

/* The thread that calls exec takes the leader's id, and nobody exits by its own. */
static void exec_leaves_no_thread(void **state)
{
	int before = map_count("threads");
	struct deadline d;
	struct actor p;
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "threads");
	actor_start(&p, &cg, false);
	for (int i = 0; i < 20; i++)
		actor_must(&p, 0, "threadexec 4096");
	actor_exit(&p);
	d = deadline_in(2000);
	while (map_count("threads") != before && deadline_open(&d))
		;
	assert_int_equal(map_count("threads"), before);
	assert_usage(&cg, 0, 0);
}

static void process_gone(void **state)
{
	struct actor p;
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "kill");
	for (int i = 0; i < 20; i++) {
		actor_start(&p, &cg, i & 1);
		actor_must(&p, 0, "charge %lld %d", 4 * MIB, PINCAP_DRIVER);
		actor_must(&p, 4 * MIB, "settle");
		actor_must(&p, 0, "charge %lld %d", 2 * MIB, PINCAP_DRIVER);
		actor_must(&p, 0, "charge %lld %d", MIB, PINCAP_LOCK);
		map_wait(&cg, 7 * MIB, 7 * MIB);
		actor_kill(&p);
		map_wait(&cg, 0, 0);
	}
	assert_usage(&cg, 0, 0);
}

#define TEST(fn)                                   \
	{                                          \
#fn, fn, NULL, test_teardown, NULL \
	}

static const struct CMUnitTest tests[] = {
	TEST(driver_stays), TEST(driver_in_vain),	 TEST(lock_is_consumed),
	TEST(neighbours),   TEST(thread_gone),		 TEST(thread_gone_half_done),
	TEST(program_gone), TEST(exec_leaves_no_thread), TEST(process_gone),
};

HARNESS_MAIN(tests)
