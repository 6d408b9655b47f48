/* SPDX-License-Identifier: MIT */
/*
 * The kernel part for tests without BPF: setsockopt() and getsockopt() of the
 * test program stand in front of libc's and answer level SOL_PINCAP from a
 * budget. Locked memory is the real one of this process.
 */
#ifndef FAKEKERNEL_H
#define FAKEKERNEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct fakekernel {
	uint64_t limit;
	int answer;		/* errno of every request, 0 to decide by the limit */
	unsigned int undecided; /* charges to put off with EINPROGRESS */
	uint32_t alloc;		/* policy that STATUS tells */
	bool blind;		/* driver pins are not visible: they stay held */
	uint64_t gpu;		/* what status says that it sees of them */
	uint64_t held;		/* admitted, in flight included */
	uint64_t peak;		/* highest VmLck + held seen at a charge */
	uint64_t last_charge;
	uint64_t uncharged;  /* in total */
	atomic_uint charges; /* asked, refused ones included */
	atomic_uint refused;
	atomic_uint settles;
	atomic_uint uncharges;
	atomic_uint put_off;
	atomic_uint statuses;
	int last_fd;
};

extern struct fakekernel kernel;

/* What happened, one letter each: C charge, R refused, S settle, U uncharge,
 * P pin and F free in the runtime. */
extern char trace_log[256];
void trace_event(const char *what);

void fakekernel_reset(uint64_t limit);

/* VmLck of this process, bytes. */
uint64_t vmlck(void);

/* 0, or 77 with a reason when the library is not preloaded. */
int require_preload(void);

#endif
