/* SPDX-License-Identifier: MIT */
/*
 * Processes that had a GPU device open before its ioctls were read: what they had the
 * driver hold until then is in no counter, and no one can tell afterwards.
 */
#ifndef PINCAP_OPENERS_H
#define PINCAP_OPENERS_H

/* Warn of them, in one line that names the first few. Silent where there are none. */
void openers_warn(const char *path);

#endif
