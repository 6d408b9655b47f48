/* SPDX-License-Identifier: MIT */
/* The daemon as the control socket's host. */
#ifndef PINCAP_REMOTE_H
#define PINCAP_REMOTE_H

#include "userspace/daemon/daemon.h"

/* Listens at `control_socket` of the configuration. */
int remote_listen(struct daemon *d);

/* Another configuration: whose members may read everything. */
void remote_configure(struct daemon *d);

#endif
