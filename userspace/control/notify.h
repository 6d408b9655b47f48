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

#endif
