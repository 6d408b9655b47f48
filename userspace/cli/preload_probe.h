/* SPDX-License-Identifier: MIT */
/*
 * Self-test of a host-wide preload: runs some programs of the host, with an empty
 * environment, before and after the entry is written. Starts programs, changes
 * nothing.
 */
#ifndef PINCAP_PRELOAD_PROBE_H
#define PINCAP_PRELOAD_PROBE_H

#include "userspace/common/util.h"

#define PROBE_MAX 8

/* Which of the optional programs (static, set-user-ID) run well without us. */
struct probe_baseline {
	bool runs[PROBE_MAX];
};

void probe_baseline(struct probe_baseline *ret);

/* As if `entry` was in /etc/ld.so.preload. NULL: all is well; else what is not,
 * one line, malloc'd. */
char *probe_preloaded(const char *entry);

/* The same with what is in /etc/ld.so.preload. */
char *probe_attached(const struct probe_baseline *b);

#endif
