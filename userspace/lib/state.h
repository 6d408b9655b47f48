/* SPDX-License-Identifier: MIT */
/*
 * What the library remembers of one address space. It lives in a page that the
 * kernel zeroes in a forked child (MADV_WIPEONFORK), which is exactly what a
 * child needs: no connection, not stopped, nothing held, no lock taken, even if
 * another thread held it at the fork. A vfork child shares it, as it shares the
 * address space that is charged.
 */
#ifndef PINCAP_STATE_H
#define PINCAP_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zero means: new. Written under `busy` unless atomic; see advice.c. */
struct advice {
	atomic_int busy;
	atomic_int fd_plus_1;	     /* 0: not connected */
	uint64_t retry_ns;	     /* CLOCK_MONOTONIC; no attempt to connect before */
	atomic_uint_least64_t epoch; /* last obeyed on this connection */
	uint64_t acked;		     /* last acknowledged */
	atomic_bool stopped;
	atomic_uint_least64_t withheld_count;
	atomic_uint_least64_t withheld_bytes;
	uint64_t reported; /* withheld_count that the controller knows */
};

/* What the controller wants back; see release.c. All zero means: nothing. */
struct release {
	/* Written by the thread that tends the connection. */
	atomic_uint_least64_t wanted; /* number of the RELEASE, and pages */
	uint64_t epoch;		      /* of it */
	uint64_t reported;	      /* given_count that the controller knows */
	/* Written by the thread that holds `busy`. */
	atomic_int busy;		    /* the program's function runs, or is being replaced */
	atomic_uint_least64_t given_number; /* of the RELEASE that the next two are for */
	atomic_uint_least64_t given_count;
	atomic_uint_least64_t given_bytes;
	uint64_t done_number; /* of the RELEASE that the program can do no more for */
};

struct held_entry {
	uintptr_t ptr; /* 0: empty slot */
	uint64_t bytes;
};

/* See held.c. All zero means: empty, unlocked. */
struct held {
	pthread_mutex_t lock;
	struct held_entry *table;
	size_t slots; /* power of two */
	atomic_size_t used;
};

struct state {
	struct advice advice;
	struct release release;
	struct held held;
};

/* NULL if the kernel gives no such page; then there is no advice and no memory
 * of what is held. */
struct state *state_get(void);

/* Sections that hold one of our locks or a descriptor of their own must not end
 * in a pthread_cancel(). */
static inline int cancel_off(void)
{
	int old;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
	return old;
}

static inline void cancel_restore(int old)
{
	pthread_setcancelstate(old, &old);
}

/* Move a fresh descriptor out of the numbers that programs count on (shells and
 * daemons expect the lowest free one). Returns the number to use. */
int fd_move_high(int fd);

#endif
