/* SPDX-License-Identifier: MIT */
/*
 * What stays held, by pointer: a multiset, because a runtime accepts the same
 * pointer twice and locks it twice. Empty in a forked child.
 */
#ifndef PINCAP_HELD_H
#define PINCAP_HELD_H

#include <stdbool.h>
#include <stdint.h>

/* False if it cannot be remembered; it is then held until the process ends. */
bool held_add(const void *ptr, uint64_t bytes);

/* Take out one entry of `ptr`: its bytes, or 0 for an unknown pointer. Take it
 * before the real free, and add it again if that fails: after it another thread
 * may be given the same address. */
uint64_t held_take(const void *ptr);

#endif
