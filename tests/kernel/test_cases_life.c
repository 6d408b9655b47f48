/* SPDX-License-Identifier: MIT */
/*
 * Processes that die in every way, that fork, and that share an address space:
 * T06, T07 and T08.
 *
 * Environment: PINCAP_TEST_DEATH_MS (1000) and PINCAP_TEST_SWEEPS (0) where a processor is
 * emulated.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/kernel/ask.h"
#include "tests/kernel/child.h"
#include "tests/kernel/harness.h"
#include "tests/kernel/play.h"
#include "tests/kernel/sampler.h"
#include "tests/kernel/stage.h"

#define RW	   (PROT_READ | PROT_WRITE)
#define ANON	   (MAP_PRIVATE | MAP_ANONYMOUS)
#define DEATHS	   200
#define CONCURRENT 20
#define CHILDREN   50
#define THREADS	   16

#define DEATH_MS ((unsigned int)harness_number("PINCAP_TEST_DEATH_MS", 1000))

enum way { BY_EXIT, BY_KILL, BY_FAULT, BY_EXEC, WAYS };

/* Locks 8 MiB, pins another 8, and ends so when the gate opens. */
static void live_and_die(enum way way, const struct stage *s, const int *gate)
{
	char *p = mmap(NULL, 16 * MIB, RW, ANON, -1, 0);
	int64_t word = 0;
	char c;

	close(gate[1]);
	prctl(PR_SET_DUMPABLE, 0); /* no core */
	signal(SIGSEGV, SIG_DFL);
	if (mlock(p, 8 * MIB) || ring_register(ring_make(), p + 8 * MIB, 8 * MIB))
		word = errno;
	if (write(s->said[1], &word, sizeof(word)) < 0 || read(gate[0], &c, 1))
		_exit(1);
	switch (way) {
	case BY_KILL:
		kill(getpid(), SIGKILL);
		break;
	case BY_FAULT:
		mprotect(p, 4096, PROT_NONE);
		*(volatile char *)p = 1;
		break;
	case BY_EXEC:
		execl("/bin/sleep", "sleep", "60", NULL);
		break;
	default:
		break;
	}
	_exit(0);
}

static void check_death(pid_t pid, enum way way)
{
	int status;

	if (way == BY_EXEC)
		kill(pid, SIGKILL);
	status = reap(pid);
	if (way == BY_EXIT)
		assert_int_equal(status, 0);
	else
		assert_int_equal(WTERMSIG(status), way == BY_FAULT ? SIGSEGV : SIGKILL);
}

/* Rings go when the kernel finds time. Where it skips programs, as an emulated one that
 * preempts does a lot, a controller's sweeps find what they missed. */
static void await_death(const struct cg *cg)
{
	for (unsigned int i = 0; i < harness_number("PINCAP_TEST_SWEEPS", 0); i++)
		usage_by_stat(cg);
	map_wait_within(cg, 0, 0, DEATH_MS);
}

/* Twenty die at once; those that execute live on, with nothing. */
static void die_together(const struct cg *cg, int round)
{
	struct stage s;
	pid_t pids[CONCURRENT];
	int gate[2];

	stage_make(&s);
	assert_return_code(pipe2(gate, O_CLOEXEC), errno);
	for (int i = 0; i < CONCURRENT; i++) {
		pids[i] = cg_fork(cg);
		if (!pids[i])
			live_and_die((i + round) % WAYS, &s, gate);
	}
	for (int i = 0; i < CONCURRENT; i++)
		assert_int_equal(stage_hear(&s), 0);
	assert_usage(cg, 8388608LL * CONCURRENT, 8388608LL * CONCURRENT);
	close(gate[0]);
	close(gate[1]);
	await_death(cg);
	for (int i = 0; i < CONCURRENT; i++)
		check_death(pids[i], (i + round) % WAYS);
	stage_close(&s);
}

static void t06_every_way_to_die(void **state)
{
	struct sampler_seen seen;
	struct deadline d;
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "t06");
	sampler_start(&cg);
	for (int i = 0; i < DEATHS / CONCURRENT; i++)
		die_together(&cg, i);
	sampler_stop();
	seen = sampler_seen();
	print_message("# %u samples, from %" PRId64 " to %" PRId64 "\n", seen.samples, seen.lowest,
		      seen.highest);
	assert_int_equal(seen.lowest, 0);
	assert_int_equal(seen.highest, 16777216LL * CONCURRENT);
	assert_usage(&cg, 0, 0);
	d = deadline_in(2000);
	while (map_count_processes(cg.id) && deadline_open(&d))
		;
	assert_int_equal(map_count_processes(cg.id), 0);
}

/* What was locked is gone when the new program starts; a ring may take its time. */
static void t06_exec_at_once(void **state)
{
	struct pincap_cgroup m;
	int begun[2];
	struct cg cg;
	pid_t pid;
	char c;

	(void)state;
	cg_make(&cg, NULL, "t06e");
	assert_return_code(pipe2(begun, O_CLOEXEC), errno);
	pid = cg_fork(&cg);
	if (!pid) {
		char *p = mmap(NULL, 16 * MIB, RW, ANON, -1, 0);

		if (mlock(p, 8 * MIB) || ring_register(ring_make(), p + 8 * MIB, 8 * MIB))
			_exit(1);
		execl("/bin/sleep", "sleep", "60", NULL);
		_exit(2);
	}
	close(begun[1]);
	assert_int_equal(read(begun[0], &c, 1), 0); /* closed by the exec */
	assert_true(map_cgroup(&cg, &m));
	assert_int_equal(m.peak_locked, 8388608);
	assert_int_equal(m.locked, 0);
	await_death(&cg);
	close(begun[0]);
	kill(pid, SIGKILL);
	check_death(pid, BY_EXEC);
	assert_usage(&cg, 0, 0);
}

/* At once, and always: nothing is polled here. */
static void must_be(const struct cg *cg, int64_t locked)
{
	struct pincap_cgroup m;

	map_cgroup(cg, &m);
	assert_int_equal(m.locked, locked);
	assert_int_equal(m.current, locked);
}

static void t07_fork(void **state)
{
	struct actor p;
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "t07");
	actor_start(&p, &cg, false);
	actor_must(&p, 0, "map 0 %lld %d 0", 8 * MIB, RW);
	actor_must(&p, 0, "lock 0 0 %lld", 8 * MIB);
	assert_usage(&cg, 8388608, 0);
	for (int i = 0; i < CHILDREN; i++) {
		actor_must(&p, 0, "fork 0 0");
		must_be(&cg, 8388608);
		actor_must(&p, 0, "unfork");
		must_be(&cg, 8388608);
	}
	actor_must(&p, 0, "fork 0 %lld", 8 * MIB);
	assert_usage(&cg, 16777216, 0);
	actor_must(&p, 0, "unfork");
	assert_usage(&cg, 8388608, 0);
	actor_exit(&p);
	assert_usage(&cg, 0, 0);
}

struct share {
	struct stage stage;
	char *p;
};

static int sibling_main(void *arg)
{
	stage_point(&((struct share *)arg)->stage, 2);
	_exit(0);
}

static void *lock_part(void *arg)
{
	CHILD_EQUAL(mlock(arg, 8 * MIB / THREADS), 0);
	return NULL;
}

static void share_vfork(struct share *s)
{
	pid_t pid = vfork();

	if (!pid) {
		stage_point(&s->stage, 1);
		_exit(0);
	}
	CHILD_EQUAL(waitpid(pid, NULL, 0), pid);
}

static void share_all(struct share *s)
{
	static char stack[65536] __attribute__((aligned(16)));
	pthread_t threads[THREADS];
	pid_t pid;

	s->p = mmap(NULL, 8 * MIB, RW, ANON, -1, 0);
	CHILD_EQUAL(mlock(s->p, 8 * MIB), 0);
	stage_point(&s->stage, 0);
	share_vfork(s);
	pid = clone(sibling_main, stack + sizeof(stack), CLONE_VM | SIGCHLD, s);
	CHILD_EQUAL(waitpid(pid, NULL, 0), pid);
	stage_point(&s->stage, 3);
	for (int i = 0; i < THREADS; i++)
		CHILD_EQUAL(pthread_create(&threads[i], NULL, lock_part,
					   s->p + i * 8 * MIB / THREADS),
			    0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	stage_point(&s->stage, 4);
	_exit(0);
}

static void t08_shared_mm(void **state)
{
	struct proc_mm all[8];
	struct share s = { .p = NULL };
	struct cg cg;
	pid_t pid;

	(void)state;
	cg_make(&cg, NULL, "t08");
	stage_make(&s.stage);
	pid = cg_fork(&cg);
	if (!pid)
		share_all(&s);
	for (int i = 0; i <= 4; i++) {
		bool two = i == 1 || i == 2; /* vfork's child, the sibling */

		assert_int_equal(stage_hear(&s.stage), i);
		must_be(&cg, 8388608);
		assert_int_equal(procs_below(&cg, all, 8), two ? 2 : 1);
		assert_true(!two || is_same_mm(&all[0], &all[1]));
		assert_usage(&cg, 8388608, 0);
		assert_int_equal(map_count_processes(cg.id), 1);
		stage_go(&s.stage);
	}
	assert_int_equal(reap(pid), 0);
	stage_close(&s.stage);
	assert_usage(&cg, 0, 0);
}

static int heir_main(void *arg)
{
	struct share *s = arg;

	prctl(PR_SET_NAME, "heir");
	stage_point(&s->stage, getpid());
	_exit(0);
}

static void leave_to_heir(struct share *s)
{
	static char stack[65536] __attribute__((aligned(16)));

	s->p = mmap(NULL, 8 * MIB, RW, ANON, -1, 0);
	CHILD_EQUAL(mlock(s->p, 8 * MIB), 0);
	if (clone(heir_main, stack + sizeof(stack), CLONE_VM | SIGCHLD, s) < 0)
		_exit(1);
	_exit(0);
}

/* Who owns the address space has died: the record names the one that has it now. */
static void t08_heir(void **state)
{
	struct pincap_process p = { 0 };
	struct share s = { .p = NULL };
	int64_t heir;
	struct cg cg;
	pid_t pid;

	(void)state;
	cg_make(&cg, NULL, "t08heir");
	stage_make(&s.stage);
	pid = cg_fork(&cg);
	if (!pid)
		leave_to_heir(&s);
	heir = stage_hear(&s.stage);
	assert_int_equal(reap(pid), 0);
	assert_usage(&cg, 8388608, 0); /* ends with a sweep */
	assert_true(map_process(&cg, &p));
	assert_int_equal(p.tgid, heir);
	assert_string_equal(p.comm, "heir");
	stage_go(&s.stage);
	stage_close(&s.stage);
	assert_usage(&cg, 0, 0);
}

#define TEST(fn)                                   \
	{                                          \
#fn, fn, NULL, test_teardown, NULL \
	}

static const struct CMUnitTest tests[] = {
	TEST(t06_every_way_to_die), TEST(t06_exec_at_once), TEST(t07_fork),
	TEST(t08_shared_mm),	    TEST(t08_heir),
};

HARNESS_MAIN(tests)
