/* SPDX-License-Identifier: MIT */
/*
 * Counters across the lives of processes, threads and cgroups: nothing is left
 * behind, whatever the way to die, and a process that keeps moving while its
 * threads lock and unlock ends exact.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/kernel/ask.h"
#include "tests/kernel/harness.h"
#include "tests/kernel/play.h"

#define RW	  (PROT_READ | PROT_WRITE)
#define MOVES	  400
#define UNMAPS	  300
#define KILLS	  200
#define TASK_SIZE 0x7ffffffff000UL /* x86-64 with four levels of page tables */

static void wait_no_record(const struct cg *cg)
{
	struct deadline d = deadline_in(2000);
	int n;

	do {
		n = map_count_processes(cg->id);
	} while (n && deadline_open(&d));
	if (n)
		fail_msg("%d records stay behind", n);
}

static void moving(void **state)
{
	struct cg parent, a, b;
	struct actor p;
	struct reply r;

	cg_make(&parent, NULL, "parent");
	cg_make(&a, &parent, "a");
	cg_make(&b, &parent, "b");
	actor_start(&p, &a, *state != NULL);
	actor_must(&p, 0, "spin 4");
	for (int i = 0; i < MOVES; i++)
		cg_move(i % 2 ? &a : &b, p.pid);
	r = actor_do(&p, "still");
	assert_int_equal(r.ret, 0);
	assert_true(r.locked > 0);
	assert_usage(&a, r.locked, 0); /* the last move went there */
	assert_usage(&b, 0, 0);
	assert_usage(&parent, r.locked, 0);
	actor_exit(&p);
	assert_usage(&a, 0, 0);
	assert_usage(&parent, 0, 0);
	wait_no_record(&a);
	wait_no_record(&b);
}

/* Lock, then pull everything from under ourselves; the next instruction faults. */
static void unmap_everything(void)
{
	char *p = mmap(NULL, MIB, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	prctl(PR_SET_DUMPABLE, 0);
	if (syscall(SYS_mlock, p, MIB))
		_exit(1);
	syscall(SYS_munmap, 0UL, TASK_SIZE);
	_exit(2);
}

/* An address space without mappings gets no exit_mmap. */
static void no_mappings(void **state)
{
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "unmap");
	for (int i = 0; i < UNMAPS; i++) {
		pid_t pid = cg_fork(&cg);
		int status;

		if (!pid)
			unmap_everything();
		status = reap(pid);
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSEGV)
			fail_msg("it ended with status %#x", status);
	}
	wait_no_record(&cg);
	assert_usage(&cg, 0, 0);
}

static void lock_for_ever(atomic_uint *rounds)
{
	char *p = mmap(NULL, 4 * MIB, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (;;) {
		mlock(p, 4 * MIB);
		atomic_fetch_add(rounds, 1);
		munlock(p + MIB, MIB);
	}
}

static void kill_lockers(void **state)
{
	atomic_uint *rounds = mmap(NULL, 4096, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "kill");
	srandom(1);
	for (int i = 0; i < KILLS; i++) {
		struct deadline d = deadline_in(10000);
		unsigned int until = 1 + random() % 16;
		pid_t pid;

		atomic_store(rounds, 0);
		pid = cg_fork(&cg);
		if (!pid)
			lock_for_ever(rounds);
		while (atomic_load(rounds) < until && deadline_open(&d))
			;
		kill(pid, SIGKILL);
		assert_true(WIFSIGNALED(reap(pid)));
		assert_true(atomic_load(rounds) >= until);
	}
	munmap(rounds, 4096);
	wait_no_record(&cg);
	assert_usage(&cg, 0, 0);
}

static void exec_drops(void **state)
{
	struct actor p;
	struct cg cg;

	cg_make(&cg, NULL, "exec");
	actor_start(&p, &cg, *state != NULL);
	actor_must(&p, 0, "map 0 %lld %d 0", 8 * MIB, RW);
	actor_must(&p, 0, "lock 0 0 %lld", 8 * MIB);
	assert_usage(&cg, 8388608, 0);
	actor_must(&p, 0, "exec");
	assert_usage(&cg, 0, 0);
	actor_must(&p, 0, "map 0 %lld %d 0", 8 * MIB, RW);
	actor_must(&p, 0, "lock 0 0 %lld", 8 * MIB);
	assert_usage(&cg, 8388608, 0);
	actor_must(&p, 0, "threadexec 0");
	assert_usage(&cg, 0, 0);
	actor_exit(&p);
	wait_no_record(&cg);
}

static void fork_owns_nothing(void **state)
{
	struct cg cg, other;
	struct actor p;

	cg_make(&cg, NULL, "fork");
	cg_make(&other, NULL, "other");
	actor_start(&p, &cg, *state != NULL);
	actor_must(&p, 0, "map 0 %lld %d 0", 8 * MIB, RW);
	actor_must(&p, 0, "lock 0 0 %lld", 8 * MIB);
	actor_must(&p, 0, "fork");
	assert_usage(&cg, 8388608, 0);
	assert_int_equal(map_count_processes(cg.id), 1);
	cg_move(&other, p.pid); /* the child stays, and owns nothing */
	assert_usage(&cg, 0, 0);
	assert_usage(&other, 8388608, 0);
	actor_must(&p, 0, "unfork");
	assert_usage(&other, 8388608, 0);
	actor_exit(&p);
	assert_usage(&other, 0, 0);
}

/* The leader is a zombie without an address space; the others have it still. */
static void leader_gone(void **state)
{
	struct actor p;
	struct cg a;

	(void)state;
	cg_make(&a, NULL, "leader");
	actor_start(&p, &a, false);
	actor_must(&p, 0, "map 0 %lld %d 0", 8 * MIB, RW);
	actor_must(&p, 0, "lock 0 0 %lld", 4 * MIB);
	actor_must(&p, 0, "leave");
	assert_usage(&a, 4194304, 0);
	actor_must(&p, 0, "lock 0 0 %lld", 8 * MIB);
	assert_usage(&a, 8388608, 0);
	actor_exit(&p);
	assert_usage(&a, 0, 0);
	wait_no_record(&a);
}

static void directory_goes(void **state)
{
	struct cg parent, cg, again;
	struct pincap_cgroup m;
	struct actor p;

	cg_make(&parent, NULL, "parent");
	cg_make(&cg, &parent, "g");
	set_limit(&cg, "64M");
	actor_start(&p, &cg, *state != NULL);
	actor_must(&p, 0, "map 0 %lld %d 0", 8 * MIB, RW);
	actor_must(&p, 0, "lock 0 0 %lld", 8 * MIB);
	assert_usage(&cg, 8388608, 0);
	actor_exit(&p);
	assert_usage(&cg, 0, 0);
	assert_true(map_cgroup(&cg, &m));
	assert_int_equal(m.limit, 64 * MIB);
	cg_remove(&cg);
	assert_false(map_cgroup(&cg, &m));

	cg_make(&again, &parent, "g");
	assert_int_not_equal(again.id, cg.id);
	assert_usage(&again, 0, 0);
	actor_start(&p, &again, *state != NULL);
	actor_must(&p, 0, "map 0 %lld %d 0", 80 * MIB, RW);
	actor_must(&p, 0, "lock2 0 0 %lld %d", 80 * MIB, MLOCK_ONFAULT);
	assert_usage(&again, 83886080, 0);
	assert_true(map_cgroup(&again, &m));
	assert_true(m.limit == PINCAP_UNLIMITED);
	actor_exit(&p);
	assert_usage(&parent, 0, 0);
}

static char with_preload[] = "preload";

#define PAIR(fn)                                                        \
	{ #fn " (plain)", fn, NULL, test_teardown, NULL },              \
	{                                                               \
#fn " (preload)", fn, NULL, test_teardown, with_preload \
	}

static const struct CMUnitTest tests[] = {
	PAIR(moving),
	{ "no_mappings", no_mappings, NULL, test_teardown, NULL },
	{ "kill_lockers", kill_lockers, NULL, test_teardown, NULL },
	PAIR(exec_drops),
	PAIR(fork_owns_nothing),
	{ "leader_gone", leader_gone, NULL, test_teardown, NULL },
	PAIR(directory_goes),
};

HARNESS_MAIN(tests)
