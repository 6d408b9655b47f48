/* SPDX-License-Identifier: MIT */
/*
 * How much a request to lock or register memory really takes. Knows pages and
 * mappings, nothing of budgets.
 */
#ifndef PINCAP_SPAN_H
#define PINCAP_SPAN_H

#include <stdint.h>

#define SPAN_UNKNOWN UINT64_MAX

/* Bytes of the whole pages that [ptr, ptr + len) touches: 0 for no length,
 * SPAN_UNKNOWN where it wraps around. */
uint64_t span_bytes(const void *ptr, uint64_t len);

/* Of those pages, the bytes that are mapped and not yet locked: what mlock()
 * would add to the kernel's count. SPAN_UNKNOWN without /proc. */
uint64_t span_unlocked(const void *ptr, uint64_t len);

/* The same of the whole address space: what mlockall(MCL_CURRENT) would add. */
uint64_t span_unlocked_all(void);

#endif
