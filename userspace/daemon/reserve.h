/* SPDX-License-Identifier: MIT */
/*
 * Memory of the host that must stay available. Publishes what may still be admitted;
 * the kernel side takes from it request by request. Whether the host is short, for
 * the signal to the libraries, has hysteresis; admission has none.
 */
#ifndef PINCAP_RESERVE_H
#define PINCAP_RESERVE_H

#include <stdint.h>
#include <systemd/sd-event.h>

#include "userspace/control/rules.h"

struct daemon;

#define RESERVE_SECONDS 16 /* for how long somebody counts as asking */

struct reserve {
	struct rule_base host; /* what percentages are of */
	uint64_t bytes;	       /* 0: none */
	int64_t above_bytes;   /* MemAvailable - reserve at the last tick */
	bool is_short;
	bool is_near; /* it may be crossed before the next tick */
	bool is_published;
	bool is_unreadable;	/* and that was said */
	uint64_t transitions;	/* of is_short */
	uint64_t idle_ms;	/* when nothing was in flight, last */
	uint64_t overdue_ms;	/* when overdue_bytes was read */
	uint64_t overdue_bytes; /* in flight for so long that others need not wait for it */
	uint64_t observed;	/* gate_observed() that were told of */
	uint32_t epoch;		/* of the headroom in force ... */
	uint32_t epochs[RESERVE_SECONDS]; /* ... and second by second, before it */
	uint64_t second;		  /* of the newest of them */
	unsigned int asking;		  /* top-level cgroups that took of the headroom lately */
	int psi_fd;
	sd_event_source *psi;
};

/* What of the host the configuration wants kept. */
int reserve_configure(struct daemon *d);
int reserve_watch_pressure(struct daemon *d);
void reserve_done(struct daemon *d);

/* Look at MemAvailable, publish. */
void reserve_tick(struct daemon *d);

/* How soon to look again. */
uint64_t reserve_tick_ms(const struct daemon *d);

/* Whether a top-level cgroup, by the word in its entry, is one that asks. */
bool reserve_is_asking(const struct reserve *r, uint64_t taken);

#endif
