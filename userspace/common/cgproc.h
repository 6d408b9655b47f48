/* SPDX-License-Identifier: MIT */
/*
 * What /proc says of cgroups: where hierarchies are mounted, and where in them a
 * process is. Reads files that the caller opened and undoes their escapes;
 * never looks into a hierarchy itself.
 */
#ifndef PINCAP_CGPROC_H
#define PINCAP_CGPROC_H

#include "userspace/common/util.h"

struct cgproc_mount {
	char *dir;  /* where it is mounted */
	char *root; /* which directory of the hierarchy is seen there; "/" for all of it */
};

/*
 * From a mountinfo: the mount of v2 (controller NULL) or of a v1 controller; one
 * that shows the whole hierarchy is preferred. -ENOENT where there is none.
 */
int cgproc_find_mount(FILE *mountinfo, const char *controller, struct cgproc_mount *ret);

/* The mount at `dir`, whatever its type; of several the last, which hides the rest. */
int cgproc_find_dir(FILE *mountinfo, const char *dir, struct cgproc_mount *ret);

void cgproc_mount_done(struct cgproc_mount *m);

/* Undoes \ooo in place: a mount below "a b" is written "a\040b". */
void cgproc_unescape(char *text);

/* From a /proc/PID/cgroup: the path in v2 (controller NULL) or of a v1
 * controller, malloc'd. -ENOENT: not listed. */
int cgproc_find_path(FILE *f, const char *controller, char **ret);

/* What follows `prefix` in `path`: "" or "/..."; NULL where it is not at or
 * below it. */
const char *cgproc_below(const char *path, const char *prefix);

/* A path of cgproc_find_path, as seen below a mount. -EXDEV: outside of it, or of
 * this cgroup namespace ("/../..."). */
int cgproc_path_in_mount(const char *path, const struct cgproc_mount *m, const char **ret);

#endif
