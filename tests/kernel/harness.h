/* SPDX-License-Identifier: MIT */
/*
 * What the tests against the real kernel share: pincap loaded around them, its
 * counters by both readers that users have, and the kernel's own figures from
 * /proc as the oracle. Amounts are bytes.
 *
 * Environment: PINCAP (build/pincap), BPFTOOL (bpftool). PINCAP_TRIGGER and
 * PINCAP_GPU_TRIGGER force what pincap counts by; where the kernel does not take it,
 * nothing is tested.
 */
#ifndef TESTS_KERNEL_HARNESS_H
#define TESTS_KERNEL_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/intf.h"
#include "tests/kernel/scratch.h"

struct usage {
	int64_t current;
	int64_t locked;
	int64_t pinned;
	int64_t gpu;
	int64_t held;
};

/* cmocka's group and test fixtures. The test's teardown kills and removes what is
 * left, and fails if any counter was ever read negative or beyond reason. */
int harness_setup(void **state);
int harness_teardown(void **state);
int test_teardown(void **state);

/* main() of every test: `filter` is a cmocka pattern from the command line. */
#define HARNESS_MAIN(tests)                                                            \
	int main(int argc, char **argv)                                                \
	{                                                                              \
		harness_init(argc, argv);                                              \
		return cmocka_run_group_tests(tests, harness_setup, harness_teardown); \
	}
void harness_init(int argc, char **argv);

/* The number in the environment, or the other. */
uint64_t harness_number(const char *name, uint64_t other);

/* Somebody else's kernel side is never unloaded. */
bool harness_is_owner(void);
void harness_load(void);
void harness_unload(void);

/* The readers. An entry that is absent reads 0. */
struct usage usage_by_stat(const struct cg *cg);
struct usage usage_by_bpftool(const struct cg *cg);
struct usage usage_by_proc(const struct cg *cg);

/* A number beside the cgroups in `pincap stat --json`. */
int64_t stat_number(const char *name);

/* What usage_by_proc() adds up: the processes of a cgroup and below that have an
 * address space, by a thread that still has it. */
struct proc_mm {
	int pid;
	int tid;
	uint64_t cgid; /* where the process is */
	int64_t locked;
	int64_t pinned;
};
size_t procs_below(const struct cg *cg, struct proc_mm *all, size_t max);
bool is_same_mm(const struct proc_mm *a, const struct proc_mm *b);

/* Polls bpftool and /proc until both say so, then `pincap stat` (which sweeps, and
 * so comes last). Fails with all the figures after 2 s. */
#define assert_usage(cg, locked, pinned) \
	harness_assert_usage(cg, locked, pinned, 0, __FILE__, __LINE__)
#define assert_usage_held(cg, locked, pinned, held) \
	harness_assert_usage(cg, locked, pinned, held, __FILE__, __LINE__)
void harness_assert_usage(const struct cg *cg, int64_t locked, int64_t pinned, int64_t held,
			  const char *file, int line);

/* The pinned maps, at first hand. */
int map_fd(const char *name); /* kept open until maps_forget() */
void maps_forget(void);
bool map_cgroup(const struct cg *cg, struct pincap_cgroup *ret);
struct pincap_stats map_stats(void);
int map_count_processes(uint64_t cgid);
bool map_process(const struct cg *cg, struct pincap_process *ret); /* any that is there */
int map_count(const char *name);
/* Records whose process is gone, reaped and all. */
int map_count_dead(void);
int64_t map_memlock(const char *name); /* bytes that the kernel says it takes */
/* Waits up to 2 s for `current` and `held`; fails. */
void map_wait(const struct cg *cg, int64_t current, int64_t held);
void map_wait_within(const struct cg *cg, int64_t current, int64_t held, unsigned int ms);

/* Remember a value for the verdict of test_teardown(). */
void usage_note(const struct usage *u);

void set_limit(const struct cg *cg, const char *size);

#endif
