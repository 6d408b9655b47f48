/* SPDX-License-Identifier: MIT */
/*
 * Admission: the private socket options of bpf/intf.h on one socket that is
 * opened at the first request. The kernel looks at the caller, not at the
 * socket, so that any socket serves any thread, a forked child uses the copy it
 * inherited, and it is of no matter if the program closed ours and now has a
 * socket of its own under that number.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "userspace/lib/advice.h"
#include "userspace/lib/client.h"
#include "userspace/lib/pincap.h"
#include "userspace/lib/state.h"

_Static_assert((int)PINCAP_KIND_LOCK == (int)PINCAP_LOCK, "public name");
_Static_assert((int)PINCAP_KIND_DRIVER == (int)PINCAP_DRIVER, "public name");
_Static_assert(PINCAP_NO_LIMIT == PINCAP_UNLIMITED, "public name");
_Static_assert(CLIENT_STOPPED == -EBUSY, "not one of the kernel's answers");

/* While the budget of a new cgroup is being decided. */
#define WAIT_FIRST_NS 1000000L
#define WAIT_NEXT_NS  10000000L
#define WAIT_ALL_NS   1000000000ULL

static atomic_int admission_fd = -1;

/* Replace `stale` (-1: none yet) unless another thread has. Never closes it: if
 * it was ours the program closed it, and if it is open it is not ours. */
static int reopen(int stale)
{
	int cancel = cancel_off();
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd >= 0) {
		fd = fd_move_high(fd);
		if (!atomic_compare_exchange_strong(&admission_fd, &stale, fd)) {
			close(fd);
			fd = stale;
		}
	}
	cancel_restore(cancel);
	return fd;
}

/* One option, asked on a socket that works. 0 or -errno; no socket to be had is
 * EBADF, whatever socket() said: only an answer to the question may be one. */
static int ask(bool set, int option, void *value, socklen_t size)
{
	int fd = atomic_load_explicit(&admission_fd, memory_order_relaxed);
	socklen_t len = size;
	int tries;
	int rc;

	for (tries = 0; tries < 3; tries++) {
		if (fd < 0 || tries > 0)
			fd = reopen(fd);
		if (fd < 0)
			return -EBADF;
		if (set)
			rc = setsockopt(fd, SOL_PINCAP, option, value, size);
		else
			rc = getsockopt(fd, SOL_PINCAP, option, value, &len);
		if (rc == 0)
			return len == size ? 0 : -EPROTO;
		if (errno != EBADF && errno != ENOTSOCK)
			return -errno;
	}
	return -EBADF;
}

/* Three answers are refusals; any other error means that nobody answered: not
 * loaded, a seccomp filter, no descriptor left. That is not remembered, because
 * it costs one failing system call to ask and pincap may be loaded any time. */
static int verdict(int err)
{
	switch (err) {
	case 0:
	case -EDQUOT:
	case -ENOMEM:
	case -EAGAIN:
		return err;
	default:
		return PINCAP_UNMANAGED;
	}
}

/* Stopped: do not ask. Except for the few pages of a key store, which a full
 * budget admits as well: how much of that is used up only the kernel knows. */
static bool must_not_ask(uint64_t bytes, int kind)
{
	return advice_poll() && !(kind == PINCAP_LOCK && bytes <= PINCAP_SMALL_BYTES);
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ULL + (uint64_t)ts.tv_nsec;
}

static void sleep_ns(long ns)
{
	struct timespec left = { .tv_nsec = ns };
	int cancel = cancel_off();

	while (nanosleep(&left, &left) && errno == EINTR)
		continue;
	cancel_restore(cancel);
}

/* Put off: the budget is being decided, or the kernel side upgraded. Who never gets to
 * it must not hold the workload: then the last answer stands, which counts as none. */
static int ask_until_answered(bool set, int option, void *value, socklen_t size)
{
	int rc = ask(set, option, value, size);
	uint64_t end;
	long ns = WAIT_FIRST_NS;

	if (rc != -EINPROGRESS)
		return rc;
	end = now_ns() + WAIT_ALL_NS;
	while (rc == -EINPROGRESS && now_ns() + (uint64_t)ns <= end) {
		sleep_ns(ns);
		ns = 2 * ns < WAIT_NEXT_NS ? 2 * ns : WAIT_NEXT_NS;
		rc = ask(set, option, value, size);
	}
	return rc;
}

int client_charge(uint64_t bytes, int kind)
{
	struct pincap_charge charge = { .bytes = bytes, .kind = (__u32)kind };
	int saved = errno;
	int rc;

	if (bytes == 0 || bytes > PINCAP_MAX_BYTES)
		return -EINVAL;
	if (kind != PINCAP_LOCK && kind != PINCAP_DRIVER)
		return -EINVAL;
	if (must_not_ask(bytes, kind))
		return CLIENT_STOPPED;
	rc = ask_until_answered(true, PINCAP_CHARGE, &charge, sizeof(charge));
	errno = saved;
	return verdict(rc);
}

int64_t client_settle(void)
{
	int saved = errno;
	__u64 held = 0;
	int rc = ask_until_answered(false, PINCAP_SETTLE, &held, sizeof(held));

	errno = saved;
	return rc || held > INT64_MAX ? -ENOPROTOOPT : (int64_t)held;
}

int client_uncharge(uint64_t bytes)
{
	int saved = errno;
	__u64 value = bytes;
	int rc;

	if (bytes == 0 || bytes > PINCAP_MAX_BYTES)
		return -EINVAL;
	rc = ask_until_answered(true, PINCAP_UNCHARGE, &value, sizeof(value));
	errno = saved;
	return rc == 0 ? 0 : PINCAP_UNMANAGED;
}

int client_status(struct pincap_status *ret)
{
	struct pincap_status status = {};
	int saved = errno;
	int rc = ask(false, PINCAP_STATUS, &status, sizeof(status));

	errno = saved;
	if (rc || status.abi != PINCAP_ABI)
		return PINCAP_UNMANAGED;
	*ret = status;
	return 0;
}
