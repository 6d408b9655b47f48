/* SPDX-License-Identifier: MIT */
/*
 * A child process and its test taking turns: the child says that it has come to a
 * point, the test looks, and lets it go on. For what actor.c cannot answer in the
 * middle of, such as vfork. Made before the fork; all of the child's processes and
 * threads may use it, one at a time.
 */
#ifndef TESTS_KERNEL_STAGE_H
#define TESTS_KERNEL_STAGE_H

#include <stdint.h>

struct stage {
	int said[2];
	int go[2];
};

void stage_make(struct stage *s);
void stage_close(struct stage *s);

/* The child's part. Safe after vfork; ends the process if the test is gone. */
void stage_point(const struct stage *s, int64_t word);

/* The test's part: waits for that, up to 20 s; fails the test. */
int64_t stage_hear(const struct stage *s);
void stage_go(const struct stage *s);

/* An io_uring without its memory mapped, and `len` bytes registered with it. Return
 * the descriptor, or 0; or -1 with errno. */
int ring_make(void);
int ring_register(int fd, void *at, uint64_t len);

#endif
