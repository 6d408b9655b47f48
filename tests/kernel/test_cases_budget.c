/* SPDX-License-Identifier: MIT */
/*
 * What a budget admits, and what goes past it where nobody asks: T13, T13b, T14, T15,
 * T19 and T24. Pages are locked on fault: the counters need no memory behind them.
 *
 * What needs a controller is tested with one: T12's budgets from the configuration in
 * tests/daemon/test_kill.c and test_budgets.c, T16 and T17 in test_release.c, T18 in
 * test_tenants.c, who gives first (T24) in tests/unit/test_decide.c.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/kernel/ask.h"
#include "tests/kernel/harness.h"
#include "tests/kernel/play.h"
#include "tests/kernel/stage.h"

#define RW    (PROT_READ | PROT_WRITE)
#define PIECE (4 * MIB)
#define BURST 8	 /* threads, each with */
#define LOCKS 64 /* of 1 MiB */

static void open_actor(struct actor *a, const struct cg *cg, bool preload, long long bytes)
{
	actor_start(a, cg, preload);
	actor_must(a, 0, "map 0 %lld %d 0", bytes, RW);
}

/* How many of `n` pieces, from piece `from` on, it was given. */
static int lock_pieces(const struct actor *a, int from, int n)
{
	int given = 0;

	for (int i = from; i < from + n; i++)
		given += !actor_do(a, "lock2 0 %lld %lld %d", i * PIECE, PIECE, MLOCK_ONFAULT).ret;
	return given;
}

static struct pincap_cgroup entry(const struct cg *cg)
{
	struct pincap_cgroup m;

	assert_true(map_cgroup(cg, &m));
	return m;
}

/* What people are told of it. */
static void assert_explained(const struct cg *cg, const char *want)
{
	const char *pincap = getenv("PINCAP");
	char line[1024];
	bool found = false;
	FILE *f;

	snprintf(line, sizeof(line), "%s explain %s", pincap && *pincap ? pincap : "build/pincap",
		 cg->dir);
	f = popen(line, "r"); /* NOLINT(cert-env33-c) */
	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		found |= strstr(line, want) != NULL;
		print_message("# %s", line);
	}
	assert_int_equal(pclose(f), 0);
	assert_true(found);
}

static void t13_exact(void **state)
{
	struct pincap_cgroup m;
	struct actor p;
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "t13");
	set_limit(&cg, "65M");
	open_actor(&p, &cg, true, 48 * PIECE);
	actor_must(&p, 0, "map 1 %lld %d 0", MIB, RW);
	actor_must(&p, 0, "lock 1 0 %lld", MIB); /* the base */
	m = entry(&cg);
	assert_int_equal(m.charges, 1);
	assert_int_equal(lock_pieces(&p, 0, 48), 16);
	assert_usage(&cg, 67108864 + MIB, 0);
	m = entry(&cg);
	assert_int_equal(m.charges, 17);
	assert_int_equal(m.refused, 32);
	assert_int_equal(m.refused_bytes, 32 * PIECE);
	assert_int_equal(m.peak, 67108864 + MIB);
	actor_exit(&p);
	assert_usage(&cg, 0, 0);
}

/* 5 MiB are wanted, an allocator that rounds to a power of two locks 8. */
static void t13b_real_size(void **state)
{
	struct actor plain, p;
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "t13b");
	set_limit(&cg, "15M");
	/* who asks for 5 and has 8 locked is charged 8 ... */
	open_actor(&plain, &cg, false, 8 * MIB);
	actor_must(&plain, 0, "charge %lld %d", 5 * MIB, PINCAP_LOCK);
	assert_usage_held(&cg, 0, 0, 5 * MIB);
	actor_must(&plain, 0, "lock2 0 0 %lld %d", 8 * MIB, MLOCK_ONFAULT);
	actor_must(&plain, 0, "settle");
	assert_usage(&cg, 8388608, 0);
	/* ... and 7 are left, which is less than 8 */
	open_actor(&p, &cg, true, 8 * MIB);
	actor_must(&p, -1, "lock2 0 0 %lld %d", 8 * MIB, MLOCK_ONFAULT);
	assert_usage(&cg, 8388608, 0);
	assert_int_equal(entry(&cg).refused_bytes, 8388608);
	actor_must(&plain, 0, "unlockall");
	actor_must(&p, 0, "lock2 0 0 %lld %d", 8 * MIB, MLOCK_ONFAULT);
	assert_usage(&cg, 8388608, 0);
	actor_exit(&p);
	actor_exit(&plain);
	assert_usage(&cg, 0, 0);
}

static void t14_the_other_grows(void **state)
{
	int of_a = 0, of_b = 0;
	struct actor a, b;
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "t14");
	set_limit(&cg, "64M");
	open_actor(&a, &cg, true, 12 * PIECE);
	open_actor(&b, &cg, true, 12 * PIECE);
	for (int i = 0; i < 12; i++) {
		of_a += lock_pieces(&a, i, 1);
		of_b += lock_pieces(&b, i, 1);
		assert_in_range(entry(&cg).current, 0, 67108864);
	}
	assert_int_equal(of_a, 8);
	assert_int_equal(of_b, 8);
	assert_usage(&cg, 67108864, 0);
	actor_exit(&a);
	assert_usage(&cg, 33554432, 0);
	assert_int_equal(lock_pieces(&b, of_b, 12 - of_b), 4);
	assert_usage(&cg, 50331648, 0);
	actor_exit(&b);
	assert_usage(&cg, 0, 0);
	assert_int_equal(entry(&cg).peak, 67108864);
}

static void *lock_many(void *arg)
{
	char *at = arg;

	for (int i = 0; i < LOCKS; i++)
		if (mlock2(at + i * MIB, MIB, MLOCK_ONFAULT))
			_exit(2);
	return NULL;
}

static void burst(void)
{
	char *all = mmap(NULL, BURST * LOCKS * MIB, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_t threads[BURST];

	if (all == MAP_FAILED)
		_exit(1);
	for (int i = 0; i < BURST; i++)
		if (pthread_create(&threads[i], NULL, lock_many, all + i * LOCKS * MIB))
			_exit(1);
	for (int i = 0; i < BURST; i++)
		pthread_join(threads[i], NULL);
}

/* Without the library nobody asks, so nobody is refused: all of it is seen. */
static void t15_burst_unasked(void **state)
{
	struct pincap_cgroup m;
	struct stage s;
	struct cg cg;
	pid_t pid;

	(void)state;
	cg_make(&cg, NULL, "t15");
	set_limit(&cg, "16M");
	stage_make(&s);
	pid = cg_fork(&cg);
	if (!pid) {
		burst();
		stage_point(&s, 1);
		_exit(0);
	}
	assert_int_equal(stage_hear(&s), 1);
	assert_usage(&cg, BURST * LOCKS * MIB, 0);
	m = entry(&cg);
	print_message("# T15 without the library: %lld MiB beyond a budget of 16 MiB\n",
		      (long long)(m.peak - (int64_t)m.limit) / MIB);
	assert_true(m.peak > (int64_t)m.limit);
	assert_int_equal(m.peak, BURST * LOCKS * MIB);
	assert_int_equal(m.charges + m.refused, 0);
	stage_go(&s);
	assert_int_equal(reap(pid), 0);
	stage_close(&s);
	assert_usage(&cg, 0, 0);
}

static void lock_past_rlimit(int64_t bytes)
{
	const struct rlimit four = { 4 * MIB, 4 * MIB };
	void *at = mmap(NULL, bytes, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (setrlimit(RLIMIT_MEMLOCK, &four) || at == MAP_FAILED ||
	    mlock2(at, bytes, MLOCK_ONFAULT))
		_exit(1);
}

/* (a): root is above RLIMIT_MEMLOCK, not above being counted. */
static void t19_root_over(void **state)
{
	struct pincap_cgroup m;
	struct stage s;
	struct cg cg;
	pid_t pid;

	(void)state;
	cg_make(&cg, NULL, "t19");
	set_limit(&cg, "32M");
	stage_make(&s);
	pid = cg_fork(&cg);
	if (!pid) {
		lock_past_rlimit(64 * MIB);
		stage_point(&s, 1);
		_exit(0);
	}
	assert_int_equal(stage_hear(&s), 1);
	assert_usage(&cg, 67108864, 0);
	m = entry(&cg);
	assert_int_equal(m.current - (int64_t)m.limit, 33554432);
	assert_explained(&cg, "64.0 MiB of 32.0 MiB in use, over by 32.0 MiB");
	stage_go(&s);
	assert_int_equal(reap(pid), 0);
	stage_close(&s);
	assert_usage(&cg, 0, 0);
}

/* (b): the three ways to lock under an RLIMIT_MEMLOCK of 4 MiB, one after the other. */
static void lock_three_ways(const struct stage *s, uid_t uid, int shmid)
{
	const struct rlimit four = { 4 * MIB, 4 * MIB };
	char *at = mmap(NULL, 8 * MIB, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int ring;

	if (at == MAP_FAILED || setrlimit(RLIMIT_MEMLOCK, &four) || setresuid(uid, uid, uid))
		_exit(1);
	ring = ring_make();
	if (mlock(at, 4 * MIB) || ring < 0 || ring_register(ring, at + 4 * MIB, 3 * MIB) ||
	    shmctl(shmid, SHM_LOCK, NULL))
		_exit(2);
	stage_point(s, 1);
	_exit(0);
}

static void t19b_three_ways(void **state)
{
	const uid_t uid = 60000 + (uid_t)getpid() % 5000; /* whose account nobody else uses */
	const int64_t before = stat_number("shm_locked");
	struct shmid_ds ds;
	struct stage s;
	struct cg cg;
	void *segment;
	int64_t pinned;
	int shmid;
	pid_t pid;

	(void)state;
	cg_make(&cg, NULL, "t19b");
	shmid = shmget(IPC_PRIVATE, 3 * MIB, IPC_CREAT | 0600);
	segment = shmat(shmid, NULL, 0);
	assert_true(segment != (void *)-1 && !shmctl(shmid, IPC_STAT, &ds));
	ds.shm_perm.uid = uid;
	assert_int_equal(shmctl(shmid, IPC_SET, &ds), 0);
	assert_int_equal(shmctl(shmid, IPC_RMID, NULL), 0); /* with whoever is attached last */
	stage_make(&s);
	pid = cg_fork(&cg);
	if (!pid)
		lock_three_ways(&s, uid, shmid);
	assert_int_equal(stage_hear(&s), 1);
	/* Some kernels (6.1, 7.3) count the ring itself there, too, if it is a user's. */
	pinned = usage_by_proc(&cg).pinned;
	assert_true(pinned >= 3145728 && pinned <= 4194304);
	assert_usage(&cg, 4194304, pinned);
	assert_int_equal(stat_number("shm_locked") - before, 3145728);
	assert_explained(&cg, "shm locked      3.0 MiB");
	stage_go(&s);
	assert_int_equal(reap(pid), 0);
	stage_close(&s);
	assert_int_equal(shmdt(segment), 0);
	assert_usage(&cg, 0, 0);
	assert_int_equal(stat_number("shm_locked"), before);
}

static void t24_parent_over(void **state)
{
	struct cg parent, g[2];
	struct actor p[2];

	(void)state;
	cg_make(&parent, NULL, "t24");
	set_limit(&parent, "48M");
	for (int i = 0; i < 2; i++) {
		cg_make(&g[i], &parent, i ? "b" : "a");
		set_limit(&g[i], "40M");
		open_actor(&p[i], &g[i], false, 32 * MIB);
		actor_must(&p[i], 0, "lock2 0 0 %lld %d", 32 * MIB, MLOCK_ONFAULT);
		assert_usage(&g[i], 33554432, 0);
		assert_true((uint64_t)entry(&g[i]).current < entry(&g[i]).limit);
	}
	assert_usage(&parent, 67108864, 0);
	assert_int_equal(entry(&parent).current - (int64_t)entry(&parent).limit, 16777216);
	assert_explained(&parent, "over by 16.0 MiB");
	/* A child's budget is no way around its parent's. */
	set_limit(&g[0], "1G");
	actor_fails(&p[0], EDQUOT, "charge %lld %d", PIECE, PINCAP_DRIVER);
	actor_must(&p[1], 0, "unlockall"); /* 16 MiB below the parent's now */
	assert_usage(&parent, 33554432, 0);
	actor_must(&p[0], 0, "charge %lld %d", 16 * MIB, PINCAP_DRIVER);
	actor_fails(&p[0], EDQUOT, "charge %lld %d", MIB, PINCAP_DRIVER);
	for (int i = 0; i < 2; i++)
		actor_exit(&p[i]);
	assert_usage(&parent, 0, 0);
}

#define TEST(fn)                                   \
	{                                          \
#fn, fn, NULL, test_teardown, NULL \
	}

static const struct CMUnitTest tests[] = {
	TEST(t13_exact),	 TEST(t13b_real_size), TEST(t14_the_other_grows),
	TEST(t15_burst_unasked), TEST(t19_root_over),  TEST(t19b_three_ways),
	TEST(t24_parent_over),
};

HARNESS_MAIN(tests)
