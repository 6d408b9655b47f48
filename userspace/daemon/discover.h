/* SPDX-License-Identifier: MIT */
/*
 * Which cgroups there are: all of the tree at start and whenever an event was lost,
 * else what the kernel side tells of. A new cgroup's first request waits until it
 * has been decided on here.
 */
#ifndef PINCAP_DISCOVER_H
#define PINCAP_DISCOVER_H

#include "userspace/daemon/daemon.h"

/* Put the rules into force for every cgroup of the tree, and lift what earlier rules
 * gave to those that none matches now. `keep`: what was set by hand stays. */
int discover_all(struct daemon *d, bool keep);

/* A cgroup was made; `path` as of the event. */
void discover_made(struct daemon *d, uint64_t cgid, const char *path);

/* To be called when all events that waited have been handled: an event may have been
 * lost, and there is more to be found. */
void discover_lost(struct daemon *d);

#endif
