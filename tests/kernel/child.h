/* SPDX-License-Identifier: MIT */
/*
 * Checks that have to be made by a process inside the cgroup: a child that runs one
 * function and says by its exit status whether all was well.
 */
#ifndef TESTS_KERNEL_CHILD_H
#define TESTS_KERNEL_CHILD_H

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "tests/kernel/scratch.h"

/* Both sides are evaluated once; ends the child. */
#define CHILD_EQUAL(a, b)                                                                          \
	do {                                                                                       \
		int64_t a_ = (int64_t)(a), b_ = (int64_t)(b);                                      \
		if (a_ == b_)                                                                      \
			break;                                                                     \
		fprintf(stderr, "%s:%d: %s is %" PRId64 ", not %" PRId64 "\n", __FILE__, __LINE__, \
			#a, a_, b_);                                                               \
		_exit(1);                                                                          \
	} while (0)

#define child_run(cg, fn, arg)                   \
	do {                                     \
		pid_t pid_ = cg_fork(cg);        \
		if (!pid_) {                     \
			fn(arg);                 \
			_exit(0);                \
		}                                \
		assert_int_equal(reap(pid_), 0); \
	} while (0)

#endif
