/* SPDX-License-Identifier: MIT */
/*
 * Which running processes have the library in them, by what they have mapped.
 * Best effort: they come and go, and others' cannot be looked into without root.
 */
#ifndef PINCAP_MAPPED_H
#define PINCAP_MAPPED_H

#include <sys/types.h>

#include "userspace/common/util.h"

struct mapped_count {
	unsigned int with;
	unsigned int without;
	unsigned int unknown;
};

/* 1: it has, 0: it has not; -errno: -ESRCH for one without memory (a kernel
 * thread, a zombie) or that is gone. */
int mapped_in(pid_t pid);

int mapped_count(struct mapped_count *ret);

#endif
