/* SPDX-License-Identifier: MIT */
/*
 * The other end of actor.c: start one in a cgroup, have it do things.
 *
 * Environment: ACTOR (beside the test's own program), PINCAP_PRELOAD
 * (build/libpincap-preload.so).
 */
#ifndef TESTS_KERNEL_PLAY_H
#define TESTS_KERNEL_PLAY_H

#include <stdbool.h>

#include "tests/kernel/scratch.h"

struct actor {
	pid_t pid;
	int fd;
};

struct reply {
	long ret;
	int err;
	int64_t locked; /* VmLck */
	int64_t pinned; /* VmPin */
};

void actor_start(struct actor *a, const struct cg *cg, bool preload);

/* One command, one answer, within 20 s; else the test fails. */
struct reply actor_do(const struct actor *a, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The same, and it must return this value. */
#define actor_must(a, want, ...) assert_int_equal(actor_do(a, __VA_ARGS__).ret, want)
/* The same, and it must fail so. */
#define actor_fails(a, want, ...)                               \
	do {                                                    \
		struct reply reply_ = actor_do(a, __VA_ARGS__); \
		assert_int_equal(reply_.ret, -1);               \
		assert_int_equal(reply_.err, want);             \
	} while (0)

void actor_exit(struct actor *a); /* by itself, with status 0 */
void actor_kill(struct actor *a); /* -9 */

#endif
