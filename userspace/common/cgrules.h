/* SPDX-License-Identifier: MIT */
/*
 * Where /etc/cgrules.conf sends a user's or a group's processes, from libcgroup's
 * print-out of the rules that it has read (cgroup_print_rules): it offers them in
 * no other form. Pure: knows a FILE, no users, no cgroups.
 */
#ifndef PINCAP_CGRULES_H
#define PINCAP_CGRULES_H

#include <stdio.h>
#include <sys/types.h>

#include "userspace/common/util.h"

#define CGRULES_NOBODY ((uid_t)-1) /* uid, gid: the line does not name one */

struct cgrules_line {
	char *dest;	/* as in the file: "students/%u" */
	uid_t uid;	/* of a line for a user */
	gid_t gid;	/* of a line for a group */
	bool continues; /* '%': applies if and only if the line before it does */
	bool everybody; /* of a line for '*' */
	bool process;	/* for one program's processes only */
	bool ignore;	/* such processes are left where they are */
};

struct cgrules {
	struct cgrules_line *lines; /* in the order of the file; the first that fits applies */
	size_t count;
};

/* -EBADMSG: not what cgroup_print_rules_config prints. */
int cgrules_parse(FILE *f, struct cgrules *ret);
void cgrules_done(struct cgrules *rules);

/* Who somebody is, to fill in a destination. */
struct cgrules_names {
	const char *user, *uid, *group, *gid;
};

/*
 * The cgroup path of a destination as a pattern for glob_compile, malloc'd: begins
 * with '/', %u %U %g %G replaced by the names or, where one is NULL, by '*', as %p
 * and %P always are. NULL when out of memory.
 */
char *cgrules_pattern(const char *dest, const struct cgrules_names *names);

/* Whether the destination is a place of each user's own. */
bool cgrules_is_per_user(const char *dest);

#endif
