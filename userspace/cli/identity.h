/* SPDX-License-Identifier: MIT */
/*
 * As whom a command runs: the user that sudo was called by, or one that was
 * named. Looks users up before the fork, so that between fork and exec there
 * are system calls only. Knows nothing of commands or budgets.
 */
#ifndef PINCAP_IDENTITY_H
#define PINCAP_IDENTITY_H

#include <sys/types.h>

#include "userspace/common/util.h"

struct identity {
	bool change; /* false: as we are; nothing below is set */
	uid_t uid;
	gid_t gid;
	gid_t *groups; /* supplementary, the primary one among them */
	int group_count;
	char *name;
	char *home; /* NULL: no entry in the user database; HOME stays */
	char *shell;
};

/* From SUDO_UID, SUDO_GID and SUDO_USER, if we are root. No change where they
 * are not set or name root. -EINVAL: they are no numbers. */
int identity_from_sudo(struct identity *ret);

/* Of a name or a number. -ENOENT: there is no such user. */
int identity_from_user(const char *user, struct identity *ret);

/* Become it: groups, gid, uid, HOME, USER, LOGNAME, SHELL. For the child. */
int identity_assume(const struct identity *who);

void identity_done(struct identity *who);

#endif
