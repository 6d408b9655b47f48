/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "userspace/cli/spawn.h"
#include "userspace/common/cgroup.h"
#include "userspace/common/wire.h"

/* Enough for NOTIFY_MAX_PEERS and everything else. */
#define FILES_WANTED 8192

/* What the child says through the pipe before it gives up. */
struct failure {
	enum spawn_stage stage;
	int err;
};

int spawn_prepare(struct spawn_state *ret, const sigset_t *signals)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &ret->files) || sigaction(SIGCHLD, &dfl, &ret->child) ||
	    sigprocmask(SIG_BLOCK, signals, &ret->mask))
		return -errno;
	files = ret->files;
	if (files.rlim_cur < FILES_WANTED) {
		files.rlim_cur = MIN(files.rlim_max, (rlim_t)FILES_WANTED);
		setrlimit(RLIMIT_NOFILE, &files);
	}
	return 0;
}

int spawn_exec_code(int err)
{
	return err == -ENOENT ? 127 : 126;
}

static int set_environment(const struct spawn_in *in)
{
	const char *before = getenv("LD_PRELOAD");
	_cleanup_free_ char *list = NULL;

	if (in->notify ? setenv(PINCAP_ENV_NOTIFY, in->notify, 1) : unsetenv(PINCAP_ENV_NOTIFY))
		return -errno;
	if (!in->preload)
		return 0;
	if (asprintf(&list, "%s%s%s", in->preload, before && *before ? ":" : "",
		     before ? before : "") < 0)
		return -ENOMEM;
	return setenv("LD_PRELOAD", list, 1) ? -errno : 0;
}

static _Noreturn void give_up(int report_fd, enum spawn_stage stage, int err)
{
	struct failure f = { stage, err };
	ssize_t len = write(report_fd, &f, sizeof(f));

	(void)len;
	_exit(spawn_exec_code(err));
}

/* The signal mask comes last: what was sent to us must not end the child with
 * its story untold. */
static _Noreturn void run_child(const struct spawn_in *in, int report_fd)
{
	int err;

	err = identity_assume(in->who);
	if (err)
		give_up(report_fd, SPAWN_USER, err);
	err = set_environment(in);
	if (err)
		give_up(report_fd, SPAWN_USER, err);
	setrlimit(RLIMIT_NOFILE, &in->state->files);
	sigaction(SIGCHLD, &in->state->child, NULL);
	sigprocmask(SIG_SETMASK, &in->state->mask, NULL);
	execvpe(in->argv[0], in->argv, environ);
	give_up(report_fd, SPAWN_EXEC, -errno);
}

/* In the cgroup from birth. The child's pid is 0 in itself, as with fork. */
static pid_t clone_into(int cgroup_fd, int *ret_pidfd)
{
	struct clone_args args = {
		.flags = CLONE_INTO_CGROUP | CLONE_PIDFD,
		.pidfd = (uintptr_t)ret_pidfd,
		.exit_signal = SIGCHLD,
		.cgroup = (unsigned int)cgroup_fd,
	};
	long pid = syscall(SYS_clone3, &args, sizeof(args));

	return pid < 0 ? -errno : (pid_t)pid;
}

/* Where clone3 is not to be had (seccomp filters say ENOSYS): fork, and let the
 * child wait until it was moved. */
static pid_t fork_into(const struct spawn_in *in, int *ret_pidfd)
{
	int gate[2], err;
	char byte = 0;
	pid_t pid;

	if (pipe2(gate, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (pid < 0) {
		err = -errno;
		close(gate[0]);
		close(gate[1]);
		return err;
	}
	if (!pid) {
		close(gate[1]);
		if (read(gate[0], &byte, 1) != 1)
			_exit(126);
		close(gate[0]);
		return 0;
	}
	close(gate[0]);
	err = cgroup_attach(in->cgpath, pid);
	if (!err && write(gate[1], &byte, 1) != 1)
		err = -errno;
	close(gate[1]); /* without the byte the child ends */
	if (err) {
		waitpid(pid, NULL, 0);
		return err;
	}
	*ret_pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	return pid;
}

int spawn_start(const struct spawn_in *in, struct spawn *ret)
{
	_cleanup_close_ int cgroup_fd = -1, report_fd = -1, pidfd = -1;
	struct failure f;
	int report[2];
	ssize_t len;
	pid_t pid;

	ret->failed = SPAWN_CGROUP;
	cgroup_fd = cgroup_open(in->cgpath);
	if (cgroup_fd < 0)
		return cgroup_fd;
	if (pipe2(report, O_CLOEXEC))
		return -errno;
	report_fd = report[0];
	pid = clone_into(cgroup_fd, &pidfd);
	if (pid < 0)
		pid = fork_into(in, &pidfd);
	if (!pid)
		run_child(in, report[1]);
	close(report[1]);
	if (pid < 0)
		return pid;
	do {
		len = read(report_fd, &f, sizeof(f));
	} while (len < 0 && errno == EINTR);
	if (len == sizeof(f)) {
		waitpid(pid, NULL, 0);
		ret->failed = f.stage;
		return f.err;
	}
	*ret = (struct spawn){ .pid = pid, .pidfd = TAKE_FD(pidfd), .failed = SPAWN_STARTED };
	return 0;
}
