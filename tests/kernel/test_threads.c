/* SPDX-License-Identifier: MIT */
/*
 * Two threads that lock and unlock one address space at full speed, on two CPUs,
 * while their process migrates, its leader ends, and a sibling that shares the
 * memory sits elsewhere. Then all stand still, and every page is counted once, where
 * the owner of the address space is.
 *
 * The kernel hands ownership to a child that shares the memory before it looks among
 * the leader's own threads (mm_update_next_owner): that is the sibling here.
 *
 * Environment: PINCAP_TEST_SECONDS of full speed (30).
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/kernel/ask.h"
#include "tests/kernel/child.h"
#include "tests/kernel/harness.h"
#include "tests/kernel/stage.h"

#define RW	(PROT_READ | PROT_WRITE)
#define ANON	(MAP_PRIVATE | MAP_ANONYMOUS)
#define LOCKERS 2
#define PART	MIB
#define ARENA	((char *)(1UL << 44)) /* where the kernel puts nothing by itself */
#define ROUNDS	20		      /* stops in the given time */

/* Shared between the test and the process; the process and its sibling share all. */
struct play {
	struct stage stage;
	const struct cg *sibling_cg;
	atomic_bool leader_ends;
	atomic_bool stop;
	atomic_int sibling;
	atomic_uint threads;
	atomic_ulong calls;
};

struct scene {
	struct cg top, a, b, c, d;
	struct play *play;
	pid_t pid;
	unsigned long moves;
};

static void *lock_and_unlock(void *arg)
{
	struct play *play = arg;
	unsigned int seed = atomic_fetch_add(&play->threads, 1);
	char *p = ARENA + PART * (seed % LOCKERS);
	unsigned long n = 0;

	mmap(p, PART, RW, ANON | MAP_FIXED, -1, 0);
	while (!atomic_load(&play->stop)) {
		size_t page = rand_r(&seed) % 256;

		mlock2(p + 4096 * page, PART - 4096 * page, MLOCK_ONFAULT);
		munlock(p + 4096 * (page / 2), 4096 * (page + 1));
		if (n++ % 8)
			continue;
		munmap(p + 4096 * page, PART - 4096 * page);
		mmap(p + 4096 * page, PART - 4096 * page, RW, ANON | MAP_FIXED, -1, 0);
	}
	mlock2(p, 4096 * (1 + seed % 256), MLOCK_ONFAULT); /* it is about something */
	atomic_fetch_add(&play->calls, 2 * n);
	return NULL;
}

/* Plays rounds until the test is gone. */
static void *conduct(void *arg)
{
	struct play *play = arg;
	pthread_t threads[LOCKERS];

	for (;;) {
		for (int i = 0; i < LOCKERS; i++)
			CHILD_EQUAL(pthread_create(&threads[i], NULL, lock_and_unlock, play), 0);
		for (int i = 0; i < LOCKERS; i++)
			pthread_join(threads[i], NULL);
		stage_point(&play->stage, 0);
	}
	return NULL;
}

static int sibling_main(void *arg)
{
	struct play *play = arg;

	cg_move(play->sibling_cg, getpid());
	stage_point(&play->stage, getpid());
	for (;;)
		pause();
	return 0;
}

static void run_process(struct play *play)
{
	static char stack[65536] __attribute__((aligned(16)));
	pthread_t thread;

	if (clone(sibling_main, stack + sizeof(stack), CLONE_VM | SIGCHLD, play) < 0)
		_exit(1);
	CHILD_EQUAL(pthread_create(&thread, NULL, conduct, play), 0);
	while (!atomic_load(&play->leader_ends))
		usleep(1000);
	pthread_exit(NULL);
}

static void open_scene(struct scene *s)
{
	cg_make(&s->top, NULL, "threads");
	cg_make(&s->a, &s->top, "a");
	cg_make(&s->b, &s->top, "b");
	cg_make(&s->c, &s->top, "c");
	cg_make(&s->d, &s->top, "d");
	s->play = mmap(NULL, sizeof(*s->play), RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(s->play != MAP_FAILED);
	s->play->sibling_cg = &s->c;
	stage_make(&s->play->stage);
	s->pid = cg_fork(&s->a);
	if (!s->pid)
		run_process(s->play);
	s->play->sibling = (int)stage_hear(&s->play->stage);
	stage_go(&s->play->stage);
}

static void close_scene(struct scene *s)
{
	if (s->play->sibling)
		kill(s->play->sibling, SIGKILL);
	kill(s->pid, SIGKILL);
	assert_true(WIFSIGNALED(reap(s->pid)) || s->play->leader_ends);
	stage_close(&s->play->stage);
	munmap(s->play, sizeof(*s->play));
	assert_usage(&s->top, 0, 0);
}

static unsigned int round_ms(void)
{
	const char *value = getenv("PINCAP_TEST_SECONDS");
	int seconds = value ? atoi(value) : 30;

	return (seconds > 0 ? seconds : 30) * 1000 / ROUNDS;
}

/* Full speed while it migrates, and its leader ends half-way if it is to; then a stop.
 * Ends in b. */
static void play_round(struct scene *s, bool sibling_too, bool leader_ends)
{
	struct deadline d = deadline_in(round_ms()), half = deadline_in(round_ms() / 2);

	do {
		if (leader_ends && !deadline_open(&half))
			atomic_store(&s->play->leader_ends, true);
		cg_move(&s->a, s->pid);
		if (sibling_too)
			cg_move(s->moves & 1 ? &s->c : &s->d, s->play->sibling);
		cg_move(&s->b, s->pid);
		s->moves += 2;
	} while (deadline_open(&d));
	atomic_store(&s->play->stop, true);
	stage_hear(&s->play->stage);
}

static void resume(struct scene *s)
{
	atomic_store(&s->play->stop, false);
	stage_go(&s->play->stage);
}

static int64_t locked_by_proc(const struct scene *s)
{
	int64_t locked = usage_by_proc(&s->top).locked;

	assert_true(locked > 0);
	return locked;
}

/* At once, without a sweep, where the process is. */
static void leader_stays(void **state)
{
	struct scene s = { .moves = 0 };

	(void)state;
	open_scene(&s);
	for (int i = 0; i < ROUNDS; i++) {
		int64_t locked;

		play_round(&s, i & 1, false);
		locked = locked_by_proc(&s);
		map_wait(&s.b, locked, 0);
		map_wait(&s.top, locked, 0);
		map_wait(&s.a, 0, 0);
		map_wait(&s.c, 0, 0);
		map_wait(&s.d, 0, 0);
		assert_int_equal(map_count_processes(s.b.id), 1);
		cg_move(&s.a, s.pid); /* told by the move alone */
		map_wait(&s.a, locked, 0);
		map_wait(&s.b, 0, 0);
		resume(&s);
	}
	atomic_store(&s.play->stop, true);
	stage_hear(&s.play->stage);
	print_message("# %lu calls, %lu moves\n", s.play->calls, s.moves);
	close_scene(&s);
}

/* One sweep, and then at once. */
static void assert_owner(struct scene *s, const struct cg *owner)
{
	const struct cg *all[] = { &s->a, &s->b, &s->c, &s->d };
	int64_t locked = locked_by_proc(s);

	usage_by_stat(&s->top);
	map_wait(&s->top, locked, 0);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		map_wait(all[i], all[i] == owner ? locked : 0, 0);
}

static void leader_ends(void **state)
{
	struct scene s = { .moves = 0 };

	(void)state;
	open_scene(&s);
	for (int i = 0; i < ROUNDS; i++) {
		play_round(&s, false, i == ROUNDS / 2);
		if (i < ROUNDS / 2) {
			assert_owner(&s, &s.b);
			resume(&s);
			continue;
		}
		assert_owner(&s, &s.c);
		cg_move(&s.d, s.play->sibling);
		map_wait(&s.d, locked_by_proc(&s), 0); /* told by the move */
		map_wait(&s.c, 0, 0);
		cg_move(&s.c, s.play->sibling);
		resume(&s);
	}
	atomic_store(&s.play->stop, true);
	stage_hear(&s.play->stage);
	/* The heir dies, too: a thread of the process is next. */
	kill(s.play->sibling, SIGKILL);
	while (!kill(s.play->sibling, 0) && cg_is_populated(&s.c))
		;
	s.play->sibling = 0;
	assert_owner(&s, &s.b);
	print_message("# %lu calls, %lu moves\n", s.play->calls, s.moves);
	close_scene(&s);
}

/* 512 mappings, so that a call to lock them takes its time. */
static void promise_and_lock(struct play *play)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char *p = mmap(NULL, 2 * MIB, RW, ANON, -1, 0);

	for (int i = 0; i < 512; i += 2)
		mprotect(p + 4096L * i, 4096, PROT_READ);
	while (!atomic_load(&play->stop)) {
		CHILD_EQUAL(ask_charge(fd, 2 * MIB, PINCAP_LOCK), 0);
		CHILD_EQUAL(mlock2(p, 2 * MIB, MLOCK_ONFAULT), 0);
		CHILD_EQUAL(ask_settle(fd), 0);
		CHILD_EQUAL(munlock(p, 2 * MIB), 0);
		atomic_fetch_add(&play->calls, 4);
	}
	_exit(0);
}

/* A move in the middle of a call that locks never counts both the pages and the
 * promise that they fulfil. */
static void promise_fulfilled(void **state)
{
	struct deadline d = deadline_in(4 * round_ms());
	struct scene s = { .moves = 0 };
	struct pincap_cgroup m;

	(void)state;
	cg_make(&s.top, NULL, "promise");
	cg_make(&s.a, &s.top, "a");
	cg_make(&s.b, &s.top, "b");
	s.play = mmap(NULL, sizeof(*s.play), RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(s.play != MAP_FAILED);
	s.pid = cg_fork(&s.a);
	if (!s.pid)
		promise_and_lock(s.play);
	for (; deadline_open(&d); s.moves++)
		cg_move(s.moves & 1 ? &s.a : &s.b, s.pid);
	atomic_store(&s.play->stop, true);
	assert_int_equal(reap(s.pid), 0);
	map_cgroup(&s.top, &m);
	print_message("# %lu calls, %lu moves, peak %lld\n", s.play->calls, s.moves,
		      (long long)m.peak);
	/* Where the kernel skips programs (recursion_misses) a page that was unlocked may
	 * be counted until the next call of the process. */
	assert_true(m.peak >= 2 * MIB && m.peak < 2 * MIB + 16 * 4096);
	munmap(s.play, sizeof(*s.play));
	assert_usage(&s.top, 0, 0);
}

static const struct CMUnitTest tests[] = {
	{ "leader_stays", leader_stays, NULL, test_teardown, NULL },
	{ "leader_ends", leader_ends, NULL, test_teardown, NULL },
	{ "promise_fulfilled", promise_fulfilled, NULL, test_teardown, NULL },
};

HARNESS_MAIN(tests)
