/* SPDX-License-Identifier: MIT */
/*
 * The host's reserve: who pins as fast as he can stops where it begins, also while
 * somebody else eats memory; goes on when there is memory again; and nobody can keep
 * the headroom from the others.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/daemon/pincapd.h"
#include "tests/kernel/ask.h"
#include "tests/kernel/child.h"
#include "tests/kernel/harness.h"
#include "userspace/common/hostmem.h"

#define PINNERS 4
#define THREADS 8 /* of each */
#define PIECE	MIB
#define ROOM	(1536 * MIB) /* above the reserve at the start */
#define EATEN	(2048 * MIB)
#define SPARE	(1536 * MIB) /* for everybody else */
#define ENOUGH	(64 * MIB)
/* Of each thread the piece it is at, and what is admitted until MemAvailable shows what
 * the eater took: a tick of 25 ms. */
#define IN_FLIGHT (PINNERS * THREADS * PIECE + 128 * MIB)

/* Written by the children. */
struct shared {
	_Atomic int64_t pinned;
	_Atomic int64_t refused;       /* since it was last set to 0 */
	_Atomic int64_t first_refusal; /* ns; 0: none yet */
	_Atomic int64_t last_admitted; /* ns */
	_Atomic int64_t eaten;
	atomic_bool give; /* the eater is to */
};

static struct shared *shared;
static uint64_t reserve;

static uint64_t available(void)
{
	uint64_t bytes;

	assert_int_equal(hostmem_available(&bytes), 0);
	return bytes;
}

static int above(void) /* MiB */
{
	return (int)((int64_t)(available() - reserve) / MIB);
}

static int setup(void **state)
{
	(void)state;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return -1;
	reserve = (available() - ROOM) / MIB * MIB;
	pincapd_configure("reserve: %" PRIu64 "\n", reserve);
	pincapd_forget();
	pincapd_start();
	return 0;
}

static int teardown(void **state)
{
	munmap(shared, sizeof(*shared));
	return pincapd_teardown(state);
}

static void note_refusal(void)
{
	int64_t none = 0;

	atomic_compare_exchange_strong(&shared->first_refusal, &none, now_ns());
	atomic_fetch_add(&shared->refused, 1);
	usleep(1000); /* as often as anybody would try again */
}

static void *pin(void *arg)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

	(void)arg;
	for (;;) {
		int64_t asked_ns = now_ns(); /* and not when this thread runs again */
		int rc = ask_charge(fd, PIECE, PINCAP_LOCK);
		char *p;

		if (rc) {
			if (rc == -ENOMEM)
				note_refusal();
			continue;
		}
		atomic_store(&shared->last_admitted, asked_ns);
		p = mmap(NULL, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHILD_EQUAL(mlock(p, PIECE), 0);
		atomic_fetch_add(&shared->pinned, PIECE);
		ask_settle(fd);
	}
	return NULL;
}

static pid_t start_pinner(const struct cg *cg)
{
	pid_t pid = cg_fork(cg);
	pthread_t thread;

	if (pid)
		return pid;
	for (int i = 1; i < THREADS; i++)
		CHILD_EQUAL(pthread_create(&thread, NULL, pin, NULL), 0);
	pin(NULL);
	_exit(1);
}

/* Nobody's business but the host's: it asks nobody. */
static pid_t start_eater(const struct cg *cg)
{
	pid_t pid = cg_fork(cg);
	char *p;

	if (pid)
		return pid;
	setpriority(PRIO_PROCESS, 0, -15); /* against 32 threads on a few cores */
	p = mmap(NULL, EATEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (long long n = 0; n < EATEN; n += MIB) {
		memset(p + n, 1, MIB);
		atomic_fetch_add(&shared->eaten, MIB);
	}
	while (!atomic_load(&shared->give))
		usleep(1000);
	_exit(0);
}

struct seen {
	int64_t crossed_ns;  /* MemAvailable was below the reserve for the first time */
	int64_t pinned_then; /* at the look before */
};

static void look(struct seen *s)
{
	int64_t pinned = atomic_load(&shared->pinned);
	int now = above();

	if (s->crossed_ns)
		return;
	if (now < 0)
		s->crossed_ns = now_ns();
	else
		s->pinned_then = pinned;
}

/* Looks until all is eaten; what 32 threads and an eater do. */
static void run_down(struct seen *s)
{
	struct deadline d = deadline_in(30000);

	do {
		look(s);
	} while ((atomic_load(&shared->eaten) < EATEN || !atomic_load(&shared->refused)) &&
		 deadline_open(&d));
	assert_int_equal(atomic_load(&shared->eaten), EATEN);
}

/* ms after the crossing */
static int64_t after(const struct seen *s, int64_t ns)
{
	return (ns - s->crossed_ns) / 1000000;
}

/* Whoever pins stops; MemAvailable falls on by what the eater takes, not by more. */
static void crossing(void **state)
{
	int64_t pinned, first, last;
	struct cg pinners, others;
	struct seen s = { 0 };
	struct deadline d;
	pid_t eater;

	(void)state;
	cg_make(&pinners, NULL, "pinners");
	cg_make(&others, NULL, "others");
	eater = start_eater(&others);
	for (int i = 0; i < PINNERS; i++)
		start_pinner(&pinners);
	run_down(&s);
	assert_true(s.crossed_ns > 0);
	pinned = atomic_load(&shared->pinned);
	first = after(&s, atomic_load(&shared->first_refusal));
	last = after(&s, atomic_load(&shared->last_admitted));
	print_message("# %lld MiB pinned, %lld of it after the crossing; first "
		      "refusal %" PRId64 " ms after it, last admission %" PRId64 " ms\n",
		      pinned / MIB, (pinned - s.pinned_then) / MIB, first, last);
	assert_true(first < 100);
	assert_true(last < 100);
	assert_true(pinned - s.pinned_then <= IN_FLIGHT);
	assert_true(pincapd_says("the host is below its reserve"));
	/* nothing passes while there is nothing */
	for (d = deadline_in(2000); deadline_open(&d) && above() < 0;)
		assert_int_equal(atomic_load(&shared->pinned), pinned);
	atomic_store(&shared->give, true);
	assert_int_equal(reap(eater), 0);
}

/* Admission goes on when there is memory again; and at the brim, where all ask all the
 * time, it is said once that there is none. */
static void brim(void **state)
{
	int64_t pinned, freed_ns;
	struct cg pinners, others;
	struct deadline d = deadline_in(20000);
	unsigned int said;
	pid_t eater;

	(void)state;
	cg_make(&pinners, NULL, "pinners");
	cg_make(&others, NULL, "others");
	eater = start_eater(&others);
	while (above() > 0 && deadline_open(&d))
		continue;
	for (int i = 0; i < PINNERS; i++)
		start_pinner(&pinners);
	assert_true(pincapd_says("the host is below its reserve"));
	while (atomic_load(&shared->eaten) < EATEN && deadline_open(&d))
		continue;
	pinned = atomic_load(&shared->pinned);
	atomic_store(&shared->give, true);
	assert_int_equal(reap(eater), 0);
	freed_ns = now_ns();
	while (atomic_load(&shared->pinned) - pinned < ENOUGH && deadline_open(&d))
		continue;
	print_message("# went on %" PRId64 " ms after memory was free\n",
		      (now_ns() - freed_ns) / 1000000);
	assert_true(now_ns() - freed_ns < 1000000000);
	assert_true(pincapd_says("the host is above its reserve"));
	atomic_store(&shared->refused, 0);
	while (atomic_load(&shared->refused) < 10000 && deadline_open(&d))
		continue;
	assert_true(atomic_load(&shared->refused) >= 10000);
	said = pincapd_said("the host is (below|above) its reserve");
	print_message("# %u transitions, %" PRId64 " refusals at the brim\n", said,
		      atomic_load(&shared->refused));
	assert_in_range(said, 2, 5);
}

/* Takes all that there is, again and again, and pins nothing. */
static pid_t start_greedy(const struct cg *cg, bool settles)
{
	pid_t pid = cg_fork(cg);
	int fd;

	if (pid)
		return pid;
	fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	for (;;) {
		if (ask_charge(fd, 16 * MIB, PINCAP_DRIVER)) {
			atomic_fetch_add(&shared->refused, 1);
			if (settles) {
				int64_t held = ask_settle(fd);

				if (held > 0)
					ask_uncharge(fd, (uint64_t)held);
			}
			usleep(100);
		}
	}
}

/* ms until another has what he asks for, bit by bit. */
static int64_t served(const struct cg *cg, int64_t bytes)
{
	int64_t begin = now_ns();
	pid_t pid = cg_fork(cg);

	if (!pid) {
		int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
		struct deadline d = deadline_in(9000);

		while (bytes > 0 && deadline_open(&d)) {
			if (ask_charge(fd, 4 * MIB, PINCAP_DRIVER))
				continue;
			ask_settle(fd);
			bytes -= 4 * MIB;
		}
		_exit(bytes > 0);
	}
	assert_int_equal(reap(pid), 0);
	return (now_ns() - begin) / 1000000;
}

static void greedy(void **state, bool settles)
{
	struct cg mean, other;
	struct deadline d = deadline_in(5000);

	(void)state;
	cg_make(&mean, NULL, "mean");
	cg_make(&other, NULL, "meek");
	start_greedy(&mean, settles);
	while (!atomic_load(&shared->refused) && deadline_open(&d))
		continue;
	assert_true(atomic_load(&shared->refused) > 0);
	for (int i = 0; i < 3; i++)
		print_message("# the other had 128 MiB after %" PRId64 " ms\n",
			      served(&other, 128 * MIB));
}

static void greedy_in_flight(void **state)
{
	greedy(state, false);
}

static void greedy_over_and_over(void **state)
{
	greedy(state, true);
}

/* Up to its min a cgroup pins although the host is short. */
static void protected(void **state)
{
	struct cg kept, plain;

	(void)state;
	cg_make(&kept, NULL, "kept");
	cg_make(&plain, NULL, "plain");
	pincapd_configure("reserve: 100%%\n"
			  "budgets: [{match: '/pincap-kt-*-kept', min: 64M, limit: 1G}]\n");
	pincapd_reload();
	assert_true(pincapd_says("the host is below its reserve"));
	served(&kept, 64 * MIB);
	for (const struct cg *cg = &kept; cg; cg = cg == &kept ? &plain : NULL) {
		pid_t pid = cg_fork(cg);

		if (!pid)
			_exit(ask_decided(socket(AF_UNIX, SOCK_DGRAM, 0), 65 * MIB,
					  PINCAP_DRIVER) != -ENOMEM);
		assert_int_equal(reap(pid), 0);
	}
	assert_true(pincapd_says("refused [12] requests? in '/': the host is at its reserve; "
				 "last test_reserve"));
	/* and in a dry run nothing is refused */
	pincapd_configure("reserve: 100%%\ndry_run: true\n");
	pincapd_reload();
	served(&plain, 64 * MIB);
	pincapd_configure("reserve: 0\n");
	pincapd_reload();
	served(&plain, 64 * MIB);
}

int main(int argc, char **argv)
{
#define DAEMON_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		DAEMON_TEST(crossing),	       DAEMON_TEST(brim),
		DAEMON_TEST(greedy_in_flight), DAEMON_TEST(greedy_over_and_over),
		DAEMON_TEST(protected),
	};

	harness_init(argc, argv);
	if (available() < ROOM + EATEN + SPARE) {
		puts("1..1\nok 1 - reserve # SKIP less than 5 GiB of memory are available");
		return 0;
	}
	return cmocka_run_group_tests(tests, pincapd_group_setup, pincapd_group_teardown);
}
