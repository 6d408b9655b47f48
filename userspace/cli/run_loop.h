/* SPDX-License-Identifier: MIT */
/*
 * The controller that `run` embeds, while its command runs: looks at the
 * counts, lets decide judge, tells the library, sweeps, hands signals on, and
 * waits for the command. Knows nothing of how the command was started or of
 * what is said afterwards.
 */
#ifndef PINCAP_RUN_LOOP_H
#define PINCAP_RUN_LOOP_H

#include <signal.h>
#include <systemd/sd-event.h>

#include "userspace/cli/run_place.h"
#include "userspace/cli/spawn.h"
#include "userspace/control/decide.h"
#include "userspace/control/kernel.h"
#include "userspace/control/notify.h"

struct run_loop {
	sd_event *event;
	struct kernel *kernel;	    /* NULL: the daemon sweeps, and tells the libraries */
	struct notify *notify;	    /* NULL: no socket could be had */
	struct notify_scope *scope; /* the place, as somebody to be told */
	const struct place *place;
	struct spawn child;
	bool verbose; /* print every signal */
	/* the loop's own */
	sd_event_source *child_source;
	bool ended;
	struct decide_past past;
	unsigned int releases; /* times that memory was asked back */
	uint64_t losses;       /* of the kernel side, as of the last sweep */
	uint64_t swept_ms;     /* when that was */
	siginfo_t status;
};

/* The signals that are handed on, and SIGCHLD and SIGPIPE: to be blocked before. */
void run_loop_signals(sigset_t *ret);

/* One look at the counts; STOP, RESUME or RELEASE if they say so. */
void run_loop_look(struct run_loop *r);

/* Until the command ends; its si_code and si_status in r->status. No failure of
 * ours ends the wait: -errno means that the budget was not watched meanwhile. */
int run_loop(struct run_loop *r);

#endif
