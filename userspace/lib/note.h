/* SPDX-License-Identifier: MIT */
/*
 * PINCAP_LOG=1: one line per decision on stderr, in one write(2), without stdio
 * or malloc. Silence otherwise.
 */
#ifndef PINCAP_NOTE_H
#define PINCAP_NOTE_H

#include <stdint.h>

/* "pincap[PID]: FUNCTION: WHAT, N bytes". */
void note(const char *function, const char *what, uint64_t bytes);

#endif
