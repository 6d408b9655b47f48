/* SPDX-License-Identifier: MIT */
/*
 * Asks a scope's libraries for memory: takes what each process holds from the
 * kernel's counters and the shares from decide. Whether it was given back is for
 * the counters to say.
 */
#ifndef PINCAP_RELEASE_H
#define PINCAP_RELEASE_H

#include "userspace/control/kernel.h"
#include "userspace/control/notify.h"

/* `bytes` in total, the largest holder first. Returns the number of processes
 * that were asked; *ret_rest: what nobody holds who could be asked. */
int release_ask(struct kernel *k, struct notify *n, struct notify_scope *s, uint64_t bytes,
		uint64_t *ret_rest);

#endif
