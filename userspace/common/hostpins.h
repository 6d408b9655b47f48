/* SPDX-License-Identifier: MIT */
/*
 * Pins of the whole machine, as the kernel's page counters have them: each
 * pin_user_pages not yet undone, whoever made it and wherever he is now.
 */
#ifndef PINCAP_HOSTPINS_H
#define PINCAP_HOSTPINS_H

#include "util.h"

/* Bytes that are pinned now (nr_foll_pin_acquired - nr_foll_pin_released). The
 * counters are folded first, which needs root; else they lag by some pages per
 * CPU. -ENOENT: this kernel does not count them. */
int hostpins_read(uint64_t *ret_bytes);

/* The same from an open /proc/vmstat, in pages. */
int hostpins_parse(FILE *f, uint64_t *ret_pages);

#endif
