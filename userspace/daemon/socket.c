/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "userspace/common/log.h"
#include "userspace/daemon/socket.h"

/* A socket at which nobody listens. */
static bool is_left_behind(const char *path)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (lstat(path, &st) || !S_ISSOCK(st.st_mode) || strlen(path) >= sizeof(addr.sun_path))
		return false;
	strcpy(addr.sun_path, path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	return fd >= 0 && connect(fd, (struct sockaddr *)&addr, sizeof(addr)) &&
	       errno == ECONNREFUSED;
}

bool socket_clear(const char *path)
{
	return is_left_behind(path) && !unlink(path);
}

int socket_listen(struct daemon *d)
{
	const char *path = d->config->notify_socket;
	int err = notify_new(&d->notify, d->event, path, "/");

	if (err == -EADDRINUSE && socket_clear(path))
		err = notify_new(&d->notify, d->event, path, "/");
	if (err == -EADDRINUSE)
		return log_ret(err,
			       "notify_socket '%s': somebody else's is there; remove it, or "
			       "write another path",
			       path);
	return err ? log_ret(err, "listen at notify_socket '%s'", path) : 0;
}
