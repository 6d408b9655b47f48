/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "userspace/control/control_priv.h"
#include "userspace/control/peer.h"

#define ASK_USEC   2000000 /* from the connection to the request */
#define MAX_GROUPS 65536   /* NGROUPS_MAX of the kernel */

static void hang_up(struct caller *c)
{
	struct control *owner = c->owner;

	list_take_out(&c->in_all);
	owner->count--;
	sd_event_source_disable_unref(c->io);
	sd_event_source_disable_unref(c->timeout);
	closep(&c->fd);
	free(c->cgpath);
	free(c);
	/* There may have been no room to accept with. */
	sd_event_source_set_enabled(owner->listener, SD_EVENT_ON);
}

/* A file goes with it where there is one. A caller that is gone already misses it. */
static void send_reply(const struct caller *c, const struct control_reply *reply, int file)
{
	char space[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { .iov_base = (void *)reply, .iov_len = sizeof(*reply) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (file >= 0) {
		struct cmsghdr *head;

		msg.msg_control = space;
		msg.msg_controllen = sizeof(space);
		head = CMSG_FIRSTHDR(&msg);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(head), &file, sizeof(file));
	}
	sendmsg(c->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void answer(const struct caller *c, const struct control_request *req)
{
	struct control_reply reply = { .version = CONTROL_VERSION };
	_cleanup_close_ int file = -1;

	if (req->version == CONTROL_VERSION) {
		file = control_answer(c, req, &reply);
	} else {
		reply.err = -EINVAL;
		snprintf(reply.text, sizeof(reply.text), "another version of pincap runs here");
	}
	send_reply(c, &reply, file);
}

static int on_request(sd_event_source *source, int fd, uint32_t events, void *ctx)
{
	struct control_request req;
	struct caller *c = ctx;
	ssize_t len = recv(fd, &req, sizeof(req), MSG_DONTWAIT | MSG_TRUNC);

	(void)source;
	(void)events;
	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (len == sizeof(req))
		answer(c, &req);
	hang_up(c);
	return 0;
}

static int on_timeout(sd_event_source *source, uint64_t usec, void *ctx)
{
	(void)source;
	(void)usec;
	hang_up(ctx);
	return 0;
}

/* As the kernel took them down when it connected. */
static bool is_member(int fd, gid_t gid)
{
	_cleanup_free_ gid_t *groups = NULL;
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (gid == CONTROL_NO_GROUP)
		return false;
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) && cred.gid == gid)
		return true;
	len = MAX_GROUPS * sizeof(*groups);
	groups = malloc(len);
	if (!groups || getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &len))
		return false;
	for (size_t i = 0; i < len / sizeof(*groups); i++)
		if (groups[i] == gid)
			return true;
	return false;
}

static bool has_place(const struct control *c, uid_t uid)
{
	unsigned int count = 0;

	for (struct list *l = c->callers.next; l != &c->callers; l = l->next)
		count += container_of(l, struct caller, in_all)->uid == uid;
	return c->count < CONTROL_MAX_CALLERS && (!uid || count < CONTROL_MAX_PER_USER);
}

/* Who it is, and whether there is room for him. */
static int identify(struct caller *c)
{
	struct peer_id id;
	int err = peer_identify(c->fd, &id, &c->uid, &c->cgpath);

	if (err)
		return err;
	c->is_of_group = is_member(c->fd, c->owner->gid);
	return has_place(c->owner, c->uid) ? 0 : -EBUSY;
}

static void add_caller(struct control *owner, int fd)
{
	struct caller *c = calloc(1, sizeof(*c));
	int err;

	if (!c) {
		close(fd);
		return;
	}
	c->owner = owner;
	c->fd = fd;
	err = identify(c);
	list_add_behind(&owner->callers, &c->in_all);
	owner->count++;
	if (!err)
		err = sd_event_add_io(owner->event, &c->io, fd, EPOLLIN, on_request, c);
	if (err >= 0)
		err = sd_event_add_time_relative(owner->event, &c->timeout, CLOCK_MONOTONIC,
						 ASK_USEC, 0, on_timeout, c);
	if (err < 0)
		hang_up(c);
}

static int on_connection(sd_event_source *source, int fd, uint32_t events, void *ctx)
{
	int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	(void)events;
	if (peer >= 0)
		add_caller(ctx, peer);
	else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
		sd_event_source_set_enabled(source, SD_EVENT_OFF); /* until one leaves */
	return 0;
}

/* 0666, whatever the umask: who may do what is decided per request. */
static int listen_at(const char *path)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	if (fd < 0)
		return -errno;
	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	strcpy(addr.sun_path, path);
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)))
		return -errno;
	if (chmod(path, 0666) || listen(fd, CONTROL_MAX_CALLERS)) {
		int err = -errno;

		unlink(path);
		return err;
	}
	return TAKE_FD(fd);
}

int control_new(struct control **ret, sd_event *event, const char *path, struct kernel *k,
		const struct control_ops *ops, void *ctx)
{
	struct control *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return -ENOMEM;
	list_init(&c->callers);
	c->event = event;
	c->kernel = k;
	c->ops = ops;
	c->ctx = ctx;
	c->gid = CONTROL_NO_GROUP;
	c->fd = err = listen_at(path);
	if (err >= 0) {
		c->path = strdup(path);
		err = c->path ? sd_event_add_io(event, &c->listener, c->fd, EPOLLIN, on_connection,
						c)
			      : -ENOMEM;
	}
	if (err < 0) {
		control_free(c);
		return err;
	}
	*ret = c;
	return 0;
}

void control_set_group(struct control *c, gid_t gid)
{
	c->gid = gid;
}

struct control *control_free(struct control *c)
{
	if (!c)
		return NULL;
	while (c->callers.next != &c->callers)
		hang_up(container_of(c->callers.next, struct caller, in_all));
	sd_event_source_disable_unref(c->listener);
	closep(&c->fd);
	if (c->path)
		unlink(c->path);
	free(c->path);
	free(c);
	return NULL;
}
