/* SPDX-License-Identifier: MIT */
/*
 * Words for people, on stderr, each line headed by the program's name; for the
 * journal by the priority instead. Names of cgroups and processes are tenants' words:
 * control characters come out escaped, so that a line stays one and drives no
 * terminal.
 *
 * Library code stays silent; the place that decides what happens next logs
 * once. Results go to stdout and not through here.
 */
#ifndef PINCAP_LOG_H
#define PINCAP_LOG_H

#include "util.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* Default: info; PINCAP_DEBUG in the environment or --verbose: debug. */
void log_set_level(enum log_level level);
/* "pincap" until then. Kept, not copied. */
void log_set_name(const char *name);
bool log_enabled(enum log_level level);

void log_printf(enum log_level level, const char *fmt, ...) _printf_(2, 3);

#define pr_err(...)   log_printf(LOG_LEVEL_ERROR, __VA_ARGS__)
#define pr_warn(...)  log_printf(LOG_LEVEL_WARNING, __VA_ARGS__)
#define pr_info(...)  log_printf(LOG_LEVEL_INFO, __VA_ARGS__)
#define pr_debug(...) log_printf(LOG_LEVEL_DEBUG, __VA_ARGS__)

/* `text` with control characters as "\x1b"; cut where `size` ends. */
void log_escape(const char *text, char *buf, size_t size);

/* Log "<text>: <strerror(-err)>" and return err. */
int log_ret(int err, const char *fmt, ...) _printf_(2, 3);

#endif
