/* SPDX-License-Identifier: MIT */
/*
 * What the controller wants back, and the program's function that gives it. Knows
 * no socket: advice.c hears RELEASE and reports what was given.
 */
#ifndef PINCAP_LIB_RELEASE_H
#define PINCAP_LIB_RELEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "userspace/lib/state.h"

/* As in pincap.h. -EBUSY: the function there is running; -ENOSYS: no state. */
int release_set_function(uint64_t (*fn)(uint64_t bytes, void *ctx), void *ctx);

/* A RELEASE was heard; 0 bytes withdraw the last. Under the advice's lock. */
void release_want(struct release *r, uint64_t epoch, uint64_t bytes);

/* Of the last RELEASE, what was given and is not reported. false: nothing. */
bool release_news(const struct release *r, uint64_t *ret_count, uint64_t *ret_bytes);

/* Bytes that are wanted still. */
uint64_t release_missing(const struct release *r);

/* Let the program give, if something is missing. true: it gave something. */
bool release_give(struct release *r);

#endif
