/* SPDX-License-Identifier: MIT */
/*
 * The counters equal the kernel's, to the byte, after every kind of call that
 * changes what is locked: T01 to T05, T10 and T11, each with and without the preload
 * library in the process. The first reader does not sweep, so the triggers are what
 * is proved here.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "tests/kernel/ask.h"
#include "tests/kernel/harness.h"
#include "tests/kernel/play.h"

#define RW (PROT_READ | PROT_WRITE)

struct scene {
	struct cg cg;
	struct actor actor;
};

/* An actor that has mapped `bytes`, in a cgroup of its own. */
static void open_scene(struct scene *s, void **state, long long bytes)
{
	cg_make(&s->cg, NULL, "count");
	actor_start(&s->actor, &s->cg, *state != NULL);
	actor_must(&s->actor, 0, "map 0 %lld %d 0", bytes, RW);
	assert_usage(&s->cg, 0, 0);
}

static void close_scene(struct scene *s)
{
	actor_exit(&s->actor);
	assert_usage(&s->cg, 0, 0);
	cg_remove(&s->cg);
}

static void t01_baseline(void **state)
{
	struct pincap_cgroup m;
	struct scene s;

	open_scene(&s, state, 8 * MIB);
	actor_must(&s.actor, 0, "lock 0 0 %lld", 8 * MIB);
	assert_usage(&s.cg, 8388608, 0);
	actor_must(&s.actor, 0, "unlock 0 0 %lld", 8 * MIB);
	assert_usage(&s.cg, 0, 0);
	actor_must(&s.actor, 0, "lock 0 0 %lld", 8 * MIB);
	assert_usage(&s.cg, 8388608, 0);
	map_cgroup(&s.cg, &m);
	assert_int_equal(m.charges, *state ? 2 : 0); /* the library is really there */
	assert_int_equal(m.refused, 0);
	close_scene(&s);
}

static void t02_union(void **state)
{
	struct scene s;

	open_scene(&s, state, 16 * MIB);
	actor_must(&s.actor, 0, "lock 0 0 %lld", 8 * MIB);
	assert_usage(&s.cg, 8388608, 0);
	actor_must(&s.actor, 0, "lock 0 0 %lld", 8 * MIB);
	assert_usage(&s.cg, 8388608, 0);
	actor_must(&s.actor, 0, "lock 0 %lld %lld", 4 * MIB, 8 * MIB);
	assert_usage(&s.cg, 12582912, 0);
	close_scene(&s);
}

static void t02_rounding(void **state)
{
	struct scene s;

	open_scene(&s, state, MIB);
	actor_must(&s.actor, 0, "lock 0 4095 2");
	assert_usage(&s.cg, 8192, 0);
	actor_must(&s.actor, 0, "lock 0 %lld 0", 64 * KIB);
	assert_usage(&s.cg, 8192, 0);
	close_scene(&s);
}

static void t03_hole(void **state)
{
	struct scene s;

	open_scene(&s, state, 12 * MIB);
	actor_must(&s.actor, 0, "unmap 0 %lld %lld", 4 * MIB, 4 * MIB);
	actor_fails(&s.actor, ENOMEM, "lock 0 0 %lld", 12 * MIB);
	assert_usage(&s.cg, 4194304, 0);
	close_scene(&s);
}

static void t03_prot_none(void **state)
{
	struct scene s;

	open_scene(&s, state, MIB);
	actor_must(&s.actor, 0, "map 1 %lld %d 0", 8 * MIB, PROT_NONE);
	actor_fails(&s.actor, ENOMEM, "lock 1 0 %lld", 8 * MIB);
	assert_usage(&s.cg, 8388608, 0);
	close_scene(&s);
}

static void t03_short_file(void **state)
{
	struct scene s;

	open_scene(&s, state, MIB);
	actor_must(&s.actor, 0, "mapfile 1 %lld %lld", 8 * MIB, MIB);
	actor_fails(&s.actor, ENOMEM, "lock 1 0 %lld", 8 * MIB);
	assert_usage(&s.cg, 8388608, 0);
	close_scene(&s);
}

static void t04_unmap(void **state)
{
	struct scene s;

	open_scene(&s, state, 8 * MIB);
	actor_must(&s.actor, 0, "lock 0 0 %lld", 8 * MIB);
	assert_usage(&s.cg, 8388608, 0);
	actor_must(&s.actor, 0, "unmap 0 %lld %lld", 3 * MIB, 2 * MIB);
	assert_usage(&s.cg, 6291456, 0);
	actor_must(&s.actor, 0, "unmap 0 0 %lld", 8 * MIB);
	assert_usage(&s.cg, 0, 0);
	close_scene(&s);
}

static void t04_map_over(void **state)
{
	struct scene s;

	open_scene(&s, state, 8 * MIB);
	actor_must(&s.actor, 0, "lock 0 0 %lld", 8 * MIB);
	assert_usage(&s.cg, 8388608, 0);
	actor_must(&s.actor, 0, "fixed 0 %lld %lld %d", 2 * MIB, 4 * MIB, PROT_NONE);
	assert_usage(&s.cg, 4194304, 0);
	close_scene(&s);
}

static void t05_remap(void **state)
{
	struct scene s;

	open_scene(&s, state, 8 * MIB);
	actor_must(&s.actor, 0, "lock 0 0 %lld", 8 * MIB);
	assert_usage(&s.cg, 8388608, 0);
	actor_must(&s.actor, 0, "remap 0 %lld %lld", 8 * MIB, 16 * MIB);
	assert_usage(&s.cg, 16777216, 0);
	actor_must(&s.actor, 0, "remap 0 %lld %lld", 16 * MIB, 4 * MIB);
	assert_usage(&s.cg, 4194304, 0);
	actor_must(&s.actor, 0, "move 0 %lld", 4 * MIB);
	assert_usage(&s.cg, 4194304, 0);
	close_scene(&s);
}

static void t10_two_processes(void **state)
{
	struct cg parent, g1, g2;
	struct actor a, b, c;

	cg_make(&parent, NULL, "parent");
	cg_make(&g1, &parent, "g1");
	cg_make(&g2, &parent, "g2");
	actor_start(&a, &g1, *state != NULL);
	actor_start(&b, &g1, *state != NULL);
	actor_start(&c, &g2, *state != NULL);
	actor_must(&a, 0, "map 0 %lld %d 0", 8 * MIB, RW);
	actor_must(&b, 0, "map 0 %lld %d 0", 4 * MIB, RW);
	actor_must(&c, 0, "map 0 %lld %d 0", 2 * MIB, RW);
	actor_must(&a, 0, "lock 0 0 %lld", 8 * MIB);
	actor_must(&b, 0, "lock 0 0 %lld", 4 * MIB);
	actor_must(&c, 0, "lock 0 0 %lld", 2 * MIB);
	assert_usage(&g1, 12582912, 0);
	assert_usage(&g2, 2097152, 0);
	assert_usage(&parent, 14680064, 0);
	actor_exit(&a);
	assert_usage(&g1, 4194304, 0);
	assert_usage(&parent, 6291456, 0);
	actor_exit(&b);
	actor_exit(&c);
	assert_usage(&parent, 0, 0);
}

static void t11_migration(void **state)
{
	struct cg parent, g1, g2;
	struct actor p;

	cg_make(&parent, NULL, "parent");
	cg_make(&g1, &parent, "g1");
	cg_make(&g2, &parent, "g2");
	actor_start(&p, &g1, *state != NULL);
	actor_must(&p, 0, "map 0 %lld %d 0", 16 * MIB, RW);
	actor_must(&p, 0, "map 1 %lld %d 0", 8 * MIB, RW);
#define BOTH(first, second)                               \
	do {                                              \
		assert_usage(&g1, first, 0);              \
		assert_usage(&g2, second, 0);             \
		assert_usage(&parent, first + second, 0); \
	} while (0)
	actor_must(&p, 0, "lock 0 0 %lld", 16 * MIB);
	BOTH(16777216, 0);
	cg_move(&g2, p.pid);
	BOTH(0, 16777216);
	actor_must(&p, 0, "lock 1 0 %lld", 8 * MIB);
	BOTH(0, 25165824);
	actor_must(&p, 0, "unlock 0 0 %lld", 16 * MIB);
	BOTH(0, 8388608);
	actor_exit(&p);
	BOTH(0, 0);
#undef BOTH
}

/* Other ways in and out: MAP_LOCKED, ONFAULT, mlockall, and pins beside locks. */
static void other_ways(void **state)
{
	struct scene s;
	struct reply r;

	open_scene(&s, state, 8 * MIB);
	actor_must(&s.actor, 0, "lock2 0 0 %lld %d", 8 * MIB, MLOCK_ONFAULT);
	assert_usage(&s.cg, 8388608, 0);
	actor_must(&s.actor, 0, "map 1 %lld %d %d", 8 * MIB, RW, MAP_LOCKED);
	assert_usage(&s.cg, 16777216, 0);
	actor_must(&s.actor, 0, "ring 0");
	actor_must(&s.actor, 0, "register 0 0 0 %lld", 4 * MIB);
	assert_usage(&s.cg, 16777216, 4194304);
	actor_must(&s.actor, 0, "unregister 0");
	assert_usage(&s.cg, 16777216, 0);
	actor_must(&s.actor, 0, "unring 0");
	actor_must(&s.actor, 0, "unlockall");
	assert_usage(&s.cg, 0, 0);
	actor_must(&s.actor, 0, "lockall %d", MCL_FUTURE);
	actor_must(&s.actor, 0, "map 2 %lld %d 0", 8 * MIB, PROT_NONE);
	r = actor_do(&s.actor, "settle"); /* as good as any: VmLck is what counts */
	assert_true(r.locked >= 8 * MIB);
	assert_usage(&s.cg, r.locked, 0);
	actor_must(&s.actor, 0, "unlockall");
	assert_usage(&s.cg, 0, 0);
	close_scene(&s);
}

/* What is under way goes with its process. */
static void migration_in_flight(void **state)
{
	struct cg parent, a, b;
	struct actor p;

	cg_make(&parent, NULL, "parent");
	cg_make(&a, &parent, "a");
	cg_make(&b, &parent, "b");
	actor_start(&p, &a, *state != NULL);
	actor_must(&p, 0, "charge %lld %d", 8 * MIB, PINCAP_DRIVER);
	assert_usage_held(&a, 0, 0, 8388608);
	cg_move(&b, p.pid);
	assert_usage_held(&a, 0, 0, 0);
	assert_usage_held(&b, 0, 0, 8388608);
	actor_must(&p, 8388608, "settle");
	assert_usage_held(&a, 0, 0, 0);
	assert_usage_held(&b, 0, 0, 8388608);
	assert_usage_held(&parent, 0, 0, 8388608);
	/* A lock's promise is kept in the new place, and never counted twice. */
	actor_must(&p, 0, "map 0 %lld %d 0", 4 * MIB, RW);
	actor_must(&p, 0, "charge %lld %d", 4 * MIB, PINCAP_LOCK);
	cg_move(&a, p.pid);
	assert_usage_held(&a, 0, 0, 12582912);
	if (!*state) { /* the library would charge again, and settle */
		actor_must(&p, 0, "lock 0 0 %lld", 4 * MIB);
		assert_usage_held(&a, 4194304, 0, 8388608);
	}
	actor_must(&p, 0, "settle");
	actor_must(&p, 0, "uncharge %lld", 8 * MIB);
	assert_usage(&a, *state ? 0 : 4194304, 0);
	assert_usage(&b, 0, 0);
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
	PAIR(t01_baseline),	   PAIR(t02_union),	    PAIR(t02_rounding),	 PAIR(t03_hole),
	PAIR(t03_prot_none),	   PAIR(t03_short_file),    PAIR(t04_unmap),	 PAIR(t04_map_over),
	PAIR(t05_remap),	   PAIR(t10_two_processes), PAIR(t11_migration), PAIR(other_ways),
	PAIR(migration_in_flight),
};

HARNESS_MAIN(tests)
