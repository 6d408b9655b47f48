/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "userspace/common/cgroup.h"
#include "userspace/control/peer.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

static uint64_t plus(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* -ESRCH: the process is gone and its number may be another's by now. -1 where
 * the kernel has no such descriptor. */
static int open_pidfd(int fd, int *ret_pidfd)
{
	socklen_t len = sizeof(*ret_pidfd);

	*ret_pidfd = -1;
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, ret_pidfd, &len))
		return 0;
	return errno == ENOPROTOOPT ? 0 : -ESRCH;
}

static bool is_reaped(int pidfd)
{
	return pidfd >= 0 && syscall(SYS_pidfd_send_signal, pidfd, 0, NULL, 0) && errno == ESRCH;
}

int peer_identify(int fd, struct peer_id *ret_id, uid_t *ret_uid, char **ret_cgpath)
{
	_cleanup_close_ int pidfd = -1;
	_cleanup_free_ char *cgpath = NULL;
	struct peer_id id;
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int err;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return -errno;
	if (cred.pid <= 0)
		return -EPERM;
	err = open_pidfd(fd, &pidfd);
	if (!err)
		err = cgroup_of_pid(cred.pid, &cgpath);
	if (!err)
		err = peer_id_read(cred.pid, &id);
	if (err)
		return err;
	if (is_reaped(pidfd))
		return -ESRCH;
	*ret_id = id;
	*ret_uid = cred.uid;
	*ret_cgpath = TAKE_PTR(cgpath);
	return 0;
}

int peer_id_read(pid_t pid, struct peer_id *ret)
{
	_cleanup_fclose_ FILE *f = NULL;
	struct peer_id id = { .pid = pid };
	char name[64], text[1024];
	const char *p;
	size_t len;

	snprintf(name, sizeof(name), "/proc/%d/stat", (int)pid);
	f = fopen(name, "re");
	if (!f)
		return errno == ENOENT ? -ESRCH : -errno;
	len = fread(text, 1, sizeof(text) - 1, f);
	text[len] = '\0';
	/* The name, field 2, may contain anything; field 3 follows its last bracket. */
	p = strrchr(text, ')');
	if (!p)
		return -ESRCH;
	p += strspn(p, ") ");
	for (unsigned int field = 3; *p && field <= 28; field++) {
		if (field == 22)
			id.start_ticks = strtoull(p, NULL, 10);
		if (field == 28)
			id.start_stack = strtoull(p, NULL, 10);
		p += strcspn(p, " ");
		p += strspn(p, " ");
	}
	*ret = id;
	return 0;
}

bool peer_id_equal(const struct peer_id *a, const struct peer_id *b)
{
	return a->pid == b->pid && a->start_ticks == b->start_ticks &&
	       a->start_stack == b->start_stack;
}

bool peer_has_moved(struct peer *p)
{
	_cleanup_free_ char *now = NULL;
	struct peer_id id;

	if (cgroup_of_pid(p->id.pid, &now) || streq(now, p->cgpath))
		return false;
	/* Another one by now has that number: the connection is about to end. */
	if (peer_id_read(p->id.pid, &id) || !peer_id_equal(&id, &p->id))
		return false;
	free(p->cgpath);
	p->cgpath = TAKE_PTR(now);
	return true;
}

bool peer_is_blank(const struct peer *p)
{
	return !p->told_epoch && !p->stop_epoch && !p->asked_epoch && !p->withheld_count &&
	       !p->withheld_bytes;
}

void peer_recall(struct peer *p, const struct peer *old)
{
	p->stop_epoch = old->stop_epoch;
	p->acked_epoch = old->acked_epoch;
	p->asked_epoch = old->asked_epoch;
	p->given_count = old->given_count;
	p->given_bytes = old->given_bytes;
	p->given_before_bytes = old->given_before_bytes;
	p->withheld_count = old->withheld_count;
	p->withheld_bytes = old->withheld_bytes;
}

void peer_report(struct peer *p, const struct wire_msg *msg)
{
	if (msg->kind == WIRE_GIVEN) {
		if (!p->asked_epoch || msg->epoch != p->asked_epoch)
			return;
		p->given_count = MAX(p->given_count, msg->count);
		p->given_bytes = MAX(p->given_bytes, msg->bytes);
		return;
	}
	if (msg->kind == WIRE_ACK && msg->epoch <= MAX(p->told_epoch, p->release_sent))
		p->acked_epoch = MAX(p->acked_epoch, msg->epoch);
	p->withheld_count = MAX(p->withheld_count, msg->count);
	p->withheld_bytes = MAX(p->withheld_bytes, msg->bytes);
}

static bool is_signal_due(const struct peer *p)
{
	return p->want_stop != p->told_stop;
}

static bool is_release_due(const struct peer *p)
{
	return p->release_epoch != p->release_sent;
}

void peer_want(struct peer *p, bool stop, uint64_t bytes, uint64_t epoch)
{
	p->want_stop = stop;
	p->want_bytes = bytes;
	p->want_epoch = epoch;
}

void peer_ask(struct peer *p, uint64_t bytes, uint64_t had_bytes, uint64_t epoch)
{
	bool unheard_of = p->release_sent == 0 || p->asked_epoch != p->release_sent;

	p->release_bytes = bytes;
	p->release_had_bytes = had_bytes;
	/* To withdraw what did not go out yet, or was withdrawn, takes no record. */
	p->release_epoch = bytes || !unheard_of ? epoch : p->release_sent;
}

bool peer_owes(const struct peer *p)
{
	return p->release_bytes && (is_release_due(p) || p->given_bytes < p->release_bytes);
}

static int send_record(const struct peer *p, enum wire_kind kind, uint64_t epoch, uint64_t bytes)
{
	const struct wire_msg msg = {
		.version = PINCAP_WIRE_VERSION,
		.kind = kind,
		.epoch = epoch,
		.bytes = bytes,
	};

	if (send(p->fd, &msg, sizeof(msg), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(msg))
		return 0;
	return errno == ENOBUFS || errno == EINTR ? -EAGAIN : -errno;
}

static int send_signal(struct peer *p)
{
	int err = send_record(p, p->want_stop ? WIRE_STOP : WIRE_RESUME, p->want_epoch,
			      p->want_bytes);

	if (err)
		return err;
	p->told_stop = p->want_stop;
	p->told_epoch = p->want_epoch;
	if (p->told_stop)
		p->stop_epoch = p->told_epoch;
	return 1;
}

static int send_release(struct peer *p)
{
	int err = send_record(p, WIRE_RELEASE, p->release_epoch, p->release_bytes);

	if (err)
		return err;
	p->release_sent = p->release_epoch;
	if (!p->release_bytes)
		return 1;
	p->asked_epoch = p->release_epoch;
	p->given_before_bytes = plus(p->given_before_bytes, p->given_bytes);
	p->given_count = p->given_bytes = 0;
	return 1;
}

/* The older first: epochs rise on the wire. 1: sent, 0: nothing is due. */
static int send_next(struct peer *p)
{
	if (is_signal_due(p) && (!is_release_due(p) || p->want_epoch < p->release_epoch))
		return send_signal(p);
	return is_release_due(p) ? send_release(p) : 0;
}

void peer_flush(struct peer *p)
{
	int rc;

	if (p->fd < 0)
		return;
	do {
		rc = send_next(p);
	} while (rc > 0);
	sd_event_source_set_io_events(p->source, rc == -EAGAIN ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void peer_totals_add(struct peer_totals *t, const struct peer *p)
{
	const struct peer_totals one = {
		.told = p->stop_epoch != 0,
		.obeyed = p->stop_epoch && p->acked_epoch >= p->stop_epoch,
		.asked = p->asked_epoch != 0,
		.heard = p->asked_epoch && p->acked_epoch >= p->asked_epoch,
		.given_bytes = plus(p->given_before_bytes, p->given_bytes),
		.withheld_count = p->withheld_count,
		.withheld_bytes = p->withheld_bytes,
	};

	peer_totals_merge(t, &one);
}

void peer_totals_merge(struct peer_totals *t, const struct peer_totals *other)
{
	t->told += other->told;
	t->obeyed += other->obeyed;
	t->asked += other->asked;
	t->heard += other->heard;
	t->given_bytes = plus(t->given_bytes, other->given_bytes);
	t->withheld_count = plus(t->withheld_count, other->withheld_count);
	t->withheld_bytes = plus(t->withheld_bytes, other->withheld_bytes);
}

void peer_hang_up(struct peer *p)
{
	p->source = sd_event_source_disable_unref(p->source);
	if (p->fd >= 0)
		close(TAKE_FD(p->fd));
}

void peer_free(struct peer *p)
{
	peer_hang_up(p);
	list_take_out(&p->in_all);
	list_take_out(&p->in_scope);
	list_take_out(&p->in_pids);
	free(p->cgpath);
	free(p);
}
