/* SPDX-License-Identifier: MIT */
/*
 * A pincapd of the test's own: its configuration, its log, and what it tells systemd.
 * One at a time; the kernel side is the harness'.
 *
 * Environment: PINCAPD (build/pincapd).
 */
#ifndef TESTS_DAEMON_PINCAPD_H
#define TESTS_DAEMON_PINCAPD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* cmocka's group and test fixtures, around the harness' own. */
int pincapd_group_setup(void **state);
int pincapd_group_teardown(void **state);
int pincapd_teardown(void **state); /* after each test: ends it if it runs */

/* Its own directory, where the configuration is, the log and the sockets. */
const char *pincapd_dir(void);

/* Write the configuration. The sockets' paths are added. */
void pincapd_configure(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The same, and nothing is added. */
void pincapd_configure_raw(const char *text);

/* `pincapd --check` on it: the exit code, and what it says on stderr. */
int pincapd_check(char *ret, size_t size);

/* Returns when it is ready. `argument`: one more, or NULL. */
void pincapd_start_with(const char *argument);
void pincapd_start(void);
/* The two halves of it. */
void pincapd_begin(void);
void pincapd_wait(void);
pid_t pincapd_pid(void);

/* SIGTERM, and it must end well. */
void pincapd_stop(void);
void pincapd_kill(void); /* -9 */

/* SIGHUP; returns when it is ready again. */
void pincapd_reload(void);

/* Whether the log has it (an extended regular expression); waits for up to 5 s. */
bool pincapd_says(const char *regex);
/* How many lines have it by now. */
unsigned int pincapd_said(const char *regex);
/* All of it. */
void pincapd_log(char *ret, size_t size);
/* From here on; what was logged before is forgotten. */
void pincapd_forget(void);

/* The last STATUS= that systemd would show. Waits until it has the expression. */
bool pincapd_status(const char *regex);

/* A number from /proc/PID/FILE after `key`. */
long pincapd_number(const char *file, const char *key);

#endif
