/* SPDX-License-Identifier: MIT */
/*
 * The notification protocol between the controller and the library in the
 * workload: one fixed structure per SOCK_SEQPACKET record, no strings, no
 * framing, native byte order (both ends are on one host).
 *
 * It carries advice. The kernel's admission is what binds; a library that never
 * connects is held by it alone. The controller asks the kernel who a peer is
 * (SO_PEERCRED and the peer's cgroup) and believes nothing a record says of it.
 */
#ifndef PINCAP_WIRE_H
#define PINCAP_WIRE_H

#include <linux/types.h>

#define PINCAP_WIRE_VERSION 1

/* Path of the controller's socket, handed down in the environment; empty: none. */
#define PINCAP_ENV_NOTIFY "PINCAP_NOTIFY"

/* Where it is not set: the daemon's, if the peer is root. */
#define PINCAP_NOTIFY_DEFAULT "/run/pincap/notify.sock"

enum wire_kind {
	WIRE_HELLO = 1,	   /* library -> controller, first record of a connection. No answer
			    * unless the budget is full already: then STOP. */
	WIRE_STOP = 2,	   /* controller -> library: register nothing more, keep new memory
			    * pageable, do not ask. `bytes`: how far current is above or at
			    * the limit. Answer: ACK with the same epoch. */
	WIRE_RESUME = 3,   /* controller -> library: ask again. Answer: ACK. */
	WIRE_ACK = 4,	   /* library -> controller: obeyed `epoch`. `count`, `bytes`:
			    * withheld so far, as in WITHHELD. */
	WIRE_WITHHELD = 5, /* library -> controller: `count` requests of `bytes` in total were
			    * answered with a refusal, without asking, since the process
			    * began. Absolute, so that a lost record is made good by the
			    * next. `epoch`: the STOP in force. No answer. */
	WIRE_RELEASE = 6,  /* controller -> library: give back `bytes` of what is pinned. The
			    * newest one counts: it replaces what was asked before, and 0
			    * withdraws it. Answer: ACK with the same epoch at once, which says
			    * "heard" and no more; then GIVEN as memory is given back, if any.
			    * Not answered by a library older than this kind. */
	WIRE_GIVEN = 7,	   /* library -> controller: for RELEASE `epoch`, `bytes` were given back
			    * in `count` goes so far. Absolute. A claim: the kernel's count
			    * tells whether it is so. No answer. */
};

struct wire_msg {
	__u32 version; /* PINCAP_WIRE_VERSION; a record of any other is ignored */
	__u32 kind;    /* enum wire_kind; unknown kinds are ignored */
	__u64 epoch;   /* from 1; rises with every signal (STOP, RESUME, RELEASE) that one
			* controller sends to one library, in the order in which they
			* arrive, so that an ACK holds for all before it */
	__u64 count;
	__u64 bytes;
};

#ifdef __cplusplus
static_assert(sizeof(struct wire_msg) == 32, "wire format");
#else
_Static_assert(sizeof(struct wire_msg) == 32, "wire format");
#endif

#endif
