/* SPDX-License-Identifier: MIT */
/*
 * Sizes as people write them. Pure: knows neither the machine nor what a size
 * is for; "of what" a percentage is, the caller says.
 *
 * Units are K M G T P with an optional "iB" or "B", in either case, all to
 * base 1024 ("8GB" is "8G"). Arithmetic is exact; a size that does not come out
 * at a whole byte is rounded down. A fraction without a unit is an error: half
 * a byte was not meant.
 */
#ifndef PINCAP_SIZE_H
#define PINCAP_SIZE_H

#include <stdint.h>

#include "bpf/intf.h"

#define SIZE_UNLIMITED	  PINCAP_UNLIMITED
#define SIZE_FORMAT_BYTES 32 /* for size_format; the longest is "16384.0 PiB" */

/*
 * Reads "8G", "512M", "1.5GiB", "4096", "40%" (of `whole`), and "infinity",
 * "max" or "unlimited" (SIZE_UNLIMITED). -EINVAL: anything else, spaces, signs,
 * an exponent, hexadecimal, more than 16 digits after the point. -ERANGE: more
 * than 100%, or as much as SIZE_UNLIMITED.
 */
int size_parse(const char *text, uint64_t whole, uint64_t *ret);

/* "0 B", "1023 B", "512.0 MiB", "infinity"; to the nearest tenth. Returns buf. */
const char *size_format(uint64_t bytes, char buf[static SIZE_FORMAT_BYTES]);

#endif
