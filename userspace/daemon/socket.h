/* SPDX-License-Identifier: MIT */
/* Where the libraries reach the daemon. */
#ifndef PINCAP_SOCKET_H
#define PINCAP_SOCKET_H

#include "userspace/daemon/daemon.h"

/* Listens at config.notify_socket. What a daemon that was killed left there goes;
 * anything else is an error. */
int socket_listen(struct daemon *d);

/* Remove a socket at which nobody listens. True: it is gone. */
bool socket_clear(const char *path);

#endif
