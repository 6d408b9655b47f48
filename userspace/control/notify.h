/* SPDX-License-Identifier: MIT */
/*
 * The controller's end of the notification protocol (wire.h), one socket for any
 * number of budgets: who of the workloads listens, what it was told, what it
 * acknowledged, withheld and gave back. Decides nothing, and believes nothing
 * that a record says of its sender: the kernel is asked for the peer's process,
 * and that for its cgroup.
 *
 * Nobody is ever waited for. A peer that does not read gets what holds by then
 * once it does; one that is gone stays in the totals.
 */
#ifndef PINCAP_NOTIFY_H
#define PINCAP_NOTIFY_H

#include <stdint.h>
#include <systemd/sd-event.h>

#include "userspace/common/util.h"

#define NOTIFY_MAX_PEERS    4096 /* connected at a time; more are turned away */
#define NOTIFY_MAX_PER_USER 1024 /* of these, of one user who is not root */
#define NOTIFY_MAX_GONE	    1024 /* remembered one by one, in case they connect again */

struct notify;
struct notify_scope;

/*
 * Listens on a socket at `path`, made with mode 0666: anybody may speak who is
 * at or below `cgpath` ("/": anybody). Peers are served from `event`.
 * -EADDRINUSE: the path is there; -ENAMETOOLONG.
 */
int notify_new(struct notify **ret, sd_event *event, const char *path, const char *cgpath);

/* Closes everything, scopes included, and removes the socket. Accepts NULL,
 * returns it. */
struct notify *notify_free(struct notify *n);
void notify_freep(struct notify **n);

/* ---- STOP and RESUME ---- */

/*
 * A cgroup with everything below it, as somebody to be told. A peer is stopped
 * while any scope at or above its cgroup is. At rest it costs nothing. -EEXIST:
 * there is one; -EINVAL: not a cgpath.
 */
int notify_scope_new(struct notify_scope **ret, struct notify *n, const char *cgpath);

/* Its peers hear RESUME if nobody else stops them; its totals go to the scope
 * above. Accepts NULL, returns it. */
struct notify_scope *notify_scope_free(struct notify_scope *s);

enum notify_reach {
	NOTIFY_ALL,
	NOTIFY_UNPROTECTED, /* all but those at or below a protected scope */
};

/*
 * Peers that are stopped already hear nothing, nor does RESUME reach those whom
 * another scope stops. Where a peer is, is looked up again before it is told.
 * `over_bytes`: how far current is above the limit.
 */
void notify_scope_stop(struct notify_scope *s, enum notify_reach reach, uint64_t over_bytes);
void notify_scope_resume(struct notify_scope *s);

/* From STOPs that reach NOTIFY_UNPROTECTED only: the host's reserve. */
void notify_scope_protect(struct notify_scope *s, bool is_protected);

/* Look where the next `max` peers are now, in turn: a process may be moved any
 * time, and those that came into a stopped scope are found only so. To be called
 * now and then; a look costs some 20 us. */
void notify_refresh(struct notify *n, unsigned int max);

/* The same for one process that is known to have moved. */
void notify_moved(struct notify *n, pid_t pid);

/* ---- RELEASE ---- */

struct notify_peer {
	pid_t pid;
	const char *cgpath;
	bool stopped;
	/* The last RELEASE; all 0 when it was never asked, or it was withdrawn. */
	uint64_t release_epoch;
	uint64_t release_bytes;	    /* asked for */
	uint64_t release_had_bytes; /* what it held then */
	bool release_heard;	    /* acknowledged; if not, it is deaf or makes no calls */
	uint64_t given_count;	    /* what it says it gave back, in how many goes */
	uint64_t given_bytes;
};

/* Calls fn once for each connected process of the scope and those below, until it
 * returns non-zero, and returns that. fn must not call anything here that changes
 * something. */
typedef int (*notify_peer_fn)(const struct notify_peer *p, void *ctx);
int notify_each_peer(struct notify_scope *s, notify_peer_fn fn, void *ctx);

/* Ask a process for `bytes` of the `had_bytes` that it holds, instead of what it
 * was asked for before. -ESRCH: it is not connected. */
int notify_release(struct notify *n, pid_t pid, uint64_t bytes, uint64_t had_bytes);

/* Whoever in this scope and below was asked need give no more. */
void notify_scope_withdraw(struct notify_scope *s);

/* ---- figures ---- */

/* A process that has two connections at a time (two copies of the library) counts
 * as two. */

struct notify_stats {
	uint64_t epoch;		  /* the last one given out; 0: none yet */
	unsigned int peers;	  /* connected, and have said hello */
	unsigned int acked;	  /* of these, told anything and acknowledged the last of it */
	unsigned int told;	  /* processes that ever got STOP, gone ones included ... */
	unsigned int obeyed;	  /* ... and acknowledged the last STOP that they got; the others
				   * have made no call since */
	unsigned int asked;	  /* processes that ever got RELEASE ... */
	unsigned int heard;	  /* ... and acknowledged the last one that they got; the others
				   * are deaf, or have made no call since */
	unsigned int turned_away; /* of the socket: not of its cgroup, or too many */
	unsigned int stops;	  /* of scopes; those that are gone do not count */
	unsigned int resumes;
	uint64_t withheld_count; /* over all processes, gone ones included */
	uint64_t withheld_bytes;
	uint64_t given_bytes; /* as they say */
};

/* Of all; of a scope and those below. */
void notify_get_stats(struct notify *n, struct notify_stats *ret);
void notify_scope_get_stats(struct notify_scope *s, struct notify_stats *ret);

#endif
