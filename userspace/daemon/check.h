/* SPDX-License-Identifier: MIT */
/* `pincapd --check FILE`: is this configuration good, without touching anything. */
#ifndef PINCAP_CHECK_H
#define PINCAP_CHECK_H

#include <stdbool.h>

/*
 * Reads FILE and its drop-ins. Good: "FILE: OK, N rules" on stdout, or with `print`
 * all that would be in force, as YAML; returns 0. Bad: one line on stderr, returns 1.
 */
int check_config(const char *path, bool print);

#endif
