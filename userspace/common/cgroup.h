/* SPDX-License-Identifier: MIT */
/*
 * Cgroups as directories and numbers. The only module that includes libcgroup
 * (to find controllers); version 2 directories are made, entered and removed by
 * system call, and every result is read back, since libcgroup 2.0 says success
 * and does nothing on a v2 mount without controllers.
 *
 * A cgpath is relative to the v2 mount, begins with '/', and is "/" for the
 * root. A cgid is the inode number of its directory, which is what eBPF calls the
 * cgroup's id. Functions return 0 or a negative errno and are silent.
 */
#ifndef PINCAP_CGROUP_H
#define PINCAP_CGROUP_H

#include <stdint.h>
#include <sys/types.h>

#include "util.h"

/* Where cgroup v2 is mounted, from /proc/self/mountinfo ("/sys/fs/cgroup",
 * "/sys/fs/cgroup/unified", ...). NULL and errno where it is not. Cached. */
const char *cgroup_mount(void);

/* Accepts a cgpath, an absolute path below the mount, or either without its
 * leading or with trailing slashes. *ret is malloc'd. -EINVAL for "..". */
int cgroup_path_parse(const char *text, char **ret_cgpath);

/* Absolute path of the directory, malloc'd; NULL when out of memory. */
char *cgroup_dir(const char *cgpath);

/* cgpath of a process (0: of the caller), from /proc/PID/cgroup. */
int cgroup_of_pid(pid_t pid, char **ret_cgpath);

int cgroup_id(const char *cgpath, uint64_t *ret_cgid);

/* Ids from the cgroup up to the root. -E2BIG: more than `max` levels. */
int cgroup_chain(const char *cgpath, uint64_t *ret_chain, unsigned int max,
		 unsigned int *ret_depth);

/* cgpath of an id, by open_by_handle_at; -ESTALE or -ENOENT when it is gone, -EXDEV
 * where it is above what is mounted here. */
int cgroup_path_of_id(uint64_t cgid, char **ret_cgpath);

/* Make the directory and its missing parents. 1: it was made, 0: it was there. */
int cgroup_create(const char *cgpath);

/* Opens the directory for clone3(CLONE_INTO_CGROUP). Returns the fd. */
int cgroup_open(const char *cgpath);

/* Moves a process, reads its place back. */
int cgroup_attach(const char *cgpath, pid_t pid);

/* Removes an empty directory; -EBUSY while anything lives in it. Never moves
 * anybody. */
int cgroup_remove(const char *cgpath);

/* The tightest memory limit (v1 or v2, wherever the memory controller is) from the
 * caller's cgroup up; UINT64_MAX where there is none. */
int cgroup_memory_limit(uint64_t *ret_bytes);

/* The same from a cgroup up. Where the controller is in v1, its hierarchy has the same
 * paths (systemd's does); of those that it lacks, the nearest above counts. */
int cgroup_memory_limit_at(const char *cgpath, uint64_t *ret_bytes);

/*
 * Prints the rules of /etc/cgrules.conf and /etc/cgrules.d as libcgroup read them
 * now, for cgrules_parse. -ENOENT: there is no such file; -EBADMSG: libcgroup
 * cannot make sense of it. One thread only, says libcgroup.
 */
int cgroup_print_rules(FILE *to);

#endif
