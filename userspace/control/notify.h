/* SPDX-License-Identifier: MIT */
/*
 * The controller's end of the notification protocol (wire.h): who of the
 * workload listens, what it was told, what it acknowledged and what it withheld.
 * Decides nothing, and believes nothing that a record says of its sender: the
 * kernel is asked for the peer's process, and that for its cgroup.
 *
 * Nobody is ever waited for. A peer that does not read gets the newest signal
 * once it does; one that is gone stays in the totals.
 */
#ifndef PINCAP_NOTIFY_H
#define PINCAP_NOTIFY_H

#include <stdint.h>
#include <systemd/sd-event.h>

#include "userspace/common/util.h"

#define NOTIFY_MAX_PEERS 4096 /* connected at a time; more are turned away */
#define NOTIFY_MAX_GONE	 1024 /* remembered one by one, in case they connect again */

struct notify;

struct notify_stats {
	uint64_t epoch;		  /* of the last signal; 0: none yet */
	unsigned int peers;	  /* connected, and have said hello */
	unsigned int acked;	  /* of these, told the current epoch and acknowledged it */
	unsigned int told;	  /* processes that ever got STOP, gone ones included ... */
	unsigned int obeyed;	  /* ... and acknowledged the last STOP that they got; the others
				   * have made no call since */
	unsigned int turned_away; /* connections refused: not of this cgroup, or too many */
	unsigned int stops;
	unsigned int resumes;
	uint64_t withheld_count; /* over all processes, gone ones included */
	uint64_t withheld_bytes;
};

/*
 * Listens on a socket at `path`, made with mode 0666: anybody may speak who is
 * at or below `cgpath`. Peers are served from `event`. -EADDRINUSE: the path is
 * there; -ENAMETOOLONG.
 */
int notify_new(struct notify **ret, sd_event *event, const char *path, const char *cgpath);

/* Closes everything and removes the socket. Accepts NULL, returns it. */
struct notify *notify_free(struct notify *n);
void notify_freep(struct notify **n);

/* Tell everybody, and from STOP on everybody who connects. `over_bytes`: how far
 * current is above the limit. */
void notify_stop(struct notify *n, uint64_t over_bytes);
void notify_resume(struct notify *n);

void notify_get_stats(const struct notify *n, struct notify_stats *ret);

/* ---- one socket, many budgets ---- */

struct notify_scope;

/*
 * A cgroup with everything below it, as somebody to be told. A peer is stopped
 * while any scope at or above its cgroup is. -EEXIST: there is one; -EINVAL: not
 * a cgpath. Costs nothing while nobody is told anything.
 */
int notify_scope_new(struct notify_scope **ret, struct notify *n, const char *cgpath);

/* Its peers hear RESUME if nobody else stops them; its totals go to the scope
 * above. Accepts NULL, returns it. notify_free() frees what is left. */
struct notify_scope *notify_scope_free(struct notify_scope *s);

enum notify_reach {
	NOTIFY_ALL,
	NOTIFY_UNPROTECTED, /* all but those at or below a protected scope */
};

/* Peers that are stopped already hear nothing. `over_bytes`: how far current is
 * above the limit. */
void notify_scope_stop(struct notify_scope *s, enum notify_reach reach, uint64_t over_bytes);
void notify_scope_resume(struct notify_scope *s);

/* From STOPs that reach NOTIFY_UNPROTECTED only: the host's reserve. */
void notify_scope_protect(struct notify_scope *s, bool is_protected);

/* Of this scope and those below it. */
void notify_scope_get_stats(const struct notify_scope *s, struct notify_stats *ret);

/* Look where the next `max` peers are now; a process may be moved any time. */
void notify_refresh(struct notify *n, unsigned int max);

/* The same for one process that is known to have moved. */
void notify_moved(struct notify *n, pid_t pid);

/* ---- asking memory back ---- */

struct notify_peer {
	pid_t pid;
	const char *cgpath;
	bool stopped;
	uint64_t release_epoch;	    /* of the last RELEASE; 0: never asked, or withdrawn */
	uint64_t release_bytes;	    /* asked for */
	uint64_t release_had_bytes; /* what it held then */
	bool release_heard;	    /* acknowledged; else it is deaf, or makes no calls */
	uint64_t given_count;	    /* what it says it gave back */
	uint64_t given_bytes;
};

/* Calls fn once for each connected process of the scope and those below, until it
 * returns non-zero, and returns that. fn must not free anything here. */
typedef int (*notify_peer_fn)(const struct notify_peer *p, void *ctx);
int notify_each_peer(struct notify_scope *s, notify_peer_fn fn, void *ctx);

/* Ask a process for `bytes` of the `had_bytes` that it holds, instead of what it
 * was asked for before. -ESRCH: it is not connected. */
int notify_release(struct notify *n, pid_t pid, uint64_t bytes, uint64_t had_bytes);

/* Nothing is wanted any more of whom something still is in this scope and below. */
void notify_scope_withdraw(struct notify_scope *s);

#endif
