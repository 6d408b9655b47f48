/* SPDX-License-Identifier: MIT */
/*
 * The oracle: 16 processes do random operations in six nested cgroups; every so
 * often all stand still, and then pincap's counters equal the sum of what the kernel
 * says of each address space, for every cgroup, to the byte. oracle_world.h tells
 * what is done; meanwhile we kill, move, and make and remove directories.
 *
 * Environment: PINCAP_TEST_SEED repeats a run's decisions, PINCAP_TEST_OPS is their
 * number (200000), PINCAP_TEST_PAUSES that of the pauses (40).
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/kernel/harness.h"
#include "tests/kernel/oracle_rest.h"

#define MAX_OLD	 128
#define ROUND_MS 60000
#define REST_MS	 2000
#define EVENTS	 25 /* of ours, per round */

static const char *const names[CGROUPS] = { "oracle", "a", "b", "x", "y", "z" };

static struct {
	struct world *world;
	int fd;
	struct cg cgs[CGROUPS];
	pid_t pids[WORKERS];
	uint64_t old[MAX_OLD]; /* cgroups that are no more */
	int n_old;
	unsigned int inner; /* times that one went with others below it */
	struct dice dice;
	unsigned int births[WORKERS];
	unsigned int operations, pauses, n_births;
	unsigned int unswept;		  /* pauses whose locks were right before any sweep */
	int64_t worst;			  /* difference at rest */
	int64_t most_locked, most_pinned; /* seen at rest */
} o;

static void birth(int w)
{
	struct worker *self = &o.world->workers[w];
	struct dice d = { .state = ~o.world->seed + ((uint64_t)w << 32) + o.births[w]++ };
	pid_t pid;

	atomic_store(&self->parked, 0);
	atomic_store(&self->dying, false);
	atomic_store(&self->orphan, false);
	atomic_store(&self->sibling, 0); /* they died with it */
	atomic_store(&self->child, 0);
	pid = cg_fork(&o.cgs[dice_roll(&d, CGROUPS)]);
	if (!pid)
		world_worker(o.fd, w);
	o.pids[w] = pid;
	o.n_births++;
}

static void kill_and_bear(int w)
{
	kill(o.pids[w], SIGKILL);
	reap(o.pids[w]);
	birth(w);
}

/* Those that ended as they should are born again. */
static void bear_again(void)
{
	for (int w = 0; w < WORKERS; w++) {
		siginfo_t info = { .si_pid = 0 };

		waitid(P_PID, o.pids[w], &info, WEXITED | WNOHANG | WNOWAIT);
		if (!info.si_pid)
			continue;
		if (!atomic_load(&o.world->workers[w].dying))
			fail_msg("process %d ended in operation %u: code %d, status %d", w,
				 o.world->workers[w].done, info.si_code, info.si_status);
		reap(o.pids[w]);
		birth(w);
	}
}

static void try_move(int pid, const char *dir)
{
	char path[600];
	FILE *f;

	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	f = fopen(path, "we");
	if (!f)
		return;
	fprintf(f, "%d\n", pid);
	fclose(f);
}

/* New ones come in until it is gone. */
static void empty_and_remove(const struct cg *cg, const char *refuge)
{
	struct deadline d = deadline_in(10000);
	char path[600];
	int pid;

	snprintf(path, sizeof(path), "%s/cgroup.procs", cg->dir);
	do {
		FILE *f = fopen(path, "re");

		while (f && fscanf(f, "%d", &pid) == 1)
			try_move(pid, refuge);
		if (f)
			fclose(f);
	} while (rmdir(cg->dir) && deadline_open(&d));
	cg_remove(cg);
}

static void remove_tree(int at, const char *refuge)
{
	for (int i = at + 1; i < CGROUPS; i++)
		if (oracle_parent[i] == at)
			remove_tree(i, refuge);
	empty_and_remove(&o.cgs[at], refuge);
	o.old[o.n_old++] = o.cgs[at].id;
}

static void make_tree(int at)
{
	cg_make(&o.cgs[at], &o.cgs[oracle_parent[at]], names[at]);
	for (int i = at + 1; i < CGROUPS; i++)
		if (oracle_parent[i] == at)
			make_tree(i);
}

/* A directory goes with all that is below it, and comes again. */
static void replace(int at)
{
	int before = o.n_old;

	remove_tree(at, o.cgs[oracle_parent[at]].dir);
	make_tree(at);
	o.inner += o.n_old - before > 1;
}

static void event(void)
{
	int w = (int)dice_roll(&o.dice, WORKERS);
	uint64_t what = dice_roll(&o.dice, EVENTS);

	if (what < 1 && o.n_old + CGROUPS < MAX_OLD)
		replace(1 + (int)dice_roll(&o.dice, CGROUPS - 1));
	else if (what < 6)
		kill_and_bear(w);
	else
		try_move(o.pids[w], o.cgs[dice_roll(&o.dice, CGROUPS)].dir);
	o.operations++;
}

/* What was begun, and whether all have parked. */
static bool look(unsigned int *done)
{
	unsigned int round = atomic_load(&o.world->round);
	bool all = true;

	*done = 0;
	for (int w = 0; w < WORKERS; w++) {
		*done += atomic_load(&o.world->workers[w].done);
		all = all && atomic_load(&o.world->workers[w].parked) == round;
	}
	return all;
}

/* Each does so many operations; ours are spread over them. */
static void play_round(unsigned int each)
{
	struct deadline d = deadline_in(ROUND_MS);
	unsigned int start, done, events = 0;
	bool all;

	look(&start);
	for (int w = 0; w < WORKERS; w++)
		atomic_fetch_add(&o.world->workers[w].target, each);
	atomic_fetch_add(&o.world->round, 1);
	futex_wake_all(&o.world->round);
	do {
		all = look(&done);
		bear_again();
		while (events < EVENTS && done - start >= events * (each * WORKERS / EVENTS)) {
			event();
			events++;
			all = false;
		}
	} while (!all && deadline_open(&d));
	if (!all)
		fail_msg("they do not come to rest");
	o.operations += done - start;
}

/* What nobody tells of until the next sweep: an address space that its owner left to
 * another process. */
static bool has_orphans(void)
{
	bool any = false;

	for (int w = 0; w < WORKERS; w++)
		any |= atomic_exchange(&o.world->workers[w].orphan, false);
	return any;
}

/* Removed cgroups hold nothing. */
static void check_old(void)
{
	for (int i = 0; i < o.n_old; i++) {
		struct cg old = { .id = o.old[i] };
		struct pincap_cgroup m;

		map_cgroup(&old, &m);
		assert_int_equal(m.current | m.locked | m.pinned, 0);
	}
}

/* Locks must be right by themselves; pins that a ring drops in the background may
 * take one sweep, after they are gone. */
static void check_rest(unsigned int pause)
{
	struct deadline d = deadline_in(REST_MS);
	struct usage sums[CGROUPS];
	bool orphans = has_orphans();
	int64_t locked, most;

	most = rest_poll(o.cgs, o.world, sums, &locked, 100);
	while (locked && !orphans && deadline_open(&d))
		most = rest_poll(o.cgs, o.world, sums, &locked, 1);
	if (locked && !orphans) {
		rest_compare(o.cgs, sums, &locked, true);
		fail_msg("pause %u: locks are off before a sweep", pause);
	}
	o.unswept += !orphans;
	most = rest_sweep(o.cgs, o.world, sums);
	if (most)
		rest_compare(o.cgs, sums, &locked, true);
	o.worst = most > o.worst ? most : o.worst;
	o.most_locked = sums->locked > o.most_locked ? sums->locked : o.most_locked;
	o.most_pinned = sums->pinned > o.most_pinned ? sums->pinned : o.most_pinned;
	o.pauses++;
	check_old();
}

static void check_end(int dead)
{
	struct deadline d = deadline_in(REST_MS);
	int left;

	for (int w = 0; w < WORKERS; w++) {
		kill(o.pids[w], SIGKILL);
		reap(o.pids[w]);
	}
	for (int i = 0; i < CGROUPS; i++)
		assert_usage(&o.cgs[i], 0, 0);
	do {
		left = map_count_dead() - dead;
		for (int i = 0; i < CGROUPS; i++)
			left += map_count_processes(o.cgs[i].id);
		for (int i = 0; i < o.n_old; i++) {
			struct pincap_cgroup m;
			struct cg old = { .id = o.old[i] };

			left += map_count_processes(old.id) + map_cgroup(&old, &m);
		}
		if (left > 0)
			usage_by_stat(&o.cgs[0]);
	} while (left > 0 && deadline_open(&d));
	assert_int_equal(left, 0);
}

/* No room was missed, and no record outlived its address space. */
static void check_losses(const struct pincap_stats *before)
{
	struct pincap_stats now = map_stats();

#define SHOW(name) print_message("# " #name " %" PRIu64 "\n", (uint64_t)(now.name - before->name));
	PINCAP_STATS(SHOW)
#undef SHOW
	assert_int_equal(now.processes_full - before->processes_full, 0);
	assert_int_equal(now.cgroups_full - before->cgroups_full, 0);
	assert_int_equal(now.stale_record - before->stale_record, 0);
	assert_int_equal(now.underflow - before->underflow, 0);
}

static void oracle(void **state)
{
	unsigned int pauses = harness_number("PINCAP_TEST_PAUSES", 40);
	unsigned int each = harness_number("PINCAP_TEST_OPS", 200000) / WORKERS / pauses + 1;
	struct pincap_stats before = map_stats();
	int dead = map_count_dead();

	(void)state;
	for (int i = 0; i < CGROUPS; i++) {
		cg_make(&o.cgs[i], i ? &o.cgs[oracle_parent[i]] : NULL, names[i]);
		snprintf(o.world->dirs[i], sizeof(o.world->dirs[i]), "%s", o.cgs[i].dir);
	}
	for (int w = 0; w < WORKERS; w++)
		birth(w);
	for (unsigned int i = 0; i < pauses; i++) {
		play_round(each);
		check_rest(i);
	}
	check_end(dead);
	print_message("# %u operations, %u pauses, max |difference| at rest %" PRId64 " bytes\n",
		      o.operations, o.pauses, o.worst);
	print_message("# up to %" PRId64 " locked, %" PRId64 " pinned; %u births, %d directories "
		      "removed, %u times with others below; locks exact before a sweep in %u of %u "
		      "pauses\n",
		      o.most_locked, o.most_pinned, o.n_births, o.n_old, o.inner, o.unswept,
		      o.pauses);
	check_losses(&before);
	assert_int_equal(o.worst, 0);
	assert_true(o.unswept > 0 && o.most_locked > 0 &&
		    o.most_pinned > 0); /* it was about something */
}

static int oracle_setup(void **state)
{
	(void)state;
	o.fd = memfd_create("oracle", 0); /* kept over exec */
	if (o.fd < 0 || ftruncate(o.fd, sizeof(*o.world)))
		return -1;
	o.world = mmap(NULL, sizeof(*o.world), PROT_READ | PROT_WRITE, MAP_SHARED, o.fd, 0);
	if (o.world == MAP_FAILED || getrandom(&o.world->seed, sizeof(o.world->seed), 0) < 0)
		return -1;
	o.world->seed = harness_number("PINCAP_TEST_SEED", o.world->seed);
	o.dice.state = o.world->seed;
	print_message("# PINCAP_TEST_SEED=%#" PRIx64 "\n", o.world->seed);
	return 0;
}

static const struct CMUnitTest tests[] = {
	{ "oracle", oracle, oracle_setup, test_teardown, NULL },
};

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "--worker"))
		world_worker(atoi(argv[2]), atoi(argv[3]));
	harness_init(argc, argv);
	return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
