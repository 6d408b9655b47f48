/* SPDX-License-Identifier: MIT */
/*
 * What the daemon says of workloads: one line for each thing that an administrator
 * wants to know, and no more of them than he can read, whatever tenants do.
 */
#ifndef PINCAP_REPORT_H
#define PINCAP_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/intf.h"

struct budget;
struct daemon;

struct report {
	uint64_t window_ms; /* when this window began */
	unsigned int lines; /* in it */
	unsigned int suppressed;
	char status[256]; /* as systemd was told */
};

/* Whether there is room for one more line of this kind. */
bool report_may(struct report *r);

/* Requests were refused, or would have been, since the last time. */
void report_refusals(struct daemon *d, struct budget *b, const struct pincap_cgroup *cg,
		     uint64_t now);

/* Somebody was refused: to be named in the next such line. */
void report_refused(struct budget *b, const struct pincap_event *e);

/* Over the limit, and below again. True: it was said. */
bool report_over(struct daemon *d, const struct budget *b, const struct pincap_cgroup *cg);
void report_over_event(const struct budget *b, const struct pincap_cgroup *cg);
void report_below(struct daemon *d, const struct budget *b, const struct pincap_cgroup *cg,
		  uint64_t after_ms);

/* Libraries that were asked for memory and did not answer. */
void report_deaf(struct daemon *d, struct budget *b, uint64_t now);

/* Lines that were left out; the status line for systemd. */
void report_flush(struct daemon *d);

#endif
