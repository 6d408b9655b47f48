/* SPDX-License-Identifier: MIT */
/*
 * A reader that looks at one cgroup's `current` every millisecond, from a thread of
 * its own, while a test does something. One at a time.
 */
#ifndef TESTS_KERNEL_SAMPLER_H
#define TESTS_KERNEL_SAMPLER_H

#include "tests/kernel/scratch.h"

/* What it saw so far; to be read when it is stopped, or for a bound only. */
struct sampler_seen {
	int64_t lowest, highest; /* 0 where there was no entry yet */
	unsigned int samples;
};

void sampler_start(const struct cg *cg);
void sampler_stop(void); /* also when none runs */
struct sampler_seen sampler_seen(void);

#endif
