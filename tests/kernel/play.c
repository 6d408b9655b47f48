/* SPDX-License-Identifier: MIT */
/* See play.h. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/kernel/play.h"

#define ANSWER_MS 20000

static const char *program(void)
{
	static char path[1024];
	const char *given = getenv("ACTOR");
	char *slash;
	ssize_t n;

	if (given && *given)
		return given;
	n = readlink("/proc/self/exe", path, sizeof(path) - sizeof("actor"));
	path[n < 0 ? 0 : n] = 0;
	slash = strrchr(path, '/');
	strcpy(slash ? slash + 1 : path, "actor");
	return path;
}

static void become(int fd, bool preload)
{
	const char *given = getenv("PINCAP_PRELOAD"), *path = program();
	char *library = realpath(given && *given ? given : "build/libpincap-preload.so", NULL);

	dup2(fd, STDIN_FILENO);
	dup2(fd, STDOUT_FILENO);
	if (preload && (!library || setenv("LD_PRELOAD", library, 1))) {
		fprintf(stderr, "no preload library: %s\n", strerror(errno));
		_exit(127);
	}
	execl(path, "actor", NULL);
	fprintf(stderr, "run '%s': %s\n", path, strerror(errno));
	_exit(127);
}

static struct reply hear(const struct actor *a, const char *what)
{
	struct pollfd p = { .fd = a->fd, .events = POLLIN };
	struct reply r = { .ret = -1 };
	char line[256];
	ssize_t n;

	if (poll(&p, 1, ANSWER_MS) != 1)
		fail_msg("the actor does not answer '%s'", what);
	n = read(a->fd, line, sizeof(line) - 1);
	line[n > 0 ? n : 0] = 0;
	if (sscanf(line, "%ld %d %" SCNd64 " %" SCNd64, &r.ret, &r.err, &r.locked, &r.pinned) != 4)
		fail_msg("the actor ended in '%s'", what);
	return r;
}

void actor_start(struct actor *a, const struct cg *cg, bool preload)
{
	int pair[2];

	/* A record is a line, whatever buffers do. */
	assert_return_code(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), errno);
	a->pid = cg_fork(cg);
	if (!a->pid)
		become(pair[1], preload);
	close(pair[1]);
	a->fd = pair[0];
	hear(a, "start");
}

struct reply actor_do(const struct actor *a, const char *fmt, ...)
{
	char line[256];
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (send(a->fd, line, len, MSG_NOSIGNAL) != len)
		fail_msg("the actor is gone before '%s'", line);
	return hear(a, line);
}

void actor_exit(struct actor *a)
{
	int status;

	send(a->fd, "exit", 4, MSG_NOSIGNAL);
	status = reap(a->pid);
	close(a->fd);
	assert_int_equal(status, 0);
}

void actor_kill(struct actor *a)
{
	kill(a->pid, SIGKILL);
	assert_true(WIFSIGNALED(reap(a->pid)));
	close(a->fd);
}
