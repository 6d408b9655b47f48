/* SPDX-License-Identifier: MIT */
/*
 * A cgroup of one's own from the user's systemd: a transient scope, delegated, which we
 * move into. For users whose session's cgroup belongs to root.
 */
#ifndef PINCAP_CLI_SCOPE_H
#define PINCAP_CLI_SCOPE_H

/* 0, and this process is in it; or a negative errno: no user manager answers. Silent. */
int scope_enter(void);

#endif
