/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/syscall.h>

#include "userspace/common/cgproc.h"
#include "userspace/common/cgroup.h"
#include "userspace/daemon/tenants.h"

static int write_file(const char *cgpath, const char *file, const char *text)
{
	_cleanup_close_ int dir_fd = cgroup_open(cgpath), fd = -1;

	if (dir_fd < 0)
		return dir_fd;
	fd = openat(dir_fd, file, O_WRONLY | O_CLOEXEC);
	return fd < 0 || write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

int tenants_freeze(const char *cgpath, bool frozen)
{
	return write_file(cgpath, "cgroup.freeze", frozen ? "1" : "0");
}

int tenants_kill(const char *cgpath)
{
	return write_file(cgpath, "cgroup.kill", "1");
}

static bool catches(pid_t pid, int sig)
{
	_cleanup_fclose_ FILE *f = NULL;
	char line[256], path[64];
	uint64_t caught = 0;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "SigCgt: %" SCNx64, &caught) == 1)
			break;
	return caught >> (sig - 1) & 1;
}

/* The pid is held by a descriptor before it is looked at: it cannot become
 * another's. */
static bool signal_one(const char *cgpath, pid_t pid, int sig)
{
	_cleanup_close_ int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	_cleanup_free_ char *at = NULL;

	return fd >= 0 && !cgroup_of_pid(pid, &at) && cgproc_below(at, cgpath) &&
	       catches(pid, sig) && !syscall(SYS_pidfd_send_signal, fd, sig, NULL, 0);
}

struct round {
	const char *cgpath;
	int sig;
	int sent;
	unsigned int deaf;
};

static void signal_dir(struct round *r, int dir_fd)
{
	int fd = openat(dir_fd, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r");
	int pid;

	if (!f) {
		closep(&fd);
		return;
	}
	while (fscanf(f, "%d", &pid) == 1) {
		if (signal_one(r->cgpath, pid, r->sig))
			r->sent++;
		else
			r->deaf++;
	}
	fclose(f);
}

/* Takes the descriptor over. */
static void signal_tree(struct round *r, int dir_fd)
{
	DIR *dir = fdopendir(dir_fd);
	const struct dirent *e;

	if (!dir) {
		close(dir_fd);
		return;
	}
	signal_dir(r, dir_fd);
	while ((e = readdir(dir))) {
		int fd = -1;

		if (e->d_type == DT_DIR && e->d_name[0] != '.')
			fd = openat(dir_fd, e->d_name,
				    O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		if (fd >= 0)
			signal_tree(r, fd);
	}
	closedir(dir);
}

int tenants_signal(const char *cgpath, int sig, unsigned int *ret_deaf)
{
	struct round r = { .cgpath = cgpath, .sig = sig };
	int fd = cgroup_open(cgpath);

	if (fd < 0)
		return fd;
	signal_tree(&r, fd);
	*ret_deaf = r.deaf;
	return r.sent;
}
