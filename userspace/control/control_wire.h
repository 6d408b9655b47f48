/* SPDX-License-Identifier: MIT */
/*
 * The control protocol between the commands and pincapd: a connection carries one
 * request and one reply, each one SOCK_SEQPACKET record, native byte order. Cgroups are
 * named by their ids, which mean the same in every cgroup namespace. The daemon asks the
 * kernel who a caller is and believes nothing that a request says of it.
 */
#ifndef PINCAP_CONTROL_WIRE_H
#define PINCAP_CONTROL_WIRE_H

#include "bpf/intf.h"

#define CONTROL_VERSION 1

#define CONTROL_DEFAULT "/run/pincap/control.sock"
#define CONTROL_ENV	"PINCAP_CONTROL" /* another path */

#define CONTROL_TEXT 5120 /* bytes of a reason, NUL included: a configuration's fits */

enum control_kind {
	CONTROL_STATUS = 1, /* how the daemon is; for everybody */
	CONTROL_STAT = 2,   /* counters of a cgroup, or (id 0) of all that the caller may read:
			     * a descriptor of a file of struct control_row */
	CONTROL_SET = 3,    /* a budget: what `budget.mask` names */
	CONTROL_RELOAD = 4, /* read the configuration again; for root */
};

struct control_request {
	__u32 version; /* CONTROL_VERSION */
	__u32 kind;    /* enum control_kind */
	__u64 cgroup_id;
	struct pincap_set_budget budget; /* SET; its own cgroup_id is not read */
};

struct control_status {
	__u64 budgets; /* cgroups that have one ... */
	__u64 stopped; /* ... of these, told to register no more ... */
	__u64 over;    /* ... above their limit */
	__u64 deaf;    /* libraries that did not answer a release request */
	__u64 libraries;
	__u64 reserve_bytes; /* 0: none */
	__s64 above_bytes;   /* MemAvailable - reserve, at the last tick */
	__u64 transitions;   /* times that the host fell below its reserve or rose again */
	__u64 reloads;
	__u32 host_short; /* 1: it is below its reserve */
	__u32 dry_run;
	char notify_socket[108]; /* where libraries reach the daemon */
	__u32 zero;
};

struct control_reply {
	__u32 version;
	__s32 err;   /* 0 or a negative errno:
		      * -EPERM  not the caller's to do;  -ERANGE  above a limit further up
		      * -EINVAL nonsense;                -ESTALE  there is no such cgroup
		      * -ENODATA nothing is counted there; -EBADMSG a fault in the configuration */
	__u64 bound; /* with -ERANGE: that limit */
	struct control_status status;
	char text[CONTROL_TEXT]; /* of an error: why, one line; of STATUS: the last reload's, for
				  * those who may read everything */
};

/* Followed by `path_len` bytes of the path, without NUL. */
struct control_row {
	__u64 cgroup_id;
	__u32 path_len;
	__u32 zero;
	struct pincap_cgroup cg;
};

#endif
