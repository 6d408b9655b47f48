/* SPDX-License-Identifier: MIT */
/*
 * The kernel's own figures: VmLck and VmPin of every process in a cgroup and below,
 * each read by a live thread, because a leader that ended first shows none. An
 * address space that several processes share counts once.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/kernel/harness.h"

struct list {
	struct proc_mm *all;
	size_t n, max;
};

/* False when the thread has no address space any more. */
static bool read_status(const char *path, struct proc_mm *p)
{
	FILE *f = fopen(path, "re");
	bool found = false;
	int64_t kib;
	char line[256];

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "VmLck: %" SCNd64, &kib) == 1) {
			p->locked = kib * 1024;
			found = true;
		} else if (sscanf(line, "VmPin: %" SCNd64, &kib) == 1) {
			p->pinned = kib * 1024;
		}
	}
	if (f)
		fclose(f);
	return found;
}

static void add_process(struct list *l, int pid, uint64_t cgid)
{
	struct proc_mm p = { .pid = pid, .cgid = cgid };
	char path[64 + 256];
	struct dirent *e;
	bool found = false;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && !found && (e = readdir(dir))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/status", pid, e->d_name);
		p.tid = atoi(e->d_name);
		found = p.tid && read_status(path, &p);
	}
	if (dir)
		closedir(dir);
	if (found && l->n < l->max)
		l->all[l->n++] = p;
}

static void add_dir(struct list *l, const char *dir, uint64_t cgid)
{
	char path[1024];
	struct dirent *e;
	FILE *f;
	int pid;
	DIR *d;

	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	f = fopen(path, "re");
	while (f && fscanf(f, "%d", &pid) == 1)
		add_process(l, pid, cgid);
	if (f)
		fclose(f);
	d = opendir(dir);
	while (d && (e = readdir(d))) {
		if (e->d_type != DT_DIR || *e->d_name == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		add_dir(l, path, e->d_ino);
	}
	if (d)
		closedir(d);
}

/* Threaded cgroups list no processes: their domain does. */
size_t procs_below(const struct cg *cg, struct proc_mm *all, size_t max)
{
	struct list l = { .all = all, .max = max };

	add_dir(&l, cg->dir, cg->id);
	return l.n;
}

bool is_same_mm(const struct proc_mm *a, const struct proc_mm *b)
{
	return a->locked == b->locked && a->pinned == b->pinned &&
	       !syscall(SYS_kcmp, a->tid, b->tid, KCMP_VM, 0, 0);
}

struct usage usage_by_proc(const struct cg *cg)
{
	struct proc_mm all[256];
	size_t n = procs_below(cg, all, 256);
	struct usage u = { 0 };

	for (size_t i = 0; i < n; i++) {
		bool again = false;

		for (size_t j = 0; j < i && !again; j++)
			again = is_same_mm(&all[j], &all[i]);
		if (again)
			continue;
		u.locked += all[i].locked;
		u.pinned += all[i].pinned;
	}
	u.current = u.locked + u.pinned;
	return u;
}
