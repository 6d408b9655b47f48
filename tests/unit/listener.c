/* SPDX-License-Identifier: MIT */
/* See listener.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "tests/unit/listener.h"
#include "userspace/common/cgroup.h"

void start_at(struct fixture *f, const char *cgpath)
{
	f->notify = notify_free(f->notify);
	assert_int_equal(notify_new(&f->notify, f->event, f->path, cgpath), 0);
	assert_int_equal(notify_scope_new(&f->scope, f->notify, cgpath), 0);
}

int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	_cleanup_free_ char *own = NULL;

	assert_non_null(f);
	strcpy(f->dir, "/tmp/pincap-test-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	snprintf(f->path, sizeof(f->path), "%s/sock", f->dir);
	assert_true(sd_event_new(&f->event) >= 0);
	assert_int_equal(cgroup_of_pid(0, &own), 0);
	start_at(f, own);
	*state = f;
	return 0;
}

int tear_down(void **state)
{
	struct fixture *f = *state;

	notify_free(f->notify);
	assert_int_equal(access(f->path, F_OK), -1);
	sd_event_unref(f->event);
	assert_int_equal(rmdir(f->dir), 0);
	free(f);
	return 0;
}

void serve(struct fixture *f)
{
	int n;

	while ((n = sd_event_run(f->event, 0)) > 0)
		continue;
	assert_int_equal(n, 0);
}

int dial(const struct fixture *f)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	strcpy(addr.sun_path, f->path);
	return connect(fd, (struct sockaddr *)&addr, sizeof(addr)) ? -errno : fd;
}

int say(int fd, enum wire_kind kind, uint64_t epoch, uint64_t count, uint64_t bytes)
{
	struct wire_msg m = { PINCAP_WIRE_VERSION, kind, epoch, count, bytes };

	return send(fd, &m, sizeof(m), MSG_NOSIGNAL) == sizeof(m) ? 0 : -errno;
}

int hello(struct fixture *f)
{
	int fd = dial(f);

	assert_true(fd >= 0);
	assert_int_equal(say(fd, WIRE_HELLO, 0, 0, 0), 0);
	serve(f);
	return fd;
}

int hear(int fd, uint64_t *ret_epoch)
{
	struct wire_msg m;
	ssize_t len = recv(fd, &m, sizeof(m), MSG_DONTWAIT);

	if (len < 0)
		return errno == EAGAIN ? 0 : -1;
	if (len == 0)
		return -1;
	assert_int_equal(len, sizeof(m));
	assert_int_equal(m.version, PINCAP_WIRE_VERSION);
	if (ret_epoch)
		*ret_epoch = m.epoch;
	return (int)m.kind;
}

struct notify_stats stats(const struct fixture *f)
{
	struct notify_stats s;

	notify_get_stats(f->notify, &s);
	return s;
}
