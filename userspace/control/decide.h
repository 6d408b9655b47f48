/* SPDX-License-Identifier: MIT */
/*
 * The controller's judgement: values in, one action out. No clock, no I/O, no
 * globals, and no idea of cgroups, sockets or libraries; its test is a table.
 */
#ifndef PINCAP_DECIDE_H
#define PINCAP_DECIDE_H

#include <stdbool.h>
#include <stdint.h>

/* RESUME needs this part of the limit, in percent, or less in use: a tenth of the
 * budget as play, else a program that frees and pins one buffer in turn is told
 * the opposite with every buffer. */
#define DECIDE_RESUME_PERCENT 90

/* ... and this long since the last signal. The kernel's admission binds
 * meanwhile; four changes a second is what a loader can make use of. */
#define DECIDE_DWELL_MS 250

struct decide_in {
	uint64_t current_bytes;
	uint64_t limit_bytes;	  /* PINCAP_UNLIMITED: none; 0: nothing may be pinned */
	uint64_t since_signal_ms; /* since the last STOP or RESUME; UINT64_MAX: none yet */
	bool stopped;		  /* the last signal was STOP */
	bool limit_changed;	  /* since the last signal */
};

enum decision {
	DECIDE_NOTHING,
	DECIDE_STOP,
	DECIDE_RESUME,
};

enum decision decide(const struct decide_in *in);

#endif
