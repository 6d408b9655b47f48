/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "userspace/common/cgproc.h"
#include "userspace/common/cgroup.h"
#include "userspace/control/notify.h"
#include "userspace/control/peer.h"

/* Records read from one peer before the others get their turn. */
#define RECORDS_PER_TURN 64

struct notify {
	sd_event *event;
	sd_event_source *listener;
	char *path;
	char *cgpath;
	int fd;
	struct wire_msg signal;	  /* the last one; epoch 0: none yet */
	struct peer *peers;	  /* connected */
	struct peer *gone;	  /* newest first */
	struct peer_totals faded; /* of records that no longer fit into `gone` */
	unsigned int connected;
	unsigned int remembered;
	unsigned int turned_away;
	unsigned int stops;
	unsigned int resumes;
};

static bool is_stopped(const struct notify *n)
{
	return n->signal.kind == WIRE_STOP;
}

static struct peer *unlink_peer(struct peer **list, struct peer *p)
{
	while (*list != p)
		list = &(*list)->next;
	*list = p->next;
	p->next = NULL;
	return p;
}

static void hang_up(struct peer *p)
{
	p->source = sd_event_source_disable_unref(p->source);
	if (p->fd >= 0)
		close(TAKE_FD(p->fd));
}

/* Keep the record of a peer that left; let the oldest fade into the totals. */
static void remember(struct notify *n, struct peer *p)
{
	struct peer *oldest = p;

	p->next = n->gone;
	n->gone = p;
	if (++n->remembered <= NOTIFY_MAX_GONE)
		return;
	while (oldest->next)
		oldest = oldest->next;
	unlink_peer(&n->gone, oldest);
	n->remembered--;
	peer_totals_add(&n->faded, oldest);
	free(oldest);
}

static void drop_peer(struct peer *p)
{
	struct notify *n = p->owner;

	hang_up(p);
	unlink_peer(&n->peers, p);
	n->connected--;
	if (p->sent_epoch || p->withheld_count || p->withheld_bytes)
		remember(n, p);
	else
		free(p);
	/* There may have been no descriptor left to accept with. */
	sd_event_source_set_enabled(n->listener, SD_EVENT_ON);
}

/*
 * Send the last signal unless the peer has it; what does not fit now is sent
 * when it reads. A peer that is gone is found so by reading: what it wrote
 * before still waits there.
 */
static void send_signal(struct peer *p)
{
	const struct wire_msg *msg = &p->owner->signal;
	uint32_t events = EPOLLIN;
	bool news = p->greeted && p->sent_epoch != msg->epoch;

	/* RESUME says nothing to one that was never stopped. */
	if (msg->kind == WIRE_RESUME && !p->sent_epoch)
		news = false;
	if (news) {
		if (send(p->fd, msg, sizeof(*msg), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(*msg)) {
			p->sent_epoch = msg->epoch;
			if (msg->kind == WIRE_STOP)
				p->stop_epoch = msg->epoch;
		} else if (errno == EAGAIN || errno == ENOBUFS || errno == EINTR) {
			events |= EPOLLOUT;
		}
	}
	sd_event_source_set_io_events(p->source, events);
}

/* A process that was here before: go on with its figures. */
static void recall(struct peer *p)
{
	struct notify *n = p->owner;

	for (struct peer *old = n->gone; old; old = old->next) {
		if (!peer_id_equal(&old->id, &p->id))
			continue;
		p->sent_epoch = old->sent_epoch;
		p->stop_epoch = old->stop_epoch;
		p->acked_epoch = old->acked_epoch;
		p->withheld_count = old->withheld_count;
		p->withheld_bytes = old->withheld_bytes;
		free(unlink_peer(&n->gone, old));
		n->remembered--;
		return;
	}
}

static void on_hello(struct peer *p)
{
	if (p->greeted)
		return;
	p->greeted = true;
	recall(p);
	/* It begins unstopped, whatever its last connection was told. */
	if (!is_stopped(p->owner))
		return;
	p->sent_epoch = 0;
	send_signal(p);
}

static void on_record(struct peer *p, const struct wire_msg *msg)
{
	if (msg->version != PINCAP_WIRE_VERSION)
		return;
	if (msg->kind == WIRE_HELLO)
		on_hello(p);
	else if (p->greeted && (msg->kind == WIRE_ACK || msg->kind == WIRE_WITHHELD))
		peer_report(p, msg);
}

/* 1: read a record, 0: none there now, or -errno: the peer left. */
static int receive(struct peer *p)
{
	struct wire_msg msg;
	ssize_t len = recv(p->fd, &msg, sizeof(msg), MSG_DONTWAIT | MSG_TRUNC);

	if (len < 0) {
		/* It closed with a signal unread: said once, before what it wrote. */
		if (errno == ECONNRESET)
			return 1;
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	}
	if (len == 0)
		return -EPIPE;
	if (len == sizeof(msg))
		on_record(p, &msg);
	return 1;
}

static int on_peer(sd_event_source *source, int fd, uint32_t events, void *ctx)
{
	struct peer *p = ctx;
	int err = 0;

	(void)source;
	(void)fd;
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
		unsigned int left = RECORDS_PER_TURN;

		do {
			err = receive(p);
		} while (err > 0 && --left);
	}
	if (err < 0)
		drop_peer(p);
	else if (events & EPOLLOUT)
		send_signal(p);
	return 0;
}

/* Who it is, by the kernel's word. -EPERM: not of this cgroup. */
static int identify(const struct notify *n, int fd, struct peer_id *ret)
{
	_cleanup_free_ char *cgpath = NULL;
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int err;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	if (cred.pid <= 0)
		return -EPERM; /* outside of our pid namespace */
	err = cgroup_of_pid(cred.pid, &cgpath);
	if (err)
		return err;
	if (!cgproc_below(cgpath, n->cgpath))
		return -EPERM;
	return peer_id_read(cred.pid, ret);
}

static int add_peer(struct notify *n, int fd)
{
	struct peer *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return -ENOMEM;
	p->owner = n;
	p->fd = -1;
	err = identify(n, fd, &p->id);
	if (!err)
		err = sd_event_add_io(n->event, &p->source, fd, EPOLLIN, on_peer, p);
	if (err < 0) {
		free(p);
		return err;
	}
	p->fd = fd;
	p->next = n->peers;
	n->peers = p;
	n->connected++;
	return 0;
}

static int on_connect(sd_event_source *source, int fd, uint32_t events, void *ctx)
{
	_cleanup_close_ int peer_fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct notify *n = ctx;

	(void)events;
	if (peer_fd < 0) {
		/* Out of descriptors: asked again when a peer leaves, else in a loop. */
		if (errno == EMFILE || errno == ENFILE)
			sd_event_source_set_enabled(source, SD_EVENT_OFF);
		return 0;
	}
	if (n->connected >= NOTIFY_MAX_PEERS || add_peer(n, peer_fd))
		n->turned_away++;
	else
		peer_fd = -1;
	return 0;
}

static int listen_at(const char *path)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int err;

	if (fd < 0)
		return -errno;
	if (strlen(path) >= sizeof(addr.sun_path))
		return -ENAMETOOLONG;
	strcpy(addr.sun_path, path);
	if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)))
		return -errno;
	if (chmod(path, 0666) || listen(fd, SOMAXCONN)) {
		err = -errno;
		unlink(path);
		return err;
	}
	return TAKE_FD(fd);
}

int notify_new(struct notify **ret, sd_event *event, const char *path, const char *cgpath)
{
	_cleanup_(notify_freep) struct notify *n = calloc(1, sizeof(*n));
	int err;

	if (!n)
		return -ENOMEM;
	n->fd = listen_at(path);
	if (n->fd < 0)
		return n->fd;
	n->event = sd_event_ref(event);
	n->path = strdup(path);
	n->cgpath = strdup(cgpath);
	if (!n->path || !n->cgpath) {
		unlink(path);
		return -ENOMEM;
	}
	err = sd_event_add_io(event, &n->listener, n->fd, EPOLLIN, on_connect, n);
	if (err < 0)
		return err;
	*ret = TAKE_PTR(n);
	return 0;
}

struct notify *notify_free(struct notify *n)
{
	if (!n)
		return NULL;
	while (n->peers) {
		hang_up(n->peers);
		free(unlink_peer(&n->peers, n->peers));
	}
	while (n->gone)
		free(unlink_peer(&n->gone, n->gone));
	sd_event_source_disable_unref(n->listener);
	sd_event_unref(n->event);
	if (n->fd >= 0)
		close(n->fd);
	if (n->path)
		unlink(n->path);
	free(n->path);
	free(n->cgpath);
	free(n);
	return NULL;
}

void notify_freep(struct notify **n)
{
	notify_free(*n);
}

static void broadcast(struct notify *n, enum wire_kind kind, uint64_t bytes)
{
	n->signal = (struct wire_msg){
		.version = PINCAP_WIRE_VERSION,
		.kind = kind,
		.epoch = n->signal.epoch + 1,
		.bytes = bytes,
	};
	for (struct peer *p = n->peers; p; p = p->next)
		send_signal(p);
}

void notify_stop(struct notify *n, uint64_t over_bytes)
{
	n->stops++;
	broadcast(n, WIRE_STOP, over_bytes);
}

void notify_resume(struct notify *n)
{
	n->resumes++;
	broadcast(n, WIRE_RESUME, 0);
}

void notify_get_stats(const struct notify *n, struct notify_stats *ret)
{
	struct peer_totals sum = n->faded;
	struct notify_stats s = {
		.epoch = n->signal.epoch,
		.turned_away = n->turned_away,
		.stops = n->stops,
		.resumes = n->resumes,
	};

	for (const struct peer *p = n->peers; p; p = p->next) {
		s.peers += p->greeted;
		s.acked += p->sent_epoch && p->acked_epoch == n->signal.epoch;
		peer_totals_add(&sum, p);
	}
	for (const struct peer *p = n->gone; p; p = p->next)
		peer_totals_add(&sum, p);
	s.told = sum.told;
	s.obeyed = sum.obeyed;
	s.withheld_count = sum.withheld_count;
	s.withheld_bytes = sum.withheld_bytes;
	*ret = s;
}
