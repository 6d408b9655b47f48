/* SPDX-License-Identifier: MIT */
/*
 * Patterns on cgroup paths. Pure: knows no cgroups, only strings.
 *
 *   *      any bytes of one component, none included
 *   ?      one byte of a component
 *   [a-c]  one byte of a set; [!a-c] or [^a-c] one that is not in it
 *   **     as a whole component: any number of components, none included; at the
 *          end at least one, so that ** after "a/" is all that is below a, and not a
 *
 * Every other byte is itself, a backslash too: systemd escapes names with it
 * ("\x2d"), and a path can be pasted as it is. A literal *, ? or [ is written as a
 * set: "[*]". Nothing but ** matches a slash.
 */
#ifndef PINCAP_GLOB_H
#define PINCAP_GLOB_H

#include <stdbool.h>

struct glob;

/* -EINVAL: *ret_why says what is wrong, as a clause ("must begin with '/'").
 * -ENOMEM: *ret_why is untouched. */
int glob_compile(const char *text, struct glob **ret, const char **ret_why);
struct glob *glob_free(struct glob *g);

/* `cgpath` begins with '/', has no empty components, and is "/" for the root. */
bool glob_matches(const struct glob *g, const char *cgpath);

/* As it was compiled. */
const char *glob_text(const struct glob *g);

/* The pattern that matches `name` alone, malloc'd; NULL when out of memory. */
char *glob_escape(const char *name);

#endif
