/* SPDX-License-Identifier: MIT */
/*
 * Admission, one question at a time: who decides, what is no question at all, who
 * may ask, the small allowance, and what stays held.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <netinet/in.h>
#include <grp.h>
#include <cmocka.h>

#include "tests/kernel/ask.h"
#include "tests/kernel/child.h"
#include "tests/kernel/harness.h"
#include "tests/kernel/play.h"

#define RW (PROT_READ | PROT_WRITE)

/* The entry without what a refusal is meant to change. */
static struct pincap_cgroup amounts_of(const struct cg *cg)
{
	struct pincap_cgroup m;

	map_cgroup(cg, &m);
	m.refused = m.refused_bytes = m.limit_hits = 0;
	return m;
}

static void charge_until_refused(const struct actor *p, const struct cg *levels, int64_t limit)
{
	struct pincap_cgroup before[3], after;

	for (int64_t held = 0; held < limit; held += MIB) {
		actor_must(p, 0, "charge %lld %d", MIB, PINCAP_DRIVER);
		actor_must(p, MIB, "settle");
	}
	for (int i = 0; i < 3; i++)
		before[i] = amounts_of(&levels[i]);
	actor_fails(p, EDQUOT, "charge %lld %d", MIB, PINCAP_DRIVER);
	actor_fails(p, EDQUOT, "charge %lld %d", TIB, PINCAP_DRIVER);
	for (int i = 0; i < 3; i++) {
		after = amounts_of(&levels[i]);
		assert_memory_equal(&before[i], &after, sizeof(after));
		assert_int_equal(after.current, limit);
		assert_int_equal(after.peak, limit);
	}
}

/* The tightest of three levels decides, wherever it is. */
static void nested(void **state)
{
	static const char *const limits[][3] = { { "8M", "16M", "32M" },
						 { "32M", "8M", "16M" },
						 { "16M", "infinity", "8M" } };
	struct cg levels[3];
	struct actor p;

	(void)state;
	for (int round = 0; round < 3; round++) {
		struct pincap_cgroup m;

		cg_make(&levels[0], NULL, "nest");
		cg_make(&levels[1], &levels[0], "b");
		cg_make(&levels[2], &levels[1], "c");
		for (int i = 0; i < 3; i++)
			set_limit(&levels[i], limits[round][i]);
		actor_start(&p, &levels[2], false);
		charge_until_refused(&p, levels, 8 * MIB);
		for (int i = 0; i < 3; i++) {
			map_cgroup(&levels[i], &m);
			assert_int_equal(m.refused, 2);
			assert_int_equal(m.refused_bytes, MIB + TIB);
			/* whoever is met first decides about the impossible one */
			assert_true(m.limit_hits >= (m.limit == 8 * MIB));
		}
		actor_exit(&p);
		for (int i = 2; i >= 0; i--) {
			assert_usage(&levels[i], 0, 0);
			cg_remove(&levels[i]);
		}
	}
}

static void check_sizes(int fd)
{
	static const uint64_t bad[] = { 0,
					(1ULL << 46) + 1,
					1ULL << 63,
					~0ULL,
					0ULL - (32ULL << 20),
					(1ULL << 63) + 1,
					1ULL << 47,
					0x8000000000000000ULL + 4096 };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		CHILD_EQUAL(ask_charge(fd, bad[i], PINCAP_LOCK), -EINVAL);
		CHILD_EQUAL(ask_charge(fd, bad[i], PINCAP_DRIVER), -EINVAL);
		CHILD_EQUAL(ask_uncharge(fd, bad[i]), -EINVAL);
	}
	CHILD_EQUAL(ask_charge(fd, 4096, 0), -EINVAL);
	CHILD_EQUAL(ask_charge(fd, 4096, PINCAP_LOCK | PINCAP_DRIVER), -EINVAL);
	for (int bit = 2; bit < 32; bit++)
		CHILD_EQUAL(ask_charge(fd, 4096, 1U << bit), -EINVAL);
	for (int bit = 0; bit < 32; bit++) {
		struct pincap_charge c = { 4096, PINCAP_DRIVER, 1U << bit };

		CHILD_EQUAL(ask_raw(fd, PINCAP_CHARGE, &c, sizeof(c)), -EINVAL);
	}
}

static int get(int fd, int option, void *value, socklen_t len)
{
	return getsockopt(fd, SOL_PINCAP, option, value, &len) ? -errno : 0;
}

/* Zeroed but for a good request at the front, so that length alone is wrong. */
static void check_lengths(int fd)
{
	union {
		struct pincap_charge charge;
		uint64_t bytes;
		char room[8192];
	} u = { .charge = { 4096, PINCAP_DRIVER, 0 } };

	for (socklen_t len = 0; len <= sizeof(u); len += len < 96 || len >= 8191 ? 1 : 1619) {
		if (len != sizeof(u.charge))
			CHILD_EQUAL(ask_raw(fd, PINCAP_CHARGE, &u, len), -EINVAL);
		if (len != sizeof(u.bytes)) {
			CHILD_EQUAL(ask_raw(fd, PINCAP_UNCHARGE, &u, len), -EINVAL);
			CHILD_EQUAL(get(fd, PINCAP_SETTLE, &u, len), -EINVAL);
		}
		if (len != sizeof(struct pincap_status))
			CHILD_EQUAL(get(fd, PINCAP_STATUS, &u, len), -EINVAL);
	}
	CHILD_EQUAL(ask_raw(fd, PINCAP_CHARGE, &u, (socklen_t)-1), -EINVAL);
	CHILD_EQUAL(get(fd, PINCAP_SETTLE, &u, (socklen_t)-1), -EINVAL);
	CHILD_EQUAL(ask_raw(fd, PINCAP_CHARGE, NULL, sizeof(u.charge)), -EFAULT);
	CHILD_EQUAL(ask_raw(fd, PINCAP_CHARGE, (void *)8, sizeof(u.charge)), -EFAULT);
	CHILD_EQUAL(ask_raw(fd, PINCAP_UNCHARGE, (void *)8, sizeof(u.bytes)), -EFAULT);
	CHILD_EQUAL(get(fd, PINCAP_STATUS, (void *)8, sizeof(struct pincap_status)), -EFAULT);
}

static void check_rubbish(const struct cg *cg)
{
	int fds[] = { socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0),
		      socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
	struct pincap_cgroup before, after;

	CHILD_EQUAL(ask_charge(fds[0], 8 * MIB, PINCAP_DRIVER), 0);
	CHILD_EQUAL(ask_settle(fds[1]), 8 * MIB); /* any socket will do */
	map_cgroup(cg, &before);
	for (int i = 0; i < 2; i++) {
		check_sizes(fds[i]);
		check_lengths(fds[i]);
	}
	map_cgroup(cg, &after);
	CHILD_EQUAL(memcmp(&before, &after, sizeof(before)), 0);
	CHILD_EQUAL(after.current, 8 * MIB);
	CHILD_EQUAL(ask_charge(fds[1], 1ULL << 46, PINCAP_DRIVER), -EDQUOT);
}

static void rubbish(void **state)
{
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "rubbish");
	set_limit(&cg, "64M");
	child_run(&cg, check_rubbish, &cg);
	assert_usage(&cg, 0, 0);
}

/* The whole conversation, from wherever the caller may be. */
static void converse(const struct cg *cg)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct pincap_status st;

	CHILD_EQUAL(ask_charge(fd, 8 * MIB, PINCAP_DRIVER), 0);
	CHILD_EQUAL(ask_settle(fd), 8 * MIB);
	CHILD_EQUAL(ask_charge(fd, 16 * MIB, PINCAP_DRIVER), -EDQUOT);
	CHILD_EQUAL(ask_status(fd, &st), 0);
	CHILD_EQUAL(st.abi, PINCAP_ABI);
	CHILD_EQUAL(st.cgroup_id, cg->id);
	CHILD_EQUAL(st.bound_id, cg->id);
	CHILD_EQUAL(st.limit, 16 * MIB);
	CHILD_EQUAL(st.current_bytes, 8 * MIB);
	CHILD_EQUAL(st.room, 8 * MIB);
	CHILD_EQUAL(st.held, 8 * MIB);
	CHILD_EQUAL(st.locked | st.pinned | st.gpu, 0);
	CHILD_EQUAL(ask_uncharge(fd, 8 * MIB), 0);
	CHILD_EQUAL(ask_status(fd, &st), 0);
	CHILD_EQUAL(st.held, 0);
	CHILD_EQUAL(st.current_bytes, 0);
}

static void converse_as_nobody(const struct cg *cg)
{
	CHILD_EQUAL(setgroups(0, NULL), 0);
	CHILD_EQUAL(setresgid(65534, 65534, 65534), 0);
	CHILD_EQUAL(setresuid(65534, 65534, 65534), 0);
	converse(cg);
}

static void converse_elsewhere(const struct cg *cg)
{
	int status = -1;
	pid_t pid;

	CHILD_EQUAL(unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET), 0);
	pid = fork();
	if (!pid) {
		CHILD_EQUAL(getpid(), 1);
		converse_as_nobody(cg);
		_exit(0);
	}
	CHILD_EQUAL(waitpid(pid, &status, 0), pid);
	CHILD_EQUAL(status, 0);
}

static void anybody_anywhere(void **state)
{
	struct pincap_cgroup m;
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "anybody");
	set_limit(&cg, "16M");
	child_run(&cg, converse, &cg);
	child_run(&cg, converse_as_nobody, &cg);
	child_run(&cg, converse_elsewhere, &cg);
	assert_usage(&cg, 0, 0);
	map_cgroup(&cg, &m);
	assert_int_equal(m.charges, 3);
	assert_int_equal(m.refused, 3);
	assert_int_equal(m.peak_held, 8 * MIB);
}

static void fill(struct actor *p, const struct cg *cg)
{
	set_limit(cg, "1M");
	actor_start(p, cg, false);
	actor_must(p, 0, "charge %lld %d", MIB, PINCAP_DRIVER);
	actor_must(p, MIB, "settle");
}

/* 64 KiB of locks per address space pass though the budget is full. */
static void small_allowance(void **state)
{
	struct actor p, q, r;
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "small");
	fill(&p, &cg);
	actor_fails(&p, EDQUOT, "charge 4096 %d", PINCAP_DRIVER);
	for (int i = 0; i < 16; i++) {
		actor_must(&p, 0, "charge 4096 %d", PINCAP_LOCK);
		actor_must(&p, 0, "settle");
	}
	actor_fails(&p, EDQUOT, "charge 4096 %d", PINCAP_LOCK);
	assert_usage_held(&cg, 0, 0, MIB);

	actor_start(&q, &cg, false);
	actor_fails(&q, EDQUOT, "charge %lld %d", 68 * KIB, PINCAP_LOCK);
	actor_must(&q, 0, "charge %lld %d", 64 * KIB, PINCAP_LOCK);
	assert_usage_held(&cg, 0, 0, MIB + 64 * KIB);
	actor_must(&q, 0, "map 0 %lld %d 0", 64 * KIB, RW);
	actor_must(&q, 0, "lock 0 0 %lld", 64 * KIB);
	assert_usage_held(&cg, 65536, 0, MIB);
	actor_must(&q, 0, "settle");
	assert_usage_held(&cg, 65536, 0, MIB);
	actor_fails(&q, EDQUOT, "charge 1 %d", PINCAP_LOCK);

	actor_start(&r, &cg, true); /* by way of the library */
	actor_must(&r, 0, "map 0 %lld %d 0", MIB, RW);
	for (int i = 0; i < 16; i++)
		actor_must(&r, 0, "lock 0 %d 4096", i * 8192);
	actor_fails(&r, ENOMEM, "lock 0 %d 4096", 16 * 8192);
	assert_usage_held(&cg, 131072, 0, MIB);
	actor_exit(&r);
	actor_exit(&q);
	actor_exit(&p);
	assert_usage(&cg, 0, 0);
}

static void no_allowance_in_nothing(void **state)
{
	struct cg parent, cg;
	struct actor p;

	(void)state;
	cg_make(&parent, NULL, "parent");
	cg_make(&cg, &parent, "g");
	set_limit(&parent, "0");
	actor_start(&p, &cg, false);
	actor_fails(&p, EDQUOT, "charge 1 %d", PINCAP_LOCK);
	actor_fails(&p, EDQUOT, "charge 4096 %d", PINCAP_DRIVER);
	assert_usage(&cg, 0, 0);
	actor_exit(&p);
}

/* What is there before anybody asks counts too. */
static void base_counts(void **state)
{
	struct actor p;
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "base");
	actor_start(&p, &cg, false);
	actor_must(&p, 0, "map 0 %lld %d 0", 36 * MIB, RW);
	actor_must(&p, 0, "lock 0 0 %lld", 36 * MIB);
	assert_usage(&cg, 36 * MIB, 0);
	set_limit(&cg, "40M");
	actor_fails(&p, EDQUOT, "charge %lld %d", 36 * MIB, PINCAP_DRIVER);
	actor_fails(&p, EDQUOT, "charge %lld %d", 4 * MIB + 1, PINCAP_DRIVER);
	actor_must(&p, 0, "charge %lld %d", 4 * MIB, PINCAP_DRIVER);
	actor_must(&p, 4 * MIB, "settle");
	assert_usage_held(&cg, 36 * MIB, 0, 4 * MIB);
	actor_exit(&p);
	assert_usage(&cg, 0, 0);
}

static void see_bounds(const struct cg *bound)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct pincap_status st;

	CHILD_EQUAL(ask_status(fd, &st), 0);
	CHILD_EQUAL(st.bound_id, bound->id);
	CHILD_EQUAL(st.limit, 8 * MIB);
	CHILD_EQUAL(st.room, 8 * MIB);
}

/* Of several budgets on the way up the one with the least room is told, wherever it is. */
static void tightest_bounds(void **state)
{
	struct cg cgs[3];

	(void)state;
	for (int i = 0; i < 3; i++)
		cg_make(&cgs[i], i ? &cgs[i - 1] : NULL, "bound");
	for (int tight = 0; tight < 3; tight++) {
		for (int i = 0; i < 3; i++)
			set_limit(&cgs[i], i == tight ? "8M" : "64M");
		child_run(&cgs[2], see_bounds, &cgs[tight]);
	}
}

#define TEST(fn)                                   \
	{                                          \
#fn, fn, NULL, test_teardown, NULL \
	}

static const struct CMUnitTest tests[] = {
	TEST(nested),
	TEST(rubbish),
	TEST(anybody_anywhere),
	TEST(small_allowance),
	TEST(no_allowance_in_nothing),
	TEST(base_counts),
	TEST(tightest_bounds),
};

HARNESS_MAIN(tests)
