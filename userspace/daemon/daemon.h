/* SPDX-License-Identifier: MIT */
/*
 * pincapd: holds the budgets of a configuration for every cgroup of the host. The
 * kernel side counts and admits; this decides which budget a cgroup has, how much
 * the host has left, and whom to ask for memory back.
 *
 * What each file is for: budgets.h who has a budget, discover.h which cgroups there
 * are, apply.h a rule's budget into the kernel, look.h what a budget's figures
 * call for, over.h what happens above a limit, reserve.h the host, report.h words,
 * reload.h another configuration, remote.h the commands, caps.h fewer privileges.
 */
#ifndef PINCAP_DAEMON_H
#define PINCAP_DAEMON_H

#include <systemd/sd-event.h>

#include "userspace/control/config.h"
#include "userspace/control/control.h"
#include "userspace/control/gate.h"
#include "userspace/control/kernel.h"
#include "userspace/control/notify.h"
#include "userspace/daemon/budgets.h"
#include "userspace/daemon/report.h"
#include "userspace/daemon/reserve.h"

struct daemon_options {
	const char *path; /* of the configuration */
	bool is_default;  /* then it need not be there */
	bool dry_run;
};

/* What people may know of a running daemon. */
struct daemon_status {
	uint64_t budgets; /* cgroups that have one ... */
	uint64_t stopped; /* ... of these, told to register no more ... */
	uint64_t over;	  /* ... above their limit */
	uint64_t deaf;	  /* libraries that did not answer a release request */
	uint64_t libraries;
	uint64_t signals;	/* STOP and RESUME that were given out */
	uint64_t reserve_bytes; /* 0: none */
	int64_t above_bytes;	/* MemAvailable - reserve, at the last tick */
	bool host_short;
	uint64_t transitions; /* times that the host fell below its reserve or rose again */
	uint64_t reloads;
	bool dry_run;
	char last_error[sizeof(struct config_error)]; /* "" after a good reload */
};

struct daemon {
	struct daemon_options options;
	struct config *config;
	sd_event *event;
	struct kernel *kernel;
	struct gate *gate;
	struct notify *notify;
	struct control *control;
	struct budgets budgets;
	struct budget *root; /* the host's, for its reserve */
	struct reserve reserve;
	struct report report;
	bool is_walking;
	bool must_walk;	     /* an event did not tell where its cgroup is */
	uint64_t heard;	     /* the highest id of a cgroup that is known */
	uint64_t lost;	     /* gate_lost() at the last walk */
	uint64_t losses;     /* losses_sum() at the last sweep */
	uint64_t look_ms;    /* when to look at those awake next, */
	uint64_t scan_ms;    /* at everybody, */
	uint64_t sweep_ms;   /* and to sweep */
	uint64_t scanned_ms; /* when they were, last */
	uint64_t swept_ms;
	sd_event_source *tick;
	uint64_t reloads;
	char last_error[sizeof(struct config_error)];
};

/* Reads the configuration and runs until SIGTERM or SIGINT. Returns the exit code. */
int daemon_main(const struct daemon_options *options);

bool daemon_is_dry(const struct daemon *d);

void daemon_get_status(const struct daemon *d, struct daemon_status *ret);

#endif
