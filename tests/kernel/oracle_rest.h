/* SPDX-License-Identifier: MIT */
/*
 * The oracle's processes at rest: what the kernel says of each address space, summed
 * over every cgroup of the tree, against pincap's map.
 */
#ifndef TESTS_KERNEL_ORACLE_REST_H
#define TESTS_KERNEL_ORACLE_REST_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/kernel/harness.h"
#include "tests/kernel/oracle_world.h"

extern const int oracle_parent[CGROUPS]; /* -1: none */

/* The largest difference between `sums`, one for each cgroup, and the map; that of
 * `locked` alone, too. */
int64_t rest_compare(const struct cg *cgs, const struct usage *sums, int64_t *locked, bool show);

/* Polls both until they are equal; returns the difference. */
int64_t rest_poll(const struct cg *cgs, struct world *world, struct usage *sums, int64_t *locked,
		  unsigned int ms);

/* Sweeps until they are equal, or differ though nothing has changed since before a
 * sweep; returns the difference. */
int64_t rest_sweep(const struct cg *cgs, struct world *world, struct usage *sums);

#endif
