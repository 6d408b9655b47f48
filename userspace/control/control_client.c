/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "userspace/control/control_client.h"

#define WAIT_MS 5000

static int dial(void)
{
	const char *env = getenv(CONTROL_ENV), *path = env && *env ? env : CONTROL_DEFAULT;
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	if (fd < 0)
		return -errno;
	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	strcpy(addr.sun_path, path);
	if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)))
		return errno == EAGAIN ? -EBUSY : -errno;
	return TAKE_FD(fd);
}

/* *ret_file: a descriptor that came with it, or -1. */
static int receive(int fd, struct control_reply *ret, int *ret_file)
{
	char space[CMSG_SPACE(sizeof(int))];
	struct iovec iov = { .iov_base = ret, .iov_len = sizeof(*ret) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = space,
		.msg_controllen = sizeof(space),
	};
	struct pollfd p = { .fd = fd, .events = POLLIN };
	struct cmsghdr *head;
	ssize_t len;

	if (poll(&p, 1, WAIT_MS) <= 0)
		return -ETIMEDOUT;
	len = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC);
	if (len <= 0)
		return -EBUSY; /* it hung up on us */
	head = CMSG_FIRSTHDR(&msg);
	if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
		memcpy(ret_file, CMSG_DATA(head), sizeof(*ret_file));
	if (len != sizeof(*ret) || ret->version != CONTROL_VERSION)
		return -EPROTO;
	ret->text[sizeof(ret->text) - 1] = '\0';
	return ret->err;
}

static int ask(const struct control_request *req, struct control_reply *ret, int *ret_file)
{
	struct control_request sent = *req;
	_cleanup_close_ int fd = dial();

	*ret = (struct control_reply){ 0 };
	*ret_file = -1;
	if (fd < 0)
		return fd;
	sent.version = CONTROL_VERSION;
	if (send(fd, &sent, sizeof(sent), MSG_NOSIGNAL) != sizeof(sent))
		return -EBUSY;
	return receive(fd, ret, ret_file);
}

int control_ask(const struct control_request *req, struct control_reply *ret)
{
	_cleanup_close_ int file = -1;

	return ask(req, ret, &file);
}

static int each_row(const char *at, size_t left, control_row_fn fn, void *ctx)
{
	struct control_row row;
	char path[PATH_MAX];
	int err = 0;

	while (!err && left) {
		if (left < sizeof(row))
			return -EPROTO;
		memcpy(&row, at, sizeof(row));
		left -= sizeof(row);
		if (row.path_len > left || row.path_len >= sizeof(path))
			return -EPROTO;
		memcpy(path, at + sizeof(row), row.path_len);
		path[row.path_len] = '\0';
		at += sizeof(row) + row.path_len;
		left -= row.path_len;
		err = fn(row.cgroup_id, path, &row.cg, ctx);
	}
	return err;
}

static int read_rows(int file, control_row_fn fn, void *ctx)
{
	struct stat st;
	char *at;
	int err;

	if (file < 0 || fstat(file, &st))
		return -EPROTO;
	if (!st.st_size)
		return 0;
	at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	if (at == MAP_FAILED)
		return -errno;
	err = each_row(at, (size_t)st.st_size, fn, ctx);
	munmap(at, (size_t)st.st_size);
	return err;
}

static int stat_rows(uint64_t cgid, control_row_fn fn, void *ctx)
{
	const struct control_request req = { .kind = CONTROL_STAT, .cgroup_id = cgid };
	struct control_reply reply;
	_cleanup_close_ int file = -1;
	int err = ask(&req, &reply, &file);

	return err ? err : read_rows(file, fn, ctx);
}

int control_each_cgroup(control_row_fn fn, void *ctx)
{
	return stat_rows(0, fn, ctx);
}

static int keep(uint64_t cgid, const char *cgpath, const struct pincap_cgroup *cg, void *ctx)
{
	(void)cgid;
	(void)cgpath;
	*(struct pincap_cgroup *)ctx = *cg;
	return 0;
}

int control_get_cgroup(uint64_t cgid, struct pincap_cgroup *ret)
{
	return stat_rows(cgid, keep, ret);
}

bool control_is_absent(int err)
{
	return err == -ENOENT || err == -ECONNREFUSED;
}
