/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>

#include "userspace/cli/target.h"
#include "userspace/common/cgroup.h"
#include "userspace/common/log.h"

#define IS_KERNEL_THREAD 0x00200000UL /* PF_KTHREAD of linux/sched.h */
#define FLAGS_FIELD	 9	      /* of /proc/PID/stat */

/* Name and flags. */
static int read_stat(struct target *t, unsigned long *ret_flags)
{
	_cleanup_fclose_ FILE *f = NULL;
	char name[64], text[1024];
	const char *open, *close;
	size_t len;

	snprintf(name, sizeof(name), "/proc/%d/stat", (int)t->pid);
	f = fopen(name, "re");
	if (!f)
		return errno == ENOENT ? -ESRCH : -errno;
	len = fread(text, 1, sizeof(text) - 1, f);
	text[len] = '\0';
	open = strchr(text, '(');
	close = strrchr(text, ')'); /* the name may contain anything */
	if (!open || !close || close < open)
		return -ESRCH;
	snprintf(t->comm, sizeof(t->comm), "%.*s", (int)(close - open - 1), open + 1);
	for (unsigned int field = 2; field < FLAGS_FIELD && close; field++)
		close = strchr(close + 1, ' ');
	*ret_flags = close ? strtoul(close + 1, NULL, 10) : 0;
	return 0;
}

static int explain(int err, const struct target *t)
{
	if (err == -ESRCH)
		pr_err("there is no process %d", (int)t->pid);
	else if (err == -EINVAL || err == -ENOENT)
		pr_err("%d is a thread; name its process", (int)t->pid);
	else if (err == -EXDEV)
		pr_err("process %d is outside of this cgroup namespace", (int)t->pid);
	else
		log_ret(err, "look at process %d", (int)t->pid);
	return err;
}

int target_open(struct target *ret, pid_t pid)
{
	struct target t = { .pid = pid, .pidfd = (int)syscall(SYS_pidfd_open, pid, 0) };
	unsigned long flags = 0;
	int err;

	if (t.pidfd < 0)
		return explain(-errno, &t);
	err = read_stat(&t, &flags);
	if (!err && flags & IS_KERNEL_THREAD) {
		pr_err("%d (%s) is a kernel thread, which has no memory of its own", (int)pid,
		       t.comm);
		target_done(&t);
		return -EPERM;
	}
	if (!err)
		err = cgroup_of_pid(pid, &t.cgpath);
	if (!err && !target_is_alive(&t))
		err = -ESRCH;
	if (err) {
		target_done(&t);
		return explain(err, &t);
	}
	*ret = t;
	return 0;
}

/* A zombie whose last thread has ended is none. */
bool target_is_alive(const struct target *t)
{
	struct pollfd p = { .fd = t->pidfd, .events = POLLIN };

	return poll(&p, 1, 0) == 0;
}

void target_done(struct target *t)
{
	closep(&t->pidfd);
	free(t->cgpath);
	t->cgpath = NULL;
	t->pidfd = -1;
}
