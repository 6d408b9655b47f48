/* SPDX-License-Identifier: MIT */
/*
 * The processes that ever spoke to the controller, as records: told what,
 * acknowledged what, withheld how much. Absolute figures of one process image
 * are merged by their maximum, so that neither a lost record nor a second
 * connection counts anything twice. Knows no sockets and no cgroups.
 */
#ifndef PINCAP_PEER_H
#define PINCAP_PEER_H

#include <sys/types.h>
#include <systemd/sd-event.h>

#include "userspace/common/util.h"
#include "userspace/common/wire.h"

/* One program image: pids are used again, and counters begin anew with exec. */
struct peer_id {
	pid_t pid;
	uint64_t start_ticks; /* /proc/PID/stat field 22 */
	uint64_t start_stack; /* field 28; random for each exec */
};

struct peer {
	struct peer *next;
	struct notify *owner;
	sd_event_source *source; /* NULL: gone */
	struct peer_id id;
	int fd; /* -1: gone */
	bool greeted;
	uint64_t sent_epoch;  /* last signal that the kernel took; 0: none */
	uint64_t stop_epoch;  /* last STOP of these */
	uint64_t acked_epoch; /* last one acknowledged */
	uint64_t withheld_count;
	uint64_t withheld_bytes;
};

/* What is left of records that were dropped. */
struct peer_totals {
	unsigned int told;
	unsigned int obeyed;
	uint64_t withheld_count;
	uint64_t withheld_bytes;
};

/* -ESRCH where the process is gone. */
int peer_id_read(pid_t pid, struct peer_id *ret);

bool peer_id_equal(const struct peer_id *a, const struct peer_id *b);

/* Takes over figures from an ACK or WITHHELD. */
void peer_report(struct peer *p, const struct wire_msg *msg);

/* Adds a record to totals; saturates, since a peer may claim anything. */
void peer_totals_add(struct peer_totals *t, const struct peer *p);

#endif
