/* SPDX-License-Identifier: MIT */
/*
 * The private socket options, bare. Each returns 0 (ask_settle: the bytes that stay
 * held) or a negative errno.
 */
#ifndef TESTS_KERNEL_ASK_H
#define TESTS_KERNEL_ASK_H

#include <errno.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bpf/intf.h"

#define KIB 1024LL
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define TIB (1024 * GIB)

static inline int ask_raw(int fd, int option, const void *value, socklen_t len)
{
	return setsockopt(fd, SOL_PINCAP, option, value, len) ? -errno : 0;
}

static inline int ask_charge(int fd, uint64_t bytes, uint32_t kind)
{
	struct pincap_charge c = { .bytes = bytes, .kind = kind };

	return ask_raw(fd, PINCAP_CHARGE, &c, sizeof(c));
}

/* As the library asks where a daemon lives: again, while the budget of a new cgroup is not
 * decided on. */
static inline int ask_decided(int fd, uint64_t bytes, uint32_t kind)
{
	int err;

	for (int i = 0; i < 50000; i++) {
		err = ask_charge(fd, bytes, kind);
		if (err != -EINPROGRESS)
			break;
		usleep(100);
	}
	return err;
}

static inline int ask_uncharge(int fd, uint64_t bytes)
{
	return ask_raw(fd, PINCAP_UNCHARGE, &bytes, sizeof(bytes));
}

static inline int64_t ask_settle(int fd)
{
	uint64_t stays = 0;
	socklen_t len = sizeof(stays);

	return getsockopt(fd, SOL_PINCAP, PINCAP_SETTLE, &stays, &len) ? -errno : (int64_t)stays;
}

static inline int ask_status(int fd, struct pincap_status *st)
{
	socklen_t len = sizeof(*st);

	return getsockopt(fd, SOL_PINCAP, PINCAP_STATUS, st, &len) ? -errno : 0;
}

#endif
