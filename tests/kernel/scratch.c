/* SPDX-License-Identifier: MIT */
/* See scratch.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/kernel/scratch.h"

#define PREFIX	     "pincap-kt-"
#define MAX_CGROUPS  1200
#define MAX_CHILDREN 256
#define DONE_MS	     10000

static struct cg made[MAX_CGROUPS]; /* parents before their children */
static int n_made;
static pid_t children[MAX_CHILDREN]; /* not reaped, so that the number is still theirs */
static int n_children;

int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

struct deadline deadline_in(unsigned int ms)
{
	return (struct deadline){ now_ns() + ms * 1000000LL };
}

bool deadline_open(const struct deadline *d)
{
	const struct timespec moment = { .tv_nsec = 500000 };

	if (now_ns() > d->end_ns)
		return false;
	nanosleep(&moment, NULL);
	return true;
}

/* Field 5 of the line whose type, behind the separator, is cgroup2. */
const char *scratch_mount(void)
{
	static char mount[256];
	char line[1024];
	FILE *f;

	if (*mount)
		return mount;
	f = fopen("/proc/self/mountinfo", "re");
	while (f && fgets(line, sizeof(line), f)) {
		char found[256];

		if (!strstr(line, " - cgroup2 ") ||
		    sscanf(line, "%*s %*s %*s %*s %255s", found) != 1)
			continue;
		snprintf(mount, sizeof(mount), "%s", found);
		break;
	}
	if (f)
		fclose(f);
	return *mount ? mount : NULL;
}

void cg_make(struct cg *cg, const struct cg *parent, const char *name)
{
	struct stat st;
	int len;

	assert_true(n_made < MAX_CGROUPS);
	if (parent)
		len = snprintf(cg->dir, sizeof(cg->dir), "%s/%s", parent->dir, name);
	else
		len = snprintf(cg->dir, sizeof(cg->dir), "%s/" PREFIX "%d-%s", scratch_mount(),
			       (int)getpid(), name);
	assert_in_range(len, 1, (int)sizeof(cg->dir) - 1);
	if (mkdir(cg->dir, 0755) || stat(cg->dir, &st))
		fail_msg("make '%s': %s", cg->dir, strerror(errno));
	cg->id = st.st_ino;
	made[n_made++] = *cg;
}

static int write_into(const char *dir, const char *file, const char *text)
{
	char path[600];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", dir, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = write(fd, text, strlen(text));
	if (n < 0)
		n = -errno;
	close(fd);
	return n < 0 ? (int)n : 0;
}

void cg_move(const struct cg *cg, pid_t pid)
{
	char text[16];
	int err;

	snprintf(text, sizeof(text), "%d", (int)pid);
	err = write_into(cg->dir, "cgroup.procs", text);
	if (err)
		fail_msg("move %d to '%s': %s", (int)pid, cg->dir, strerror(-err));
}

bool cg_is_populated(const struct cg *cg)
{
	char path[600], line[64];
	bool populated = false;
	FILE *f;

	snprintf(path, sizeof(path), "%s/cgroup.events", cg->dir);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (!strcmp(line, "populated 1\n"))
			populated = true;
	if (f)
		fclose(f);
	return populated;
}

static int try_remove(const struct cg *cg)
{
	struct deadline d = deadline_in(DONE_MS);
	int err;

	do {
		err = rmdir(cg->dir) && errno != ENOENT ? -errno : 0;
	} while (err == -EBUSY && deadline_open(&d));
	return err;
}

void cg_remove(const struct cg *cg)
{
	int err = try_remove(cg);

	if (err)
		fail_msg("remove '%s': %s", cg->dir, strerror(-err));
	for (int i = 0; i < n_made; i++) {
		if (made[i].id != cg->id)
			continue;
		memmove(&made[i], &made[i + 1], (n_made - i - 1) * sizeof(made[0]));
		n_made--;
		return;
	}
}

pid_t cg_fork(const struct cg *cg)
{
	struct clone_args args = { .flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD };
	int fd = open(cg->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	pid_t pid;

	assert_true(n_children < MAX_CHILDREN);
	if (fd < 0)
		fail_msg("open '%s': %s", cg->dir, strerror(errno));
	fflush(NULL);
	args.cgroup = fd;
	pid = syscall(SYS_clone3, &args, sizeof(args));
	if (pid < 0)
		fail_msg("clone3 into '%s': %s", cg->dir, strerror(errno));
	close(fd);
	if (!pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	else
		children[n_children++] = pid;
	return pid;
}

static void forget_child(pid_t pid)
{
	for (int i = 0; i < n_children; i++)
		if (children[i] == pid)
			children[i] = children[--n_children];
}

int reap(pid_t pid)
{
	struct deadline d = deadline_in(DONE_MS);
	int status;

	do {
		pid_t got = waitpid(pid, &status, WNOHANG);

		if (got == pid) {
			forget_child(pid);
			return status;
		}
		if (got < 0)
			fail_msg("wait for %d: %s", (int)pid, strerror(errno));
	} while (deadline_open(&d));
	fail_msg("process %d does not end", (int)pid);
	return -1;
}

/* From below; what is still alive dies first. */
static void remove_tree(const char *dir)
{
	struct cg cg = { .id = 0 };
	struct deadline d = deadline_in(DONE_MS);
	struct dirent *e;
	DIR *list;

	if ((size_t)snprintf(cg.dir, sizeof(cg.dir), "%s", dir) >= sizeof(cg.dir))
		return;
	write_into(dir, "cgroup.kill", "1");
	while (cg_is_populated(&cg) && deadline_open(&d))
		;
	list = opendir(dir);
	while (list && (e = readdir(list))) {
		char path[1024];

		if (e->d_type != DT_DIR || *e->d_name == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		remove_tree(path);
	}
	if (list)
		closedir(list);
	try_remove(&cg);
}

void scratch_sweep(void)
{
	DIR *list = opendir(scratch_mount());
	struct dirent *e;
	char path[1024];
	int pid;

	while (list && (e = readdir(list))) {
		if (sscanf(e->d_name, PREFIX "%d-", &pid) != 1 || !kill(pid, 0))
			continue;
		snprintf(path, sizeof(path), "%s/%s", scratch_mount(), e->d_name);
		remove_tree(path);
	}
	if (list)
		closedir(list);
}

int scratch_done(void)
{
	int err = 0;

	/* cgroup.kill misses a process whose leader has ended. */
	while (n_children > 0)
		kill(children[--n_children], SIGKILL);
	for (int i = n_made; i-- > 0;)
		write_into(made[i].dir, "cgroup.kill", "1");
	while (n_made > 0) {
		const struct cg *cg = &made[--n_made];
		struct deadline d = deadline_in(DONE_MS);

		do {
			while (waitpid(-1, NULL, WNOHANG) > 0)
				;
		} while (cg_is_populated(cg) && deadline_open(&d));
		if (try_remove(cg)) {
			print_error("'%s' stays behind\n", cg->dir);
			err = -1;
		}
	}
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	return err;
}
