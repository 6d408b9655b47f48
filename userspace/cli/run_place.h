/* SPDX-License-Identifier: MIT */
/*
 * Where a run happens: its cgroup and the path of its notify socket, what dead
 * runs left of both, and how to leave. Knows no budgets and starts nothing;
 * silent.
 */
#ifndef PINCAP_RUN_PLACE_H
#define PINCAP_RUN_PLACE_H

#include "bpf/intf.h"
#include "userspace/common/util.h"

#ifndef PINCAP_RUNDIR
#define PINCAP_RUNDIR "/run/pincap"
#endif

struct place {
	char *cgpath;
	bool made;			  /* by us, so that we remove it */
	uint64_t chain[PINCAP_MAX_DEPTH]; /* ids, from the cgroup up to the root */
	unsigned int depth;
	size_t kept; /* of cgpath, this many characters were there before */
};

/*
 * The cgroup `cgroup`, made where it is missing, or for NULL a fresh one below
 * our own, "pincap-PID". Empty ones of dead runs are removed on the way.
 * -EXDEV: our own cgroup lies outside of this cgroup namespace; -EISDIR: the
 * root, which is everybody's; -E2BIG: deeper than PINCAP_MAX_DEPTH.
 */
int place_open(struct place *ret, const char *cgroup);

/* A fresh one below the cgroup of process `pid`, "pincap-PID"; errors likewise. */
int place_open_for(struct place *ret, pid_t pid);

/* Whether a cgroup has the name of a fresh one of that process. */
bool place_is_of(const char *cgpath, pid_t pid);

/* Remove a fresh one, if it is that of a dead process and nobody is in it; its
 * like beside it go, too. */
void place_remove_stale(const char *cgpath);

/* Whether any process is in it or below. */
bool place_is_populated(const struct place *p);

/* Remove it if we made it. true: it is gone. Never moves or ends anybody. */
bool place_leave(const struct place *p);

void place_done(struct place *p);

/* cgpath of an ancestor: 0 is the cgroup itself. malloc'd. */
char *place_ancestor(const struct place *p, unsigned int level);

/* Path for our socket in PINCAP_RUNDIR, which is made; those of dead runs are
 * removed. malloc'd. */
int place_socket(char **ret_path);

#endif
