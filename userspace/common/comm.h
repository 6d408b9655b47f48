/* SPDX-License-Identifier: MIT */
/* The name of a process, for people. A tenant's word: log_printf escapes it. */
#ifndef PINCAP_COMM_H
#define PINCAP_COMM_H

#include <sys/types.h>

#define COMM_BYTES 16

/* "" where it is gone. Returns ret. */
const char *comm_of_pid(pid_t pid, char ret[COMM_BYTES]);

#endif
