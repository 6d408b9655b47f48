/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>

#include "userspace/cli/run_place.h"
#include "userspace/common/cgroup.h"

/* A cgroup may be busy for a moment after its last process was waited for. */
#define LEAVE_TRIES   5
#define LEAVE_WAIT_NS 10000000

#define NAME_TRIES 100

static void closedirp(DIR **d)
{
	if (*d)
		closedir(*d);
}

/* "PREFIX<pid><anything but a digit>" of a process that is gone. */
static bool is_of_dead(const char *name, const char *prefix)
{
	size_t len = strlen(prefix);
	long pid;
	char *end;

	if (strncmp(name, prefix, len) || name[len] < '1' || name[len] > '9')
		return false;
	pid = strtol(name + len, &end, 10);
	return pid <= INT32_MAX && kill((pid_t)pid, 0) && errno == ESRCH;
}

static int remove_dir(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)ftw;
	if (type == FTW_DP)
		rmdir(path); /* what is in use refuses */
	return 0;
}

/* Empty cgroups, from the leaves up. */
static bool remove_tree(const char *dir)
{
	nftw(dir, remove_dir, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
	return access(dir, F_OK) && errno == ENOENT;
}

static void remove_stale_cgroups(const char *parent)
{
	_cleanup_free_ char *dir = cgroup_dir(parent);
	_cleanup_(closedirp) DIR *d = dir ? opendir(dir) : NULL;
	struct dirent *e;

	while (d && (e = readdir(d))) {
		_cleanup_free_ char *path = NULL;

		if (!is_of_dead(e->d_name, "pincap-"))
			continue;
		if (asprintf(&path, "%s/%s", dir, e->d_name) >= 0)
			remove_tree(path);
	}
}

/* For process `pid` below `own`; the name may still be in use by what a dead one of
 * that pid left. */
static int make_fresh(const char *own, pid_t pid, char **ret_cgpath)
{
	int err;

	remove_stale_cgroups(own);
	for (unsigned int i = 1; i <= NAME_TRIES; i++) {
		_cleanup_free_ char *cgpath = NULL;
		char suffix[16] = "";

		if (i > 1)
			snprintf(suffix, sizeof(suffix), "-%u", i);
		if (asprintf(&cgpath, "%s/pincap-%d%s", streq(own, "/") ? "" : own, (int)pid,
			     suffix) < 0)
			return -ENOMEM;
		err = cgroup_create(cgpath);
		if (err == 0)
			continue;
		if (err > 0)
			*ret_cgpath = TAKE_PTR(cgpath);
		return err;
	}
	return -EEXIST;
}

/* What can be budgeted: not the root, where everybody is, and nothing deeper than
 * the kernel side walks. */
static int check_path(const char *cgpath)
{
	unsigned int depth = 1;

	if (streq(cgpath, "/"))
		return -EISDIR;
	for (const char *c = cgpath; *c; c++)
		depth += *c == '/';
	return depth > PINCAP_MAX_DEPTH ? -E2BIG : 0;
}

/* Length of the part of a path that is there already. */
static size_t existing_part(const char *cgpath)
{
	_cleanup_free_ char *part = strdup(cgpath);
	uint64_t id;

	while (part && *part && cgroup_id(part, &id))
		*strrchr(part, '/') = '\0';
	return part ? strlen(part) : strlen(cgpath);
}

/* The parents that were made with the cgroup; who uses one keeps it. */
static void remove_parents(const struct place *p)
{
	_cleanup_free_ char *part = strdup(p->cgpath);

	while (part && strlen(part) > p->kept) {
		cgroup_remove(part);
		*strrchr(part, '/') = '\0';
	}
}

/* `err`: of making its cgroup, or 1: made. */
static int open_made(struct place *p, int err, struct place *ret)
{
	if (err >= 0) {
		p->made = err;
		err = cgroup_chain(p->cgpath, p->chain, PINCAP_MAX_DEPTH, &p->depth);
		if (err)
			place_leave(p);
	}
	if (err < 0) {
		place_done(p);
		return err;
	}
	*ret = *p;
	return 0;
}

static int make_named(struct place *p, const char *cgroup)
{
	int err = cgroup_path_parse(cgroup, &p->cgpath);

	if (!err)
		err = check_path(p->cgpath);
	if (err)
		return err;
	p->kept = existing_part(p->cgpath);
	return cgroup_create(p->cgpath);
}

int place_open(struct place *ret, const char *cgroup)
{
	struct place p = { 0 };

	if (!cgroup)
		return place_open_for(ret, getpid());
	return open_made(&p, make_named(&p, cgroup), ret);
}

int place_open_for(struct place *ret, pid_t pid)
{
	_cleanup_free_ char *own = NULL;
	struct place p = { 0 };
	int err = cgroup_of_pid(pid, &own);

	if (!err)
		err = make_fresh(own, pid, &p.cgpath);
	p.kept = p.cgpath ? strlen(p.cgpath) : 0;
	return open_made(&p, err, ret);
}

bool place_is_of(const char *cgpath, pid_t pid)
{
	char name[32];
	int len = snprintf(name, sizeof(name), "/pincap-%d", (int)pid);
	const char *base = strrchr(cgpath, '/');

	return !strncmp(base, name, (size_t)len) && (base[len] < '0' || base[len] > '9');
}

void place_remove_stale(const char *cgpath)
{
	_cleanup_free_ char *parent = strdup(cgpath);
	char *slash = parent ? strrchr(parent, '/') : NULL;

	if (!slash || !is_of_dead(slash + 1, "pincap-"))
		return;
	*slash = '\0';
	remove_stale_cgroups(parent);
}

bool place_is_populated(const struct place *p)
{
	_cleanup_free_ char *dir = cgroup_dir(p->cgpath), *name = NULL, *line = NULL;
	_cleanup_fclose_ FILE *f = NULL;
	size_t size = 0;

	if (!dir || asprintf(&name, "%s/cgroup.events", dir) < 0)
		return true;
	f = fopen(name, "re");
	while (f && getline(&line, &size, f) >= 0)
		if (!strncmp(line, "populated ", 10))
			return line[10] != '0';
	/* The root has no such file, and is never empty. */
	return !f && errno == ENOENT && streq(p->cgpath, "/");
}

bool place_leave(const struct place *p)
{
	_cleanup_free_ char *dir = cgroup_dir(p->cgpath);

	if (!p->made || !dir)
		return false;
	for (unsigned int i = 0; i < LEAVE_TRIES; i++) {
		if (i)
			nanosleep(&(struct timespec){ .tv_nsec = LEAVE_WAIT_NS }, NULL);
		if (remove_tree(dir)) {
			remove_parents(p);
			return true;
		}
	}
	return false;
}

void place_done(struct place *p)
{
	free(p->cgpath);
	p->cgpath = NULL;
}

char *place_ancestor(const struct place *p, unsigned int level)
{
	char *path = strdup(p->cgpath);

	for (; path && level; level--)
		*strrchr(path, '/') = '\0';
	if (path && !*path)
		strcpy(path, "/");
	return path;
}

/* Nobody listens there any more. */
static bool is_dead_socket(const char *path)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	if (fd < 0 || strlen(path) >= sizeof(addr.sun_path))
		return false;
	strcpy(addr.sun_path, path);
	return connect(fd, (struct sockaddr *)&addr, sizeof(addr)) && errno == ECONNREFUSED;
}

static void remove_stale_sockets(void)
{
	_cleanup_(closedirp) DIR *d = opendir(PINCAP_RUNDIR);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		_cleanup_free_ char *path = NULL;

		if (!is_of_dead(e->d_name, "run-"))
			continue;
		if (asprintf(&path, PINCAP_RUNDIR "/%s", e->d_name) >= 0 && is_dead_socket(path))
			unlink(path);
	}
}

int place_socket(char **ret_path)
{
	struct stat st;

	if (!mkdir(PINCAP_RUNDIR, 0755))
		chmod(PINCAP_RUNDIR, 0755); /* whatever the umask */
	if (lstat(PINCAP_RUNDIR, &st))
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	remove_stale_sockets();
	/* Another namespace may have our pid, too. */
	for (unsigned int i = 1; i <= NAME_TRIES; i++) {
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, PINCAP_RUNDIR "/run-%d-%u.sock", (int)getpid(), i) < 0)
			return -ENOMEM;
		if (is_dead_socket(path))
			unlink(path);
		if (!access(path, F_OK))
			continue;
		*ret_path = TAKE_PTR(path);
		return 0;
	}
	return -EADDRINUSE;
}
