/* SPDX-License-Identifier: MIT */
/*
 * A directory of its own for each test of the configuration, and what every test asks
 * of a load: that it works, or that it fails with one line and changes nothing.
 */
#ifndef PINCAP_TEST_CONFIG_CASE_H
#define PINCAP_TEST_CONFIG_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "userspace/common/util.h"
#include "userspace/control/config.h"

/* cmocka set-up and tear-down: make the directory and change to it, remove it. */
int config_case_enter(void **state);
int config_case_leave(void **state);

void write_bytes(const char *name, const void *bytes, size_t len);
void write_text(const char *name, const char *text);

/* Loads; fails the test, with the error, if it does not. */
struct config *load(const char *name);

/* What config_print makes of it, malloc'd. */
char *printed(const struct config *c);

/*
 * Loads `name`, which must fail with exactly one line of printable bytes that begins
 * with `where` ("FILE:3: budgets[0].limit: ") and holds `what`, and leave the caller's
 * configuration as it was; check_config must print the same line and return 1.
 */
void expect_fault(const char *name, const char *where, const char *what);

#endif
