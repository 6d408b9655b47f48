/* SPDX-License-Identifier: MIT */
/*
 * The library's end of the notify socket. One thread at a time tends it; the
 * others do not wait but go by what it left in `stopped`. The program may close
 * any descriptor and open its own under the same number, so that the identity
 * of ours is checked before each use.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "userspace/common/wire.h"
#include "userspace/lib/advice.h"
#include "userspace/lib/release.h"
#include "userspace/lib/state.h"

#define RETRY_NS  1000000000ULL /* between attempts to connect */
#define BURST_MAX 64		/* records read in one go; a flood must not hold the caller */

/* From the environment, once: getenv() is no friend of setenv(). */
static struct sockaddr_un address = { .sun_family = AF_UNIX };
enum { ADDRESS_UNKNOWN, ADDRESS_NONE, ADDRESS_SET, ADDRESS_DEFAULT };
static atomic_int address_state;

/* The identity of the descriptor in advice.fd_plus_1. Not wiped by a fork: so
 * that a child can close the copy it inherited, or the controller would not see
 * its parent go. */
static struct {
	int fd;
	dev_t dev;
	ino_t ino;
} opened = { .fd = -1 };

static bool try_lock(struct advice *a)
{
	return atomic_exchange_explicit(&a->busy, 1, memory_order_acquire) == 0;
}

static void unlock(struct advice *a)
{
	atomic_store_explicit(&a->busy, 0, memory_order_release);
}

/* A set-user-ID program is not told by its caller's environment where to ask. */
static bool address_read(void)
{
	const char *path;
	size_t len;

	if (address_state == ADDRESS_UNKNOWN) {
		path = secure_getenv(PINCAP_ENV_NOTIFY);
		len = strlen(path ? path : PINCAP_NOTIFY_DEFAULT);
		if (len > 0 && len < sizeof(address.sun_path)) {
			memcpy(address.sun_path, path ? path : PINCAP_NOTIFY_DEFAULT, len + 1);
			address_state = path ? ADDRESS_SET : ADDRESS_DEFAULT;
		} else {
			address_state = ADDRESS_NONE;
		}
	}
	return address_state != ADDRESS_NONE;
}

/* Nobody chose the default address for this process: root alone may listen there. */
static bool is_trusted(int fd)
{
	struct ucred cred = { .uid = (uid_t)-1 };
	socklen_t len = sizeof(cred);

	return address_state != ADDRESS_DEFAULT ||
	       (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) == 0 && cred.uid == 0);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts); /* asked at every call, for a second */
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static bool is_open(void)
{
	struct stat st;

	return opened.fd >= 0 && fstat(opened.fd, &st) == 0 && S_ISSOCK(st.st_mode) &&
	       st.st_dev == opened.dev && st.st_ino == opened.ino;
}

static void close_opened(void)
{
	if (is_open())
		close(opened.fd);
	opened.fd = -1;
}

static struct release *release_of(struct advice *a)
{
	return &((struct state *)((char *)a - offsetof(struct state, advice)))->release;
}

/* The connection is over: nobody says stop any more, or wants something. */
static void forget(struct advice *a)
{
	close_opened();
	a->fd_plus_1 = 0;
	a->stopped = false;
	if (release_missing(release_of(a)))
		release_want(release_of(a), 0, 0);
}

/* The descriptor, or -1. */
static int connected(struct advice *a)
{
	int fd = a->fd_plus_1 - 1;

	if (fd < 0)
		return -1;
	if (fd == opened.fd && is_open())
		return fd;
	forget(a);
	return -1;
}

/* False when it was not sent; a dead connection is forgotten. */
static bool send_record(struct advice *a, int fd, const struct wire_msg *msg)
{
	if (send(fd, msg, sizeof(*msg), MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(*msg))
		return true;
	if (errno != EAGAIN && errno != EINTR && errno != ENOBUFS && errno != ENOMEM)
		forget(a);
	return false;
}

static bool tell(struct advice *a, int fd, enum wire_kind kind, uint64_t epoch)
{
	struct wire_msg msg = {
		.version = PINCAP_WIRE_VERSION,
		.kind = kind,
		.epoch = epoch,
	};

	if (kind != WIRE_HELLO) {
		msg.count = a->withheld_count;
		msg.bytes = a->withheld_bytes;
	}
	if (!send_record(a, fd, &msg))
		return false;
	a->reported = msg.count;
	return true;
}

static void tell_given(struct advice *a, int fd)
{
	struct release *r = release_of(a);
	struct wire_msg msg = {
		.version = PINCAP_WIRE_VERSION,
		.kind = WIRE_GIVEN,
		.epoch = r->epoch,
	};
	uint64_t count, bytes;

	if (!release_news(r, &count, &bytes))
		return;
	msg.count = count;
	msg.bytes = bytes;
	if (send_record(a, fd, &msg))
		r->reported = count;
}

/* Non-blocking from birth: a controller that does not accept costs an EAGAIN. */
static void connect_again(struct advice *a)
{
	uint64_t now = now_ns();
	struct stat st;
	int fd;

	if (now < a->retry_ns)
		return;
	a->retry_ns = now + RETRY_NS;

	close_opened(); /* the parent's */
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return;
	fd = fd_move_high(fd);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) || !is_trusted(fd) ||
	    fstat(fd, &st)) {
		close(fd);
		return;
	}
	opened.dev = st.st_dev;
	opened.ino = st.st_ino;
	opened.fd = fd;
	a->epoch = 0; /* each controller counts from 1 */
	a->acked = 0;
	a->reported = 0;
	a->fd_plus_1 = fd + 1;
	tell(a, fd, WIRE_HELLO, 0);
}

static void obey(struct advice *a, int fd, const struct wire_msg *msg)
{
	if (msg->version != PINCAP_WIRE_VERSION)
		return;
	if (msg->kind != WIRE_STOP && msg->kind != WIRE_RESUME && msg->kind != WIRE_RELEASE)
		return;
	if (msg->epoch == 0 || msg->epoch < a->epoch)
		return;
	/* The same epoch again: our ACK was lost, nothing is new. */
	if (msg->epoch > a->epoch && msg->kind == WIRE_RELEASE)
		release_want(release_of(a), msg->epoch, msg->bytes);
	else if (msg->epoch > a->epoch)
		a->stopped = msg->kind == WIRE_STOP;
	a->epoch = msg->epoch;
	if (tell(a, fd, WIRE_ACK, msg->epoch))
		a->acked = msg->epoch;
}

static void drain(struct advice *a, int fd)
{
	struct wire_msg msg;
	ssize_t len;
	int i;

	for (i = 0; i < BURST_MAX && a->fd_plus_1; i++) {
		len = recv(fd, &msg, sizeof(msg), MSG_DONTWAIT | MSG_TRUNC);
		if (len == (ssize_t)sizeof(msg)) {
			obey(a, fd, &msg);
			continue;
		}
		if (len > 0)
			continue;
		if (len == 0 || (errno != EAGAIN && errno != EINTR))
			forget(a);
		return;
	}
}

static void tend(struct advice *a)
{
	int fd = connected(a);

	if (fd < 0) {
		connect_again(a);
		fd = a->fd_plus_1 - 1;
	}
	if (fd < 0)
		return;
	drain(a, fd);
	if (a->fd_plus_1 && a->acked != a->epoch && tell(a, fd, WIRE_ACK, a->epoch))
		a->acked = a->epoch;
	if (a->fd_plus_1 && a->stopped && a->reported != a->withheld_count)
		tell(a, fd, WIRE_WITHHELD, a->epoch);
	if (a->fd_plus_1)
		tell_given(a, fd);
}

/* NULL when the environment says there is no socket; then this costs two loads. */
static struct advice *look(void)
{
	struct state *s;
	int saved = errno;
	int cancel;

	if (atomic_load_explicit(&address_state, memory_order_relaxed) == ADDRESS_NONE)
		return NULL;
	s = state_get();
	if (s && try_lock(&s->advice)) {
		cancel = cancel_off();
		if (address_read())
			tend(&s->advice);
		cancel_restore(cancel);
		unlock(&s->advice);
	}
	errno = saved;
	return s ? &s->advice : NULL;
}

bool advice_poll(void)
{
	struct advice *a = look();

	return a && a->stopped;
}

bool advice_dispatch(void)
{
	struct advice *a = look();

	if (a && release_give(release_of(a)))
		look();
	return a && a->stopped;
}

void advice_release(uint64_t *ret_epoch, uint64_t *ret_bytes)
{
	struct state *s = state_get();

	*ret_epoch = s ? s->advice.epoch : 0;
	*ret_bytes = s ? release_missing(&s->release) : 0;
}

void advice_withheld(uint64_t bytes)
{
	struct state *s = state_get();

	if (!s)
		return;
	s->advice.withheld_bytes += bytes;
	s->advice.withheld_count++;
	look();
}

void advice_totals(uint64_t *ret_count, uint64_t *ret_bytes)
{
	struct state *s = state_get();

	*ret_count = s ? s->advice.withheld_count : 0;
	*ret_bytes = s ? s->advice.withheld_bytes : 0;
}

int advice_fd(void)
{
	struct advice *a = look();
	int fd = a ? a->fd_plus_1 - 1 : -1;

	if (fd >= 0)
		return fd;
	return a && a->busy ? -EAGAIN : -ENOTCONN;
}
