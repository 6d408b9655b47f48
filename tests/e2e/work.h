/* SPDX-License-Identifier: MIT */
/*
 * Anonymous memory that a program writes to over and over, and knows the
 * contents of: what suffers when the rest can not be reclaimed.
 */
#ifndef WORK_H
#define WORK_H

#include <stddef.h>
#include <stdint.h>

struct work {
	uint64_t *words;
	size_t bytes;
	uint64_t uses; /* so often has each page been written to */
};

int work_init(struct work *w, size_t bytes); /* 0 or negative errno; 0 bytes are none */
void work_done(struct work *w);
/* Writes to every page. Returns how many did not hold what was written last. */
size_t work_use(struct work *w);

#endif
