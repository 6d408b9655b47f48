/* SPDX-License-Identifier: MIT */
/*
 * What commands do through pincapd, for those who may not open the kernel side
 * themselves. Each explains its failure on stderr.
 */
#ifndef PINCAP_CLI_REMOTE_H
#define PINCAP_CLI_REMOTE_H

#include "userspace/control/control_client.h"

/* Why the daemon could not be asked for `what`, or refused it. Returns err. */
int remote_explain(int err, const struct control_reply *reply, const char *what);

/* How the daemon is. */
int remote_status(struct control_status *ret);

/* Set a budget. -ERANGE is not explained: *ret_bound is the limit above. */
int remote_set(uint64_t cgid, const struct pincap_set_budget *b, uint64_t *ret_bound);

#endif
