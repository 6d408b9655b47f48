/* SPDX-License-Identifier: MIT */
/*
 * Finds the function that an interposer stands in front of. Refuses to know
 * what it does.
 */
#ifndef PINCAP_REAL_H
#define PINCAP_REAL_H

#include <stdatomic.h>

/* The next definition of `name` after ours, or the one of the loaded HIP
 * runtime; kept in *slot, which starts as NULL. NULL when there is none (asked
 * again next time: the runtime may be loaded later). Keeps errno. */
void *real_find(_Atomic(void *) *slot, const char *name);

#endif
