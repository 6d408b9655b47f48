/* SPDX-License-Identifier: MIT */
/*
 * The controller's end for tests, in the process of the library itself, which
 * never waits for it: so one thread will do.
 */
#ifndef CONTROLLER_H
#define CONTROLLER_H

#include <sys/un.h>
#include <time.h>

#include "userspace/common/wire.h"

#define PAGE 4096UL
#define BIG  (1UL << 20) /* asked for under STOP: refused unasked */

extern struct sockaddr_un address;
extern char *mem; /* 4 MiB */
extern int listener;
extern int peer; /* the library's connection */

/* Of a group: names the socket to the library; removes it. */
int controller_begin(void **state);
int controller_end(void **state);

/* Of a test: a connected library that has said hello. */
int setup(void **state);
int teardown(void **state);

/* One hooked call that changes nothing: time for the library to look. */
void nudge(void);

long elapsed_ms(const struct timespec *since);
void listen_again(int backlog);

/* Library calls until it has connected; it tries once a second. */
void accept_soon(void);

void say(__u32 version, __u32 kind, __u64 epoch);
void say_bytes(__u32 version, __u32 kind, __u64 epoch, __u64 bytes);
void expect(__u32 kind, __u64 epoch, __u64 count, __u64 bytes);
void expect_silence(void);
void skip_records(void);

#endif
