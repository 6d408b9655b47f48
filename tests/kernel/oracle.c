/* SPDX-License-Identifier: MIT */
/*
 * The kernel's own figures: VmLck and VmPin of every process in a cgroup and below,
 * each read by a live thread, because a leader that ended first shows none. Takes
 * for granted that no two processes share an address space.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/kernel/harness.h"

/* False when the thread has no address space any more. */
static bool add_status(const char *path, struct usage *u)
{
	FILE *f = fopen(path, "re");
	int64_t kib;
	char line[256];
	bool found = false;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "VmLck: %" SCNd64, &kib) == 1) {
			u->locked += kib * 1024;
			found = true;
		} else if (sscanf(line, "VmPin: %" SCNd64, &kib) == 1) {
			u->pinned += kib * 1024;
		}
	}
	if (f)
		fclose(f);
	return found;
}

static void add_process(int pid, struct usage *u)
{
	char path[64 + 256];
	struct dirent *e;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && !found && (e = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/status", pid, e->d_name);
		found = *e->d_name != '.' && add_status(path, u);
	}
	if (dir)
		closedir(dir);
}

static void add_dir(const char *dir, struct usage *u)
{
	char path[1024];
	struct dirent *e;
	FILE *f;
	int pid;
	DIR *d;

	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	f = fopen(path, "re");
	while (f && fscanf(f, "%d", &pid) == 1)
		add_process(pid, u);
	if (f)
		fclose(f);
	d = opendir(dir);
	while (d && (e = readdir(d))) {
		if (e->d_type != DT_DIR || *e->d_name == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		add_dir(path, u);
	}
	if (d)
		closedir(d);
}

struct usage usage_by_proc(const struct cg *cg)
{
	struct usage u = { 0 };

	add_dir(cg->dir, &u);
	u.current = u.locked + u.pinned;
	return u;
}
