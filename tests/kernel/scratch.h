/* SPDX-License-Identifier: MIT */
/*
 * Scratch cgroups of one test: made under the root of the v2 hierarchy with a name
 * of this process, killed and removed by scratch_done() whatever the test came to.
 * Knows nothing of pincap.
 */
#ifndef TESTS_KERNEL_SCRATCH_H
#define TESTS_KERNEL_SCRATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct cg {
	char dir[512];
	uint64_t id; /* the inode of the directory */
};

/* NULL where no v2 hierarchy is mounted. */
const char *scratch_mount(void);

/* parent NULL: right below the root. Fails the test if it cannot. */
void cg_make(struct cg *cg, const struct cg *parent, const char *name);
void cg_remove(const struct cg *cg);
void cg_move(const struct cg *cg, pid_t pid);
bool cg_is_populated(const struct cg *cg);

/* fork() whose child is in the cgroup from birth and dies with us. */
pid_t cg_fork(const struct cg *cg);

/* Kill and remove all that is left, deepest first. Returns 0, or -1 if something stayed. */
int scratch_done(void);
/* Remove what tests that were killed left behind. */
void scratch_sweep(void);

/* Conditions are waited for with a deadline, never slept for. */
struct deadline {
	int64_t end_ns;
};
struct deadline deadline_in(unsigned int ms);
/* False once it has passed; else waits for a moment first. */
bool deadline_open(const struct deadline *d);
int64_t now_ns(void);

/* waitpid() with a deadline of 10 s; fails the test. */
int reap(pid_t pid);

#endif
