/* SPDX-License-Identifier: MIT */
/*
 * Admission under contention: processes and threads that ask at once get exactly
 * what fits, and a reader that looks every millisecond never sees more. Who asks for
 * the impossible costs nobody else anything.
 *
 * Environment: PINCAP_TEST_ROUNDS (20000) and PINCAP_TEST_REPETITIONS (100).
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <cmocka.h>

#include "tests/kernel/ask.h"
#include "tests/kernel/harness.h"
#include "tests/kernel/sampler.h"

#define PROCESSES   8
#define THREADS	    8
#define LIMIT	    (64 * MIB)
#define REPETITIONS ((int)harness_number("PINCAP_TEST_REPETITIONS", 100))
#define ROUNDS	    ((int)harness_number("PINCAP_TEST_ROUNDS", 20000))
#define RW	    (PROT_READ | PROT_WRITE)

/* Shared between the test and its processes. A gate opens when its last writing end
 * is closed. */
struct race {
	uint32_t kind;
	atomic_uint admitted;
	atomic_uint refused;
	atomic_uint wrong; /* answers that there should not be */
	atomic_int last_wrong;
	int start[2];
	int leave[2];
	int done[2]; /* one byte of each process */
};

static void wait_gate(const int *gate)
{
	char c;

	while (read(gate[0], &c, 1) > 0)
		;
}

static struct race *shared_race(uint32_t kind)
{
	struct race *r = mmap(NULL, sizeof(*r), RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_true(r != MAP_FAILED);
	r->kind = kind;
	return r;
}

static void note_wrong(struct race *r, int what)
{
	atomic_store(&r->last_wrong, what);
	atomic_fetch_add(&r->wrong, 1);
}

/* Ask for a MiB, and have it: promised, or really locked. */
static bool take_one(struct race *r, int fd)
{
	char *p = mmap(NULL, MIB, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int err = ask_charge(fd, MIB, r->kind);
	int64_t stays;

	if (err) {
		munmap(p, MIB);
		if (err != -EDQUOT)
			note_wrong(r, err);
		atomic_fetch_add(&r->refused, 1);
		return false;
	}
	if (r->kind == PINCAP_LOCK && mlock(p, MIB))
		note_wrong(r, -errno);
	stays = ask_settle(fd);
	if (stays != (r->kind == PINCAP_LOCK ? 0 : MIB))
		note_wrong(r, (int)stays);
	atomic_fetch_add(&r->admitted, 1);
	return true;
}

static void *take_all(void *arg)
{
	struct race *r = arg;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	wait_gate(r->start);
	while (take_one(r, fd))
		;
	close(fd);
	return NULL;
}

static void run_process(struct race *r)
{
	pthread_t threads[THREADS];

	close(r->start[1]);
	close(r->leave[1]);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, take_all, r))
			note_wrong(r, -EAGAIN);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	if (write(r->done[1], "", 1) != 1)
		note_wrong(r, -EPIPE);
	wait_gate(r->leave);
	_exit(0);
}

static void wait_done(struct race *r)
{
	char c;

	for (int i = 0; i < PROCESSES; i++) {
		struct pollfd p = { .fd = r->done[0], .events = POLLIN };

		if (poll(&p, 1, 20000) != 1 || read(r->done[0], &c, 1) != 1)
			fail_msg("the processes do not finish");
	}
}

static void check_full(const struct cg *cg, const struct race *r)
{
	const struct sampler_seen seen = sampler_seen();
	bool locks = r->kind == PINCAP_LOCK;
	struct pincap_cgroup m;

	if (r->wrong)
		fail_msg("%u wrong answers, the last %d", r->wrong, r->last_wrong);
	assert_int_equal(r->admitted, LIMIT / MIB);
	assert_int_equal(r->refused, PROCESSES * THREADS);
	assert_true(map_cgroup(cg, &m));
	assert_int_equal(m.current, LIMIT);
	assert_int_equal(m.peak, LIMIT);
	assert_int_equal(m.locked, locks ? LIMIT : 0);
	assert_int_equal(m.held, locks ? 0 : LIMIT);
	if (seen.lowest < 0 || seen.highest > LIMIT)
		fail_msg("sampled from %" PRId64 " to %" PRId64, seen.lowest, seen.highest);
}

static void repeat(const struct cg *cg, struct race *r)
{
	pid_t pids[PROCESSES];

	atomic_store(&r->admitted, 0);
	atomic_store(&r->refused, 0);
	assert_return_code(pipe(r->start) | pipe(r->leave) | pipe(r->done), errno);
	for (int i = 0; i < PROCESSES; i++) {
		pids[i] = cg_fork(cg);
		if (!pids[i])
			run_process(r);
	}
	close(r->start[0]);
	close(r->leave[0]);
	close(r->done[1]);
	close(r->start[1]);
	wait_done(r);
	check_full(cg, r);
	close(r->leave[1]);
	close(r->done[0]);
	for (int i = 0; i < PROCESSES; i++)
		assert_int_equal(reap(pids[i]), 0);
	map_wait(cg, 0, 0);
}

static void all_at_once(uint32_t kind)
{
	struct race *r = shared_race(kind);
	struct sampler_seen seen;
	struct cg cg;

	cg_make(&cg, NULL, "race");
	set_limit(&cg, "64M");
	sampler_start(&cg);
	for (int i = REPETITIONS; i > 0; i--)
		repeat(&cg, r);
	sampler_stop();
	seen = sampler_seen();
	if (seen.highest < LIMIT)
		fail_msg("%u samples never met a full budget", seen.samples);
	munmap(r, sizeof(*r));
	assert_usage(&cg, 0, 0);
}

static void driver_at_once(void **state)
{
	(void)state;
	all_at_once(PINCAP_DRIVER);
}

static void locks_at_once(void **state)
{
	(void)state;
	all_at_once(PINCAP_LOCK);
}

static void *ask_impossible(void *arg)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct race *r = arg;

	while (!atomic_load(&r->admitted)) {
		int err = ask_charge(fd, TIB, PINCAP_DRIVER);

		if (err != -EDQUOT)
			note_wrong(r, err);
		atomic_fetch_add(&r->refused, 1);
	}
	return NULL;
}

/* All but one page is taken; the third thread takes and gives that page. */
static void ask_little(struct race *r)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	pthread_t greedy[2];

	if (ask_charge(fd, 16 * MIB - 4096, PINCAP_DRIVER) || ask_settle(fd) != 16 * MIB - 4096)
		note_wrong(r, 1);
	for (int i = 0; i < 2; i++)
		if (pthread_create(&greedy[i], NULL, ask_impossible, r))
			note_wrong(r, 2);
	while (atomic_load(&r->refused) < 2)
		;
	for (int i = ROUNDS; i > 0; i--) {
		int err = ask_charge(fd, 4096, PINCAP_DRIVER);

		if (err || ask_settle(fd) != 4096 || ask_uncharge(fd, 4096))
			note_wrong(r, err ? err : 3);
	}
	atomic_store(&r->admitted, 1);
	for (int i = 0; i < 2; i++)
		pthread_join(greedy[i], NULL);
	_exit(0);
}

static void no_false_refusal(void **state)
{
	struct race *r = shared_race(PINCAP_DRIVER);
	struct cg top, middle, leaf;
	struct sampler_seen seen;
	struct pincap_cgroup m;
	pid_t pid;

	(void)state;
	cg_make(&top, NULL, "top");
	cg_make(&middle, &top, "middle");
	cg_make(&leaf, &middle, "leaf");
	set_limit(&top, "20M");
	set_limit(&middle, "18M");
	set_limit(&leaf, "16M");
	sampler_start(&leaf);
	pid = cg_fork(&leaf);
	if (!pid)
		ask_little(r);
	assert_int_equal(reap(pid), 0);
	sampler_stop();
	if (r->wrong)
		fail_msg("%u wrong answers, the last %d", r->wrong, r->last_wrong);
	seen = sampler_seen();
	assert_true(seen.lowest >= 0 && seen.highest <= 16 * MIB);
	assert_true(map_cgroup(&leaf, &m));
	assert_int_equal(m.peak, 16 * MIB);
	assert_int_equal(m.refused, r->refused);
	assert_int_equal(m.charges, ROUNDS + 1);
	munmap(r, sizeof(*r));
	assert_usage(&top, 0, 0);
	assert_usage(&leaf, 0, 0);
}

static const struct CMUnitTest tests[] = {
	{ "driver_at_once", driver_at_once, NULL, test_teardown, NULL },
	{ "locks_at_once", locks_at_once, NULL, test_teardown, NULL },
	{ "no_false_refusal", no_false_refusal, NULL, test_teardown, NULL },
};

HARNESS_MAIN(tests)
