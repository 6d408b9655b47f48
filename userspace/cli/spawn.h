/* SPDX-License-Identifier: MIT */
/*
 * Starting a command inside a cgroup, in it from its first instruction, in the
 * signal state that we were started with and in our process group, so that the
 * terminal treats both as one job. Knows nothing of budgets and of what the
 * library is for that it preloads.
 */
#ifndef PINCAP_SPAWN_H
#define PINCAP_SPAWN_H

#include <signal.h>
#include <sys/resource.h>

#include "userspace/cli/identity.h"

/* The state that the command is to find again. */
struct spawn_state {
	sigset_t mask;
	struct sigaction child; /* SIGCHLD: ignored, it would keep us from its exit code */
	struct rlimit files;
};

struct spawn_in {
	char *const *argv;
	const char *cgpath;
	const char *preload; /* put before LD_PRELOAD; NULL: leave it */
	const char *notify;  /* PINCAP_NOTIFY; NULL: unset */
	const struct identity *who;
	const struct spawn_state *state;
};

enum spawn_stage {
	SPAWN_STARTED,
	SPAWN_CGROUP, /* could not be put into the cgroup */
	SPAWN_USER,   /* could not become the user */
	SPAWN_EXEC,   /* exec failed: the command's fault, not ours */
};

struct spawn {
	pid_t pid;
	int pidfd;
	enum spawn_stage failed; /* on failure: where */
};

/* Take down the state of now, block `signals`, let SIGCHLD through, and raise
 * the number of files we may open. */
int spawn_prepare(struct spawn_state *ret, const sigset_t *signals);

/* Returns when exec is done. -errno with ret->failed set, and nothing running, if
 * it was not. */
int spawn_start(const struct spawn_in *in, struct spawn *ret);

/* Exit code of an exec that failed with err: 127 not found, 126 otherwise. */
int spawn_exec_code(int err);

#endif
