/* SPDX-License-Identifier: MIT */
/*
 * A command's end of the control socket. Silent; each call is one connection, and takes
 * five seconds at most.
 *
 * All return 0 or a negative errno: what the daemon says (control_wire.h), or -ENOENT
 * and -ECONNREFUSED: no daemon listens; -EBUSY: it has too many callers; -ETIMEDOUT;
 * -EPROTO: it speaks another version. -EACCES: the socket is not for us.
 */
#ifndef PINCAP_CONTROL_CLIENT_H
#define PINCAP_CONTROL_CLIENT_H

#include "userspace/control/control_wire.h"
#include "userspace/control/kernel.h"

/* Sends a request. The reply is all 0 where none came. */
int control_ask(const struct control_request *req, struct control_reply *ret);

/* What the caller may read, by each row's path. */
typedef int (*control_row_fn)(uint64_t cgid, const char *cgpath, const struct pincap_cgroup *cg,
			      void *ctx);
int control_each_cgroup(control_row_fn fn, void *ctx);

/* One cgroup. -ENODATA: nothing is counted there; -EPERM: not the caller's to read. */
int control_get_cgroup(uint64_t cgid, struct pincap_cgroup *ret);

/* No daemon to ask, as one of the errors above. */
bool control_is_absent(int err);

#endif
