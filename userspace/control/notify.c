/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "userspace/common/cgproc.h"
#include "userspace/control/notify_priv.h"

/* Records read from one peer before the others get their turn. */
#define RECORDS_PER_TURN 64

static void forget(struct notify *n, struct peer *p)
{
	peer_totals_add(&p->scope->faded, p);
	n->remembered--;
	peer_free(p);
}

static void drop_peer(struct peer *p)
{
	struct notify *n = p->owner;

	peer_hang_up(p);
	n->connected--;
	list_take_out(&p->in_all);
	if (peer_is_blank(p)) {
		peer_free(p);
	} else {
		list_add_behind(&n->gone, &p->in_all);
		if (++n->remembered > NOTIFY_MAX_GONE)
			forget(n, notify_of_all(n->gone.prev));
	}
	/* There may have been no descriptor left to accept with. */
	sd_event_source_set_enabled(n->listener, SD_EVENT_ON);
}

/* A process that was here before: go on with its figures. */
static void recall(struct peer *p)
{
	struct list *head = notify_pids(p->owner, p->id.pid);

	for (struct list *l = head->next; l != head; l = l->next) {
		struct peer *old = container_of(l, struct peer, in_pids);

		if (old->fd >= 0 || !peer_id_equal(&old->id, &p->id))
			continue;
		peer_recall(p, old);
		p->owner->remembered--;
		peer_free(old);
		return;
	}
}

static void on_hello(struct peer *p)
{
	if (p->greeted)
		return;
	p->greeted = true;
	recall(p);
	notify_settle(p, 0);
}

static void on_record(struct peer *p, const struct wire_msg *msg)
{
	if (msg->version != PINCAP_WIRE_VERSION)
		return;
	if (msg->kind == WIRE_HELLO)
		on_hello(p);
	else if (p->greeted &&
		 (msg->kind == WIRE_ACK || msg->kind == WIRE_WITHHELD || msg->kind == WIRE_GIVEN))
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
		peer_flush(p);
	return 0;
}

/* One user must not take the places of all. */
static bool has_place(const struct notify *n, uid_t uid)
{
	unsigned int count = 0;

	if (!uid || n->connected < NOTIFY_MAX_PER_USER)
		return true;
	for (struct list *l = n->peers.next; l != &n->peers; l = l->next)
		count += notify_of_all(l)->uid == uid;
	return count < NOTIFY_MAX_PER_USER;
}

static int admit(struct notify *n, struct peer *p, int fd)
{
	int err = peer_identify(fd, &p->id, &p->uid, &p->cgpath);

	if (err)
		return err;
	if (!cgproc_below(p->cgpath, n->cgpath))
		return -EPERM;
	if (!has_place(n, p->uid))
		return -EUSERS;
	return sd_event_add_io(n->event, &p->source, fd, EPOLLIN, on_peer, p);
}

static int add_peer(struct notify *n, int fd)
{
	struct peer *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return -ENOMEM;
	p->owner = n;
	p->fd = -1;
	list_init(&p->in_all);
	list_init(&p->in_scope);
	list_init(&p->in_pids);
	err = admit(n, p, fd);
	if (err < 0) {
		peer_free(p);
		return err;
	}
	p->fd = fd;
	list_add_before(&n->peers, &p->in_all);
	list_add_behind(notify_pids(n, p->id.pid), &p->in_pids);
	scope_place(&n->scopes, p);
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

static void init_lists(struct notify *n)
{
	list_init(&n->peers);
	list_init(&n->gone);
	for (size_t i = 0; i < NOTIFY_PID_BUCKETS; i++)
		list_init(&n->pids[i]);
	scope_tree_init(&n->scopes, n);
}

int notify_new(struct notify **ret, sd_event *event, const char *path, const char *cgpath)
{
	_cleanup_(notify_freep) struct notify *n = calloc(1, sizeof(*n));
	int err;

	if (!n)
		return -ENOMEM;
	init_lists(n);
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
	struct notify_scope *s;

	if (!n)
		return NULL;
	while (!list_is_empty(&n->peers))
		peer_free(notify_of_all(n->peers.next));
	while (!list_is_empty(&n->gone))
		peer_free(notify_of_all(n->gone.next));
	while ((s = scope_next(&n->scopes.root, &n->scopes.root)))
		notify_scope_free(s);
	notify_scope_free(&n->scopes.root);
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
