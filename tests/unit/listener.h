/* SPDX-License-Identifier: MIT */
/*
 * A notify at a socket of its own for each test, and the library's end of it as
 * the test plays it.
 */
#ifndef TESTS_UNIT_LISTENER_H
#define TESTS_UNIT_LISTENER_H

#include "userspace/common/wire.h"
#include "userspace/control/notify.h"

struct fixture {
	sd_event *event;
	struct notify *notify;
	struct notify_scope *scope; /* at the path that it was started at */
	char dir[64];
	char path[96];
};

/* Begins listening at our own cgroup. */
int set_up(void **state);
int tear_down(void **state);

/* Listens anew, for processes at or below cgpath. */
void start_at(struct fixture *f, const char *cgpath);

/* Everything that is ready now, and what that makes ready. */
void serve(struct fixture *f);

/* A connection, or -errno. */
int dial(const struct fixture *f);
int say(int fd, enum wire_kind kind, uint64_t epoch, uint64_t count, uint64_t bytes);

/* A connection that has said hello and was listened to. */
int hello(struct fixture *f);

/* The next record's kind, 0 where there is none; -1 where the other end closed. */
int hear(int fd, uint64_t *ret_epoch);

struct notify_stats stats(const struct fixture *f);

#endif
