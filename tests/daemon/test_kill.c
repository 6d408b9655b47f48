/* SPDX-License-Identifier: MIT */
/*
 * kill -9 at any moment, while workloads pin, move about and come and go, and the
 * configuration is read again: what was admitted stands, what is counted is right,
 * admission refuses at the limit while nobody is there, and no workload sees anything
 * but refusals.
 *
 * Environment: PINCAP_TEST_RUNS, PINCAP_TEST_SEED.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/daemon/pincapd.h"
#include "tests/kernel/ask.h"
#include "tests/kernel/child.h"
#include "tests/kernel/harness.h"
#include "tests/kernel/play.h"

#define JOBS	  4
#define WORKERS	  6
#define PIECES	  32
#define PIECE	  (256 * KIB)
#define JOB_LIMIT (12 * MIB) /* six workers of 8 MiB in four jobs: some are refused */
#define FULL	  (16 * MIB)
#define UP_MS	  80   /* killed within so long of being ready ... */
#define START_MS  40   /* ... or of being started */
#define WAIT_MS	  1500 /* for a decision: a dead daemon's heartbeat counts a second */

/* Written by the workers. */
struct shared {
	atomic_llong admitted;
	atomic_llong refused;
	atomic_llong moves;
	atomic_llong dirs;
	atomic_int odd; /* an answer that is none of pincap's */
	atomic_bool stop;
};

static struct shared *shared;
static struct cg top, jobs[JOBS], full;
static struct actor holder;

static unsigned int below(unsigned int n)
{
	return n ? (unsigned int)random() % n : 0;
}

static void pause_ms(unsigned int most)
{
	usleep(below(most * 1000));
}

/* ---- the load ---- */

static int charge(int fd)
{
	struct deadline d = deadline_in(WAIT_MS);
	int rc;

	do {
		rc = ask_charge(fd, PIECE, PINCAP_LOCK);
	} while (rc == -EINPROGRESS && deadline_open(&d));
	if (rc && rc != -EDQUOT && rc != -ENOMEM && rc != -EAGAIN)
		atomic_store(&shared->odd, -rc);
	return rc;
}

static void lock(int fd, char *piece, bool *locked)
{
	if (charge(fd)) {
		atomic_fetch_add(&shared->refused, 1);
		return;
	}
	if (mlock(piece, PIECE))
		atomic_store(&shared->odd, errno);
	ask_settle(fd);
	*locked = true;
	atomic_fetch_add(&shared->admitted, 1);
}

static void work(unsigned int seed)
{
	char *memory = mmap(NULL, PIECES * PIECE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	bool locked[PIECES] = { false };

	srandom(seed);
	while (!atomic_load(&shared->stop)) {
		unsigned int i = below(PIECES);

		if (below(20) == 0) {
			cg_move(&jobs[below(JOBS)], getpid());
			atomic_fetch_add(&shared->moves, 1);
		} else if (locked[i]) {
			munlock(memory + i * PIECE, PIECE);
			locked[i] = false;
		} else {
			lock(fd, memory + i * PIECE, &locked[i]);
		}
		usleep(200);
	}
	_exit(0);
}

/* Cgroups that a rule matches come and go; in some of them somebody asks at once. */
static void churn(unsigned int seed)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	char dir[600];

	srandom(seed);
	while (!atomic_load(&shared->stop)) {
		struct cg cg;

		snprintf(dir, sizeof(dir), "%s/job-%u", top.dir, below(1000));
		if (mkdir(dir, 0755))
			continue;
		strcpy(cg.dir, dir);
		if (below(4) == 0) {
			cg_move(&cg, getpid());
			if (!charge(fd))
				ask_settle(fd);
			cg_move(&top, getpid());
		}
		rmdir(dir);
		atomic_fetch_add(&shared->dirs, 1);
		usleep(1000);
	}
	_exit(0);
}

static void configure(void)
{
	static unsigned int n;

	/* what changes is not what the limits are judged by */
	pincapd_configure("tick: %ums\n"
			  "budgets:\n"
			  "- {match: '/pincap-kt-*-kill/job*', limit: 12M, high: %uM}\n"
			  "- {match: '/pincap-kt-*-kill/full', limit: 16M}\n",
			  50 + below(200), 6 + n++ % 6);
}

static void begin_load(unsigned int seed)
{
	char name[16];

	cg_make(&top, NULL, "kill");
	cg_make(&full, &top, "full");
	for (int i = 0; i < JOBS; i++) {
		snprintf(name, sizeof(name), "job%d", i);
		cg_make(&jobs[i], &top, name);
	}
	configure();
	pincapd_start();
	actor_start(&holder, &full, false);
	actor_must(&holder, 0, "charge %lld %d", FULL, PINCAP_DRIVER);
	actor_must(&holder, FULL, "settle");
	for (unsigned int i = 0; i < WORKERS; i++)
		if (!cg_fork(&jobs[i % JOBS]))
			work(seed + i);
	if (!cg_fork(&top))
		churn(seed + WORKERS);
}

/* ---- what must hold ---- */

static void freeze(bool frozen)
{
	struct deadline d = deadline_in(10000);
	char path[600], text[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/cgroup.freeze", top.dir);
	f = fopen(path, "we");
	assert_non_null(f);
	fputs(frozen ? "1" : "0", f);
	assert_int_equal(fclose(f), 0);
	snprintf(path, sizeof(path), "%s/cgroup.events", top.dir);
	do {
		bool is = false;

		f = fopen(path, "re");
		assert_non_null(f);
		while (fgets(text, sizeof(text), f))
			is |= !strcmp(text, "frozen 1\n");
		fclose(f);
		if (is == frozen)
			return;
	} while (deadline_open(&d));
	fail_msg("the cgroup does not freeze");
}

/* At a standstill, by the daemon that has just adopted all. */
static void counts_are_right(void)
{
	const struct cg *all[JOBS + 2] = { &top, &full };
	struct pincap_cgroup m;

	for (int i = 0; i < JOBS; i++)
		all[i + 2] = &jobs[i];
	for (int i = 0; i < JOBS + 2; i++) {
		struct usage proc = usage_by_proc(all[i]);

		if (!map_cgroup(all[i], &m))
			m = (struct pincap_cgroup){ 0 };
		assert_int_equal(m.locked, proc.locked);
		assert_int_equal(m.pinned, proc.pinned);
		assert_int_equal(m.current, m.locked + m.pinned + m.gpu + m.held);
		if (i >= 2) {
			assert_int_equal(m.limit, JOB_LIMIT);
			assert_true(m.held >= 0 && m.held <= WORKERS * PIECE);
		}
	}
	assert_true(map_cgroup(&full, &m));
	assert_int_equal(m.limit, FULL);
	assert_int_equal(m.held, FULL);
}

/* Nobody is there: what is full stays full. */
static void refuses(void)
{
	actor_fails(&holder, EDQUOT, "charge %lld %d", 4 * KIB, PINCAP_DRIVER);
	assert_int_equal(atomic_load(&shared->odd), 0);
}

static void one_run(unsigned int run, int64_t *start_ns)
{
	int64_t begin;

	refuses();
	if (run % 3 == 0) { /* killed before it is ready, or hardly */
		pincapd_begin();
		pause_ms(START_MS);
		pincapd_kill();
		refuses();
	}
	freeze(true);
	begin = now_ns();
	pincapd_start();
	*start_ns += now_ns() - begin;
	counts_are_right();
	freeze(false);
	pause_ms(UP_MS / 2);
	if (run % 2) {
		configure();
		kill(pincapd_pid(), SIGHUP);
	}
	pause_ms(UP_MS / 2);
	pincapd_kill();
}

static void at_any_moment(void **state)
{
	unsigned int runs = (unsigned int)harness_number("PINCAP_TEST_RUNS", 500);
	unsigned int seed = (unsigned int)harness_number("PINCAP_TEST_SEED", (uint64_t)time(NULL));
	int64_t start_ns = 0;
	struct pincap_cgroup m;

	(void)state;
	print_message("# PINCAP_TEST_SEED=%u\n", seed);
	srandom(seed);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	assert_true(shared != MAP_FAILED);
	begin_load(seed);
	pincapd_kill();
	for (unsigned int i = 0; i < runs; i++)
		one_run(i, &start_ns);
	print_message("# %u kills; %lld requests admitted, %lld refused, %lld moves, %lld cgroups "
		      "made and removed; adopted and ready in %" PRId64 " ms on average\n",
		      runs, atomic_load(&shared->admitted), atomic_load(&shared->refused),
		      atomic_load(&shared->moves), atomic_load(&shared->dirs),
		      start_ns / runs / 1000000);
	assert_true(atomic_load(&shared->refused) > 0);
	assert_true(atomic_load(&shared->moves) > 0);
	assert_true(atomic_load(&shared->dirs) > 0);
	/* and nothing is left of anybody */
	atomic_store(&shared->stop, true);
	pincapd_start();
	map_wait(&top, FULL, FULL);
	assert_true(map_cgroup(&top, &m));
	assert_int_equal(m.in_flight, 0);
	actor_kill(&holder);
	map_wait(&top, 0, 0);
	assert_int_equal(map_stats().below_zero, 0);
	pincapd_stop();
}

int main(int argc, char **argv)
{
#define DAEMON_TEST(f) cmocka_unit_test_teardown(f, pincapd_teardown)
	const struct CMUnitTest tests[] = {
		DAEMON_TEST(at_any_moment),
	};

	harness_init(argc, argv);
	return cmocka_run_group_tests(tests, pincapd_group_setup, pincapd_group_teardown);
}
