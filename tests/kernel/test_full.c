/* SPDX-License-Identifier: MIT */
/*
 * Full maps: who finds no room is told so, whoever has a budget is counted and held to
 * it all the same, the losses are named, and once there is room a sweep makes every
 * count right again. The maps are small here (PINCAP_MAX_ENTRIES).
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/kernel/ask.h"
#include "tests/kernel/child.h"
#include "tests/kernel/harness.h"
#include "tests/kernel/play.h"
#include "tests/kernel/stage.h"

#define PAGE	      4096LL
#define PROCESSES_MAX 128
#define CGROUPS_MAX   48
#define THREADS_MAX   32
#define SHARE	      (PROCESSES_MAX / 32 + 1) /* RECORDS_SHARE in account.bpf.h */
#define FLOOD	      120
#define DIRS	      60
#define ASKERS	      40

static void lock_and_wait(const struct stage *s)
{
	void *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int64_t word = mlock(p, PAGE) ? errno : 0;

	if (write(s->said[1], &word, sizeof(word)) < 0)
		_exit(1);
	for (;;)
		pause();
}

static pid_t locker_start(const struct cg *cg, const struct stage *s)
{
	pid_t pid = cg_fork(cg);

	if (!pid)
		lock_and_wait(s);
	assert_int_equal(stage_hear(s), 0);
	return pid;
}

static void locker_end(pid_t pid)
{
	kill(pid, SIGKILL);
	reap(pid);
}

static struct pincap_cgroup entry(const struct cg *cg)
{
	struct pincap_cgroup m;

	map_cgroup(cg, &m);
	return m;
}

/* What people are told: a line of a command's output, errors included. */
static bool is_said(const char *command, const char *want)
{
	const char *pincap = getenv("PINCAP");
	char line[1024];
	bool found = false;
	FILE *f;

	snprintf(line, sizeof(line), "%s %s 2>&1", pincap && *pincap ? pincap : "build/pincap",
		 command);
	f = popen(line, "re"); /* NOLINT(cert-env33-c) */
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		found |= strstr(line, want) != NULL;
	pclose(f);
	return found;
}

static void assert_loss_is_said(const char *name)
{
	char want[64];

	snprintf(want, sizeof(want), "INCOMPLETE: %s", name);
	assert_true(is_said("stat", want));
	assert_true(is_said("doctor", name));
	snprintf(want, sizeof(want), "\"%s\"", name);
	assert_true(is_said("stat --json", want));
}

/* Counted from its first page on, and admitted what its budget has room for. */
static void check_under_budget(const struct cg *cg)
{
	struct actor p;

	actor_start(&p, cg, false);
	actor_must(&p, 0, "map 0 %lld %d 0", 8 * MIB, PROT_READ | PROT_WRITE);
	actor_must(&p, 0, "lock 0 0 %lld", 8 * MIB);
	map_wait_within(cg, 8 * MIB, 0, 100);
	actor_must(&p, 0, "charge %lld %d", 4 * MIB, PINCAP_DRIVER);
	actor_fails(&p, EDQUOT, "charge %lld %d", 5 * MIB, PINCAP_DRIVER);
	actor_exit(&p);
	map_wait(cg, 0, 0);
}

static void processes_full(void **state)
{
	struct cg open, flooder, budgeted;
	uint64_t before = map_stats().processes_full;
	pid_t flood[FLOOD], second[FLOOD / 4];
	struct actor late;
	struct stage s;

	(void)state;
	cg_make(&open, NULL, "open");
	cg_make(&flooder, NULL, "flooder");
	cg_make(&budgeted, NULL, "budgeted");
	set_limit(&flooder, "16M");
	set_limit(&budgeted, "16M");
	stage_make(&s);
	for (int i = 0; i < FLOOD; i++)
		flood[i] = locker_start(&open, &s);
	for (int i = 0; i < FLOOD / 4; i++)
		second[i] = locker_start(&flooder, &s);

	assert_true(map_count("processes") < PROCESSES_MAX); /* the reserve is not theirs */
	assert_int_equal(entry(&flooder).records, SHARE);
	assert_int_equal(entry(&flooder).locked, SHARE * PAGE);
	assert_true(map_stats().processes_full > before);
	check_under_budget(&budgeted);
	actor_start(&late, &open, false);
	actor_fails(&late, EAGAIN, "charge %lld %d", MIB, PINCAP_DRIVER);
	assert_loss_is_said("processes_full");

	/* Half of them leave: there is room for the others. */
	for (int i = 0; i < FLOOD / 2; i++)
		locker_end(flood[i]);
	usage_by_stat(&open); /* sweeps */
	assert_usage(&open, FLOOD / 2 * PAGE, 0);
	assert_usage(&flooder, FLOOD / 4 * PAGE, 0);
	for (int i = FLOOD / 2; i < FLOOD; i++)
		locker_end(flood[i]);
	assert_usage(&open, 0, 0);
	actor_must(&late, 0, "charge %lld %d", MIB, PINCAP_DRIVER);
	actor_exit(&late);
	for (int i = 0; i < FLOOD / 4; i++)
		locker_end(second[i]);
	stage_close(&s);
	assert_usage(&flooder, 0, 0);
	assert_int_equal(entry(&open).records, 0);
}

/* Who has no entry of his own is charged to the nearest above that has one. */
static void cgroups_full(void **state)
{
	uint64_t before = map_stats().cgroups_full;
	struct cg parent, dirs[DIRS];
	const struct cg *last = &dirs[DIRS - 1];
	struct pincap_cgroup m;
	pid_t pids[DIRS];
	struct actor late;
	struct stage s;
	char name[16];

	(void)state;
	cg_make(&parent, NULL, "parent");
	set_limit(&parent, "16M");
	stage_make(&s);
	for (int i = 0; i < DIRS; i++) {
		snprintf(name, sizeof(name), "%d", i);
		cg_make(&dirs[i], &parent, name);
		pids[i] = locker_start(&dirs[i], &s);
	}
	assert_false(map_cgroup(last, &m));
	assert_true(map_stats().cgroups_full > before);
	assert_int_equal(entry(&parent).locked, DIRS * PAGE);
	assert_int_equal(usage_by_proc(&parent).locked, DIRS * PAGE);
	assert_loss_is_said("cgroups_full");

	/* Its parent's budget holds. */
	actor_start(&late, last, false);
	actor_must(&late, 0, "charge %lld %d", 8 * MIB, PINCAP_DRIVER);
	actor_fails(&late, EDQUOT, "charge %lld %d", 8 * MIB, PINCAP_DRIVER);
	map_wait(&parent, DIRS * PAGE + 8 * MIB, 8 * MIB);

	for (int i = 0; i < DIRS / 2; i++) {
		locker_end(pids[i]);
		cg_remove(&dirs[i]);
	}
	usage_by_stat(&parent);			   /* sweeps */
	assert_usage_held(last, PAGE, 0, 8 * MIB); /* it moved to its own */
	assert_usage_held(&parent, DIRS / 2 * PAGE, 0, 8 * MIB);
	assert_int_equal(entry(last).records, 2);
	actor_exit(&late);
	for (int i = DIRS / 2; i < DIRS; i++)
		locker_end(pids[i]);
	stage_close(&s);
	assert_usage(last, 0, 0);
	assert_usage(&parent, 0, 0);
	assert_int_equal(entry(&parent).records, 0);
}

struct askers {
	pthread_barrier_t all;
	int fd;
	unsigned int admitted, put_off;
};

static void *ask_and_wait(void *arg)
{
	struct askers *a = arg;
	int err = ask_charge(a->fd, PAGE, PINCAP_DRIVER);

	if (!err)
		__atomic_fetch_add(&a->admitted, 1, __ATOMIC_RELAXED);
	else if (err == -EAGAIN)
		__atomic_fetch_add(&a->put_off, 1, __ATOMIC_RELAXED);
	pthread_barrier_wait(&a->all);
	pthread_barrier_wait(&a->all);
	CHILD_EQUAL(ask_settle(a->fd), err ? 0 : PAGE);
	return NULL;
}

static void ask_together(const struct stage *s)
{
	struct askers a = { .fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) };
	pthread_t threads[ASKERS];

	pthread_barrier_init(&a.all, NULL, ASKERS + 1);
	for (int i = 0; i < ASKERS; i++)
		CHILD_EQUAL(pthread_create(&threads[i], NULL, ask_and_wait, &a), 0);
	pthread_barrier_wait(&a.all);
	CHILD_EQUAL(a.admitted + a.put_off, ASKERS);
	stage_point(s, a.admitted);
	pthread_barrier_wait(&a.all);
	for (int i = 0; i < ASKERS; i++)
		pthread_join(threads[i], NULL);
	CHILD_EQUAL(ask_charge(a.fd, PAGE, PINCAP_DRIVER), 0); /* there is room again */
	CHILD_EQUAL(ask_settle(a.fd), PAGE);
	stage_point(s, 0);
	_exit(0);
}

static void threads_full(void **state)
{
	uint64_t before = map_stats().threads_full;
	int64_t admitted;
	struct stage s;
	struct cg cg;
	pid_t pid;

	(void)state;
	cg_make(&cg, NULL, "threads");
	stage_make(&s);
	pid = cg_fork(&cg);
	if (!pid)
		ask_together(&s);
	admitted = stage_hear(&s);
	assert_true(admitted > 0 && admitted <= THREADS_MAX);
	assert_int_equal(map_stats().threads_full - before, ASKERS - admitted);
	map_wait(&cg, admitted * PAGE, admitted * PAGE);
	assert_loss_is_said("threads_full");
	stage_go(&s);
	assert_int_equal(stage_hear(&s), 0);
	map_wait(&cg, (admitted + 1) * PAGE, (admitted + 1) * PAGE);
	stage_go(&s);
	assert_int_equal(reap(pid), 0);
	stage_close(&s);
	assert_usage(&cg, 0, 0);
}

static const struct CMUnitTest tests[] = {
	{ "processes_full", processes_full, NULL, test_teardown, NULL },
	{ "cgroups_full", cgroups_full, NULL, test_teardown, NULL },
	{ "threads_full", threads_full, NULL, test_teardown, NULL },
};

int main(int argc, char **argv)
{
	char bounds[128];

	snprintf(bounds, sizeof(bounds), "processes=%d cgroups=%d threads=%d", PROCESSES_MAX,
		 CGROUPS_MAX, THREADS_MAX);
	setenv("PINCAP_MAX_ENTRIES", bounds, 1);
	harness_init(argc, argv);
	if (!access("/sys/fs/bpf/pincap", F_OK)) {
		puts("1..1\nok 1 - full # SKIP a kernel side is loaded, with maps of their proper "
		     "size");
		return 0;
	}
	return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
