/* SPDX-License-Identifier: MIT */
/*
 * How much memory there is to share out, and what share of it `auto` is.
 * Knows nothing of who asks or of what is in use.
 */
#ifndef PINCAP_HOSTMEM_H
#define PINCAP_HOSTMEM_H

#include <stdint.h>

#include "userspace/common/util.h"

struct hostmem {
	uint64_t total_bytes; /* MemTotal */
	uint64_t ram_bytes;   /* the smaller of it and the tightest memory limit above us */
	uint64_t swap_bytes;  /* without zram, which is RAM; 0 where a memory limit binds */
};

/* 0, or a negative errno where /proc is not readable. */
int hostmem_read(struct hostmem *ret);

/* MemAvailable of the host, now. */
int hostmem_available(uint64_t *ret_bytes);

/* ram_bytes alone; 0 where it cannot be known. What percentages are of. */
uint64_t hostmem_ram(void);

/*
 * max(0.4 R, min(0.9 R, R - 4 GiB, R + S - 16 GiB)), rounded down to pages: the
 * public formula of the loaders this is for (ComfyUI). Pure.
 */
uint64_t hostmem_auto_limit(uint64_t ram_bytes, uint64_t swap_bytes);

/* Of an open /proc/meminfo and /proc/swaps. */
int hostmem_parse_meminfo(FILE *f, uint64_t *ret_total_bytes);
int hostmem_parse_available(FILE *f, uint64_t *ret_bytes);
int hostmem_parse_swaps(FILE *f, uint64_t *ret_swap_bytes);

#endif
