/* SPDX-License-Identifier: MIT */
/* Another configuration while the daemon runs: all of it, or the last one stays. */
#ifndef PINCAP_RELOAD_H
#define PINCAP_RELOAD_H

#include "userspace/daemon/daemon.h"

/* Reads what the options name. The default file need not be there. */
int reload_read(const struct daemon_options *options, struct config **ret,
		struct config_error *error);

/* What does not depend on rules: log level, group, devices, reserve. */
int reload_settings(struct daemon *d, const struct config *old);

/* Negative errno: the reason is logged and in d->last_error. */
int reload(struct daemon *d);

#endif
