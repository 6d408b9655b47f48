/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "userspace/common/cgroup.h"
#include "userspace/common/log.h"
#include "userspace/daemon/apply.h"
#include "userspace/daemon/discover.h"

/* Of a walk: so many directories between two heartbeats, far fewer than take
 * PINCAP_HEARTBEAT_NS. */
#define DIRS_PER_BEAT 256

struct walk {
	struct daemon *daemon;
	bool keep; /* what was set by hand */
	char cgpath[PATH_MAX];
	uint64_t ids[PINCAP_MAX_DEPTH]; /* from the root down */
	unsigned int depth;
	unsigned int seen;
	uint64_t highest;
};

static void visit(struct walk *w)
{
	uint64_t chain[PINCAP_MAX_DEPTH];
	const struct place p = { *w->cgpath ? w->cgpath : "/", chain, w->depth };

	for (unsigned int i = 0; i < w->depth; i++)
		chain[i] = w->ids[w->depth - 1 - i];
	w->highest = MAX(w->highest, chain[0]);
	apply_rule(w->daemon, &p, w->keep);
	if (++w->seen % DIRS_PER_BEAT)
		return;
	gate_beat(w->daemon->gate);
	gate_dispatch(w->daemon->gate); /* there is room for so many events only */
}

static void walk_dir(struct walk *w, int fd);

/* One that vanished meanwhile is no failure. */
static void enter(struct walk *w, int parent_fd, const char *name)
{
	int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	size_t len = strlen(w->cgpath);

	if (fd < 0)
		return;
	if (w->depth < PINCAP_MAX_DEPTH && len + strlen(name) + 2 < sizeof(w->cgpath)) {
		sprintf(w->cgpath + len, "/%s", name);
		walk_dir(w, fd);
		w->cgpath[len] = '\0';
	} else {
		close(fd);
	}
}

/* Takes the descriptor over. */
static void walk_dir(struct walk *w, int fd)
{
	DIR *dir = fdopendir(fd);
	const struct dirent *e;
	struct stat st;

	if (!dir || fstat(fd, &st)) {
		if (dir)
			closedir(dir);
		else
			close(fd);
		return;
	}
	w->ids[w->depth++] = st.st_ino;
	visit(w);
	while ((e = readdir(dir)))
		if (e->d_type == DT_DIR && e->d_name[0] != '.')
			enter(w, fd, e->d_name);
	w->depth--;
	closedir(dir);
}

/* What is made meanwhile has rung by the end, with ids up to any that the walk met. */
static int walk_tree(struct daemon *d, bool keep)
{
	struct walk w = { .daemon = d, .keep = keep };
	int fd = cgroup_open("/"), err;

	if (fd < 0)
		return fd;
	d->is_walking = true;
	walk_dir(&w, fd);
	d->heard = MAX(d->heard, w.highest);
	err = gate_dispatch(d->gate);
	d->is_walking = false;
	return err;
}

/* Whatever was lost before the last that was heard shows by now. */
static void advance(struct daemon *d)
{
	if (d->is_walking || d->must_walk || gate_lost(d->gate) != d->lost)
		return;
	gate_decided(d->gate, d->heard);
}

/* An entry whose budget is a rule's although no rule met it in this pass. */
static int lift_if_stale(uint64_t cgid, const struct pincap_cgroup *cg, void *ctx)
{
	struct daemon *d = ctx;
	struct budget *b = budgets_find(&d->budgets, cgid);

	if ((cg->flags & PINCAP_CGROUP_RULED) && !(cg->flags & PINCAP_CGROUP_DEAD) &&
	    (!b || b->pass != d->budgets.pass))
		apply_lift(d, cgid);
	return 0;
}

int discover_all(struct daemon *d, bool keep)
{
	int err;

	d->lost = gate_lost(d->gate);
	d->must_walk = false;
	d->budgets.pass++;
	err = walk_tree(d, keep);
	if (err)
		return log_ret(err, "walk through the cgroups");
	err = kernel_each_cgroup(d->kernel, lift_if_stale, d);
	if (err)
		return log_ret(err, "read the cgroups' counters");
	advance(d);
	d->scan_ms = 0;
	return 0;
}

/* 0 and the chain, if the path is that cgroup's. */
static int chain_of(uint64_t cgid, const char *cgpath, uint64_t *chain, unsigned int *depth)
{
	int err = cgroup_chain(cgpath, chain, PINCAP_MAX_DEPTH, depth);

	return err ? err : chain[0] == cgid ? 0 : -ENOENT;
}

/* In a cgroup namespace the event's path begins above what is mounted here: which part
 * of it is ours, the id tells. NULL: none. */
static const char *find_below(uint64_t cgid, const char *path, struct place *p, uint64_t *chain)
{
	while (path && chain_of(cgid, path, chain, &p->depth))
		path = *path ? strchr(path + 1, '/') : NULL;
	return path;
}

/* An event's path may be cut. Where a container forbids to look for the id instead,
 * the walk finds it. */
static void decide_on(struct daemon *d, uint64_t cgid, const char *path)
{
	_cleanup_free_ char *found = NULL;
	uint64_t chain[PINCAP_MAX_DEPTH];
	struct place p = { .chain = chain };
	int err;

	p.cgpath = find_below(cgid, path, &p, chain);
	if (!p.cgpath) {
		err = cgroup_path_of_id(cgid, &found);
		if (err == -EPERM && strlen(path) >= PINCAP_EVENT_PATH - 1)
			d->must_walk = true;
		if (err || chain_of(cgid, found, chain, &p.depth))
			return; /* it is gone already, or not ours */
		p.cgpath = found;
	}
	apply_rule(d, &p, true);
}

/* Events come in the order of the ids. */
void discover_made(struct daemon *d, uint64_t cgid, const char *path)
{
	decide_on(d, cgid, path);
	d->heard = MAX(d->heard, cgid);
	advance(d);
}

void discover_lost(struct daemon *d)
{
	if (!d->must_walk && gate_lost(d->gate) == d->lost)
		return;
	pr_debug("an event was lost: walking through all cgroups");
	discover_all(d, true);
}
