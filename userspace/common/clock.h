/* SPDX-License-Identifier: MIT */
/* CLOCK_MONOTONIC as a number; the same that eBPF reads. */
#ifndef PINCAP_CLOCK_H
#define PINCAP_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t clock_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static inline uint64_t clock_ms(void)
{
	return clock_ns() / 1000000;
}

#endif
