/* SPDX-License-Identifier: MIT */
/*
 * Between admission and a controller: the host's headroom, who has a share of it,
 * who is protected from it, what is observed only, what waits for a decision, and
 * what rings. The test is the controller.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/kernel/ask.h"
#include "tests/kernel/child.h"
#include "tests/kernel/harness.h"
#include "tests/kernel/play.h"
#include "userspace/control/gate.h"

static struct kernel *kernel;
static struct gate *gate;

/* The last events of each kind, and how many. */
static struct {
	unsigned int n;
	struct pincap_event last;
	char path[PINCAP_EVENT_PATH];
} heard[PINCAP_EVENT_SET + 1];

static void on_event(const struct pincap_event *e, const char *path, void *ctx)
{
	(void)ctx;
	assert_in_range(e->kind, PINCAP_EVENT_MKDIR, PINCAP_EVENT_SET);
	heard[e->kind].n++;
	heard[e->kind].last = *e;
	if (path)
		snprintf(heard[e->kind].path, PINCAP_EVENT_PATH, "%s", path);
}

/* Waits for one from this cgroup; the newest is kept. */
static bool hear(uint32_t kind, uint64_t cgid)
{
	struct deadline d = deadline_in(2000);

	do {
		assert_int_equal(gate_dispatch(gate), 0);
		if (heard[kind].n && heard[kind].last.cgroup_id == cgid)
			return true;
		gate_beat(gate);
	} while (deadline_open(&d));
	return false;
}

static int gate_setup(void **state)
{
	(void)state;
	memset(heard, 0, sizeof(heard));
	assert_int_equal(kernel_adopt(&kernel), 0);
	assert_int_equal(gate_open(&gate, kernel, on_event, NULL), 0);
	return 0;
}

static int gate_teardown(void **state)
{
	gate = gate_close(gate);
	kernel = kernel_close(kernel);
	return test_teardown(state);
}

static void publish(int64_t bytes, uint64_t share, uint32_t observe)
{
	struct pincap_headroom room = {
		.bytes = bytes,
		.snapshot = gate_admitted(gate),
		.share = share,
		.observe = observe,
	};

	gate_publish(gate, &room);
}

static void set(const struct cg *cg, struct pincap_set_budget b)
{
	struct cg root = { .id = 0 };
	uint64_t chain[2] = { cg->id, root.id };
	struct pincap_cgroup entry;

	/* The root's entry is there since the load's sweep, or is made by a charge. */
	assert_true(map_cgroup(cg, &entry));
	chain[1] = entry.parent;
	assert_int_equal(kernel_set_budget(kernel, chain, 2, &b), 0);
}

/* How many charges of 1 MiB are admitted in a row, up to `most`; each settled, so
 * that it stays held. */
static int admitted(const struct actor *p, int most, int *err)
{
	struct reply r = { 0 };
	int n = 0;

	while (n < most && (r = actor_do(p, "charge %lld %d", MIB, PINCAP_DRIVER)).ret == 0) {
		actor_must(p, MIB, "settle");
		n++;
	}
	*err = n < most ? r.err : 0;
	return n;
}

static void headroom_is_exact(void **state)
{
	struct pincap_cgroup m;
	struct actor p;
	struct cg cg;
	int err;

	(void)state;
	cg_make(&cg, NULL, "room");
	actor_start(&p, &cg, false);
	publish(16 * MIB, PINCAP_UNLIMITED, 0);
	assert_int_equal(admitted(&p, 100, &err), 16);
	assert_int_equal(err, ENOMEM);
	/* giving back is for the next snapshot to see, not for this one */
	actor_must(&p, 0, "uncharge %lld", 8 * MIB);
	actor_fails(&p, ENOMEM, "charge %lld %d", MIB, PINCAP_DRIVER);
	/* an impossible request takes nothing away from the others */
	publish(4 * MIB, PINCAP_UNLIMITED, 0);
	actor_fails(&p, ENOMEM, "charge %lld %d", TIB, PINCAP_DRIVER);
	assert_int_equal(admitted(&p, 100, &err), 4);
	/* nothing is left but for the few pages of a key store */
	publish(-1, PINCAP_UNLIMITED, 0);
	actor_fails(&p, ENOMEM, "charge %lld %d", 4 * KIB, PINCAP_DRIVER);
	actor_must(&p, 0, "charge %lld %d", 64 * KIB, PINCAP_LOCK);
	actor_must(&p, 0, "settle");
	actor_fails(&p, ENOMEM, "charge %lld %d", 4 * KIB, PINCAP_LOCK);
	gate_withdraw(gate);
	actor_must(&p, 0, "charge %lld %d", TIB, PINCAP_DRIVER);
	map_cgroup(&cg, &m);
	assert_int_equal(m.refused, 6);
	assert_int_equal(m.reserve_hits, 6);
	assert_int_equal(m.limit_hits, 0);
	actor_exit(&p);
	map_wait(&cg, 0, 0);
}

struct racer {
	int pipe[2];
	int rounds;
};

static void race(const struct racer *r)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0), n = 0, rc = 0;

	for (int i = 0; i < r->rounds && rc != -ENOMEM; i++) {
		rc = ask_charge(fd, MIB, PINCAP_DRIVER);
		n += rc == 0;
		ask_settle(fd);
	}
	CHILD_EQUAL(write(r->pipe[1], &n, sizeof(n)), sizeof(n));
}

/* 32 processes, republished all the while: never a byte more than was published. */
static void headroom_in_a_race(void **state)
{
	struct racer r = { .rounds = 1 << 30 };
	int64_t published = 0, taken = 0;
	uint64_t first, last;
	pid_t pids[32];
	struct cg cg;
	int n;

	(void)state;
	cg_make(&cg, NULL, "race");
	assert_int_equal(pipe(r.pipe), 0);
	first = last = gate_admitted(gate);
	publish(0, PINCAP_UNLIMITED, 1); /* no verdict until all run */
	for (int i = 0; i < 32; i++) {
		pids[i] = cg_fork(&cg);
		if (!pids[i]) {
			race(&r);
			_exit(0);
		}
	}
	/* What was admitted before the first real headroom is no part of the sum. */
	while (gate_admitted(gate) - first < 1000 * MIB)
		usleep(1000);
	for (int round = 0; round < 3; round++) {
		struct pincap_headroom room = { .share = PINCAP_UNLIMITED };

		room.snapshot = last = gate_admitted(gate);
		room.bytes = published = (round + 1) * 4096 * MIB;
		gate_publish(gate, &room);
		while (gate_admitted(gate) - last < (uint64_t)published / 2)
			usleep(100);
	}
	for (int i = 0; i < 32; i++) {
		assert_int_equal(read(r.pipe[0], &n, sizeof(n)), sizeof(n));
		taken += n * MIB;
	}
	for (int i = 0; i < 32; i++)
		assert_int_equal(reap(pids[i]), 0);
	assert_int_equal(gate_admitted(gate) - last, published);
	assert_int_equal(gate_admitted(gate) - first, taken);
	close(r.pipe[0]);
	close(r.pipe[1]);
}

/* A top-level cgroup takes its share, and has no more than that in flight. */
static void shares(void **state)
{
	struct pincap_cgroup m;
	struct actor greedy, sub, other;
	struct cg a, ab, b;
	int err;

	(void)state;
	cg_make(&a, NULL, "greedy");
	cg_make(&ab, &a, "sub");
	cg_make(&b, NULL, "other");
	actor_start(&greedy, &a, false);
	actor_start(&sub, &ab, false);
	actor_start(&other, &b, false);
	publish(16 * MIB, 8 * MIB, 0);
	assert_int_equal(admitted(&greedy, 5, &err), 5);
	assert_int_equal(admitted(&sub, 100, &err), 3); /* one share for the whole subtree */
	assert_int_equal(err, ENOMEM);
	actor_must(&greedy, 0, "uncharge %lld", 5 * MIB);
	actor_fails(&greedy, ENOMEM, "charge %lld %d", MIB, PINCAP_DRIVER);
	assert_int_equal(admitted(&other, 100, &err), 8);
	/* the next one is shared anew ... */
	publish(16 * MIB, 8 * MIB, 0);
	actor_must(&greedy, 0, "charge %lld %d", 6 * MIB, PINCAP_DRIVER);
	map_cgroup(&a, &m);
	assert_int_equal(m.in_flight, 6 * MIB);
	/* ... but what is still in flight is part of it */
	publish(16 * MIB, 8 * MIB, 0);
	actor_fails(&sub, ENOMEM, "charge %lld %d", 3 * MIB, PINCAP_DRIVER);
	assert_int_equal(admitted(&sub, 2, &err), 2);
	assert_int_equal(admitted(&other, 100, &err), 8);
	actor_must(&greedy, 6 * MIB, "settle");
	map_cgroup(&a, &m);
	assert_int_equal(m.in_flight, 0);
	assert_int_equal(m.held, 11 * MIB);
	actor_kill(&greedy);
	actor_kill(&sub);
	actor_kill(&other);
	map_wait(&a, 0, 0);
}

/* Up to its min the reserve refuses nobody; the limit does. */
static void protected(void **state)
{
	struct actor p, q;
	struct cg a, ab, b;
	int err;

	(void)state;
	cg_make(&a, NULL, "kept");
	cg_make(&ab, &a, "inner");
	cg_make(&b, NULL, "plain");
	set_limit(&ab, "infinity");
	set_limit(&a, "6M");
	actor_start(&p, &ab, false);
	actor_start(&q, &b, false);
	set(&a, (struct pincap_set_budget){ .min = 4 * MIB, .mask = PINCAP_SET_MIN });
	publish(0, PINCAP_UNLIMITED, 0);
	assert_int_equal(admitted(&q, 100, &err), 0);
	assert_int_equal(err, ENOMEM);
	assert_int_equal(admitted(&p, 100, &err), 4);
	assert_int_equal(err, ENOMEM);
	set(&a, (struct pincap_set_budget){ .min = 64 * MIB, .mask = PINCAP_SET_MIN });
	assert_int_equal(admitted(&p, 100, &err), 2);
	assert_int_equal(err, EDQUOT);
	actor_exit(&p);
	actor_exit(&q);
}

static void observed(void **state)
{
	struct pincap_cgroup m;
	struct actor p, q;
	struct cg a, ab, b;
	uint64_t before;
	int err;

	(void)state;
	cg_make(&a, NULL, "outer");
	cg_make(&ab, &a, "watched");
	cg_make(&b, NULL, "beside");
	set_limit(&ab, "4M");
	set(&ab, (struct pincap_set_budget){ .observe = 1, .mask = PINCAP_SET_OBSERVE });
	actor_start(&p, &ab, false);
	actor_start(&q, &b, false);
	assert_int_equal(admitted(&p, 6, &err), 6);
	map_cgroup(&ab, &m);
	assert_int_equal(m.limit, 4 * MIB);
	assert_int_equal(m.would_refuse, 2);
	assert_int_equal(m.would_refuse_bytes, 2 * MIB);
	assert_int_equal(m.refused, 0);
	set_limit(&a, "8M"); /* which is in earnest */
	assert_int_equal(admitted(&p, 100, &err), 2);
	assert_int_equal(err, EDQUOT);
	/* a reserve that is observed counts for the host */
	before = gate_observed(gate);
	publish(MIB, PINCAP_UNLIMITED, 1);
	assert_int_equal(admitted(&q, 3, &err), 3);
	assert_int_equal(gate_observed(gate) - before, 2);
	set(&ab, (struct pincap_set_budget){ .observe = 0, .mask = PINCAP_SET_OBSERVE });
	set_limit(&a, "infinity");
	gate_withdraw(gate);
	assert_int_equal(admitted(&p, 100, &err), 0);
	assert_int_equal(err, EDQUOT);
	actor_exit(&p);
	actor_exit(&q);
}

/* A cgroup that the controller has not decided on waits, as long as it lives. */
static void undecided(void **state)
{
	struct deadline d = deadline_in(3000);
	struct actor p, q;
	struct cg a, b;
	struct reply r;

	(void)state;
	cg_make(&a, NULL, "old");
	cg_make(&b, NULL, "new");
	assert_true(b.id > a.id);
	actor_start(&p, &a, false);
	actor_start(&q, &b, false);
	gate_beat(gate);
	gate_decided(gate, a.id);
	actor_must(&p, 0, "charge %lld %d", MIB, PINCAP_DRIVER);
	actor_fails(&q, EINPROGRESS, "charge %lld %d", MIB, PINCAP_DRIVER);
	assert_true(map_stats().undecided > 0);
	gate_decided(gate, b.id);
	actor_must(&q, 0, "charge %lld %d", MIB, PINCAP_DRIVER);
	/* and it is heard no more once it hangs */
	gate_beat(gate);
	gate_decided(gate, a.id);
	do {
		r = actor_do(&q, "charge %lld %d", MIB, PINCAP_DRIVER);
	} while (r.ret && r.err == EINPROGRESS && deadline_open(&d));
	assert_int_equal(r.ret, 0);
	actor_exit(&p);
	actor_exit(&q);
}

static void news(void **state)
{
	struct pincap_event *e;
	uint64_t lost;
	struct actor p;
	struct cg cg, unheard;

	(void)state;
	lost = gate_lost(gate);
	cg_make(&unheard, NULL, "unheard"); /* nobody lives who could be told */
	assert_int_equal(gate_lost(gate), lost + 1);
	gate_beat(gate);
	cg_make(&cg, NULL, "news");
	assert_true(hear(PINCAP_EVENT_MKDIR, cg.id));
	assert_string_equal(heard[PINCAP_EVENT_MKDIR].path, cg.dir + strlen(scratch_mount()));
	gate_decided(gate, cg.id);
	set_limit(&cg, "4M");
	assert_true(hear(PINCAP_EVENT_SET, cg.id));
	/* what a controller does itself is no news to it */
	set(&cg, (struct pincap_set_budget){ .high = 2 * MIB,
					     .mask = PINCAP_SET_HIGH | PINCAP_SET_RULED });
	actor_start(&p, &cg, false);
	actor_must(&p, 0, "charge %lld %d", 3 * MIB, PINCAP_DRIVER);
	assert_true(hear(PINCAP_EVENT_HIGH, cg.id));
	assert_int_equal(heard[PINCAP_EVENT_HIGH].last.bytes, 3 * MIB);
	assert_int_equal(heard[PINCAP_EVENT_SET].n, 1);
	usleep(120000); /* at most one in 100 ms: EVENT_GAP_NS */
	gate_beat(gate);
	actor_fails(&p, EDQUOT, "charge %lld %d", 2 * MIB, PINCAP_DRIVER);
	assert_true(hear(PINCAP_EVENT_REFUSED, cg.id));
	e = &heard[PINCAP_EVENT_REFUSED].last;
	assert_int_equal(e->bytes, 2 * MIB);
	assert_int_equal(e->err, -EDQUOT);
	assert_int_equal(e->tgid, p.pid);
	usleep(120000);
	gate_beat(gate);
	actor_must(&p, 0, "charge %lld %d", MIB, PINCAP_DRIVER);
	assert_true(hear(PINCAP_EVENT_FULL, cg.id));
	assert_int_equal(heard[PINCAP_EVENT_FULL].last.bytes, 4 * MIB);
	actor_exit(&p);
	cg_remove(&cg);
	assert_true(hear(PINCAP_EVENT_RMDIR, cg.id));
}

static void one_controller(void **state)
{
	struct gate *second;

	(void)state;
	assert_int_equal(gate_open(&second, kernel, on_event, NULL), -EBUSY);
}

int main(int argc, char **argv)
{
#define GATE_TEST(f) cmocka_unit_test_setup_teardown(f, gate_setup, gate_teardown)
	const struct CMUnitTest tests[] = {
		GATE_TEST(headroom_is_exact),
		GATE_TEST(headroom_in_a_race),
		GATE_TEST(shares),
		GATE_TEST(protected),
		GATE_TEST(observed),
		GATE_TEST(undecided),
		GATE_TEST(news),
		GATE_TEST(one_controller),
	};

	harness_init(argc, argv);
	return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
