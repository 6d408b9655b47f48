/* SPDX-License-Identifier: MIT */
/*
 * The processes of test_oracle: each does random operations on memory, locks, pins,
 * threads, children and its own place in a tree of cgroups. Operation i of process w
 * depends on the seed, w and i alone, so that a process that is killed or executes
 * itself goes on where it was.
 */
#ifndef TESTS_KERNEL_ORACLE_WORLD_H
#define TESTS_KERNEL_ORACLE_WORLD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/kernel/scratch.h"

#define WORKERS 16
#define CGROUPS 6

/* What all processes share; a memfd, so that it outlives exec. */
struct world {
	uint64_t seed;
	char dirs[CGROUPS][512];
	atomic_uint round; /* a futex: processes that have parked sleep on it */
	struct worker {
		atomic_uint done;   /* operations begun */
		atomic_uint target; /* park there */
		atomic_uint parked; /* the round in which it did */
		atomic_bool dying;  /* it means to end */
		atomic_bool orphan; /* its sibling inherited, and no sweep followed */
		atomic_int sibling; /* shares the address space ... */
		atomic_int child;   /* ... and has its own */
	} workers[WORKERS];
};

/* A source of numbers that is a function of its start. */
struct dice {
	uint64_t state;
};
uint64_t dice_roll(struct dice *d, uint64_t below);

/* Memory: oracle_ops.c. Every one may fail, as calls with random arguments do. */
void ops_init(int index);
void ops_memory(struct dice *d);

/* Lives: oracle_life.c. */
struct self {
	struct world *world;
	struct worker *worker;
	int fd; /* of the world */
	int index;
};
void life_op(struct self *s, struct dice *d);
int futex_wait(atomic_uint *word, unsigned int value);
void futex_wake_all(atomic_uint *word);

/* Never returns. */
void world_worker(int fd, int index);

#endif
