/* SPDX-License-Identifier: MIT */
/*
 * The cgroups of a user or a group, as patterns. Asks the system's list of users,
 * and libcgroup for where cgrules.conf sends them.
 *
 * A user's cgroups are /user.slice/user-UID.slice (systemd), and where the first
 * line of cgrules.conf that fits sends him, if that line names him or its
 * destination has %u or %U: a place that he shares with others is not his.
 * Lines for one program are his as well, if they come before it.
 *
 * A group's cgroups are where the lines for the group ("@name") send it, whoever
 * shares them, and the cgroups of each member, as above. Members are those the
 * group lists and those whose first group it is, as far as the system lists them.
 *
 * Each pattern is exactly that cgroup: what is below shares its budget.
 */
#ifndef PINCAP_OWNER_H
#define PINCAP_OWNER_H

#include "userspace/common/cgrules.h"

/* A growing list of malloc'd texts. */
struct owner_patterns {
	char **list;
	size_t count;
};

/* By name or number. -ENOENT: there is none of this name. A number need not exist. */
int owner_user_parse(const char *text, uid_t *ret);
int owner_group_parse(const char *text, gid_t *ret);

int owner_user_patterns(const struct cgrules *rules, uid_t uid, struct owner_patterns *ret);
int owner_group_patterns(const struct cgrules *rules, gid_t gid, struct owner_patterns *ret);

void owner_patterns_done(struct owner_patterns *p);

#endif
