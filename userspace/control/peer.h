/* SPDX-License-Identifier: MIT */
/*
 * One connection of the workload's library: who it is by the kernel's word, what
 * it is to be told, was told, acknowledged, withheld and gave back. Absolute
 * figures of one process image are merged by their maximum, so that neither a
 * lost record nor a second connection counts anything twice. Knows nothing of
 * other peers, and decides nothing.
 */
#ifndef PINCAP_PEER_H
#define PINCAP_PEER_H

#include <sys/types.h>
#include <systemd/sd-event.h>

#include "userspace/common/list.h"
#include "userspace/common/util.h"
#include "userspace/common/wire.h"

/* One program image: pids are used again, and counters begin anew with exec. */
struct peer_id {
	pid_t pid;
	uint64_t start_ticks; /* /proc/PID/stat field 22 */
	uint64_t start_stack; /* field 28; random for each exec */
};

struct peer {
	struct list in_all;   /* of those connected, or of those gone */
	struct list in_scope; /* the same, by scope */
	struct list in_pids;  /* the same, by pid */
	struct notify *owner;
	struct notify_scope *scope; /* the nearest at or above cgpath */
	sd_event_source *source;    /* NULL: gone */
	struct peer_id id;
	uid_t uid;
	char *cgpath;
	int fd; /* -1: gone */
	bool greeted;

	bool want_stop; /* what it is to be told ... */
	uint64_t want_epoch;
	uint64_t want_bytes;
	bool told_stop;	      /* ... and what the kernel took last on this connection */
	uint64_t told_epoch;  /* of it; 0: nothing yet */
	uint64_t stop_epoch;  /* last STOP that was taken */
	uint64_t acked_epoch; /* last one acknowledged, of whatever kind */

	uint64_t release_epoch;	    /* last RELEASE, taken or not */
	uint64_t release_bytes;	    /* 0: withdrawn */
	uint64_t release_had_bytes; /* what it held then */
	uint64_t release_sent;	    /* last one taken, withdrawals included */
	uint64_t asked_epoch;	    /* last one taken that asked for something */
	uint64_t given_count;	    /* for asked_epoch, as it says */
	uint64_t given_bytes;
	uint64_t given_before_bytes; /* for those before */

	uint64_t withheld_count;
	uint64_t withheld_bytes;
};

/* Sums over records, and what is left of those that were dropped. */
struct peer_totals {
	unsigned int told;
	unsigned int obeyed;
	unsigned int asked;
	unsigned int heard;
	uint64_t given_bytes;
	uint64_t withheld_count;
	uint64_t withheld_bytes;
};

/* Who is at the other end of a socket. -ESRCH: gone; -EPERM: outside of our pid
 * namespace. */
int peer_identify(int fd, struct peer_id *ret_id, uid_t *ret_uid, char **ret_cgpath);

/* -ESRCH where the process is gone. */
int peer_id_read(pid_t pid, struct peer_id *ret);

bool peer_id_equal(const struct peer_id *a, const struct peer_id *b);

/* Reads again where the process is. true: elsewhere. */
bool peer_has_moved(struct peer *p);

/* Nothing of it is known to be worth remembering. */
bool peer_is_blank(const struct peer *p);

/* The figures of a process that was here before go on. */
void peer_recall(struct peer *p, const struct peer *old);

/* From an ACK, WITHHELD or GIVEN. */
void peer_report(struct peer *p, const struct wire_msg *msg);

/* What it is to be told from now on; sent by peer_flush. */
void peer_want(struct peer *p, bool stop, uint64_t bytes, uint64_t epoch);
void peer_ask(struct peer *p, uint64_t bytes, uint64_t had_bytes, uint64_t epoch);

/* It is asked for something, and has not said that it gave all of it. */
bool peer_owes(const struct peer *p);

/*
 * Sends what is due; what does not fit now goes when it reads. A peer that is
 * gone is found so by reading: what it wrote before still waits there.
 */
void peer_flush(struct peer *p);

/* Adds a record to totals; saturates, since a peer may claim anything. */
void peer_totals_add(struct peer_totals *t, const struct peer *p);
void peer_totals_merge(struct peer_totals *t, const struct peer_totals *other);

/* Closes the connection; the record stays. */
void peer_hang_up(struct peer *p);

/* Takes it off its lists and frees it. */
void peer_free(struct peer *p);

#endif
