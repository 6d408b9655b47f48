/* SPDX-License-Identifier: MIT */
/*
 * The controller's advice (STOP, RESUME, RELEASE) over the notify socket that the
 * environment names, else the daemon's if root listens there; an empty name means
 * none. Never blocks, keeps errno. It spares the question; the kernel's answer is
 * what binds.
 */
#ifndef PINCAP_ADVICE_H
#define PINCAP_ADVICE_H

#include <stdbool.h>
#include <stdint.h>

/* Connect if need be, read and acknowledge what has come. True while stopped. */
bool advice_poll(void);

/* A request of `bytes` was refused without asking: count it, tell the controller. */
void advice_withheld(uint64_t bytes);

/* So far in this process. */
void advice_totals(uint64_t *ret_count, uint64_t *ret_bytes);

/* advice_poll(), and let the program give back what is wanted, in this thread. */
bool advice_dispatch(void);

/* Of the last signal obeyed, 0: none; and the bytes that are wanted back still. */
void advice_release(uint64_t *ret_epoch, uint64_t *ret_bytes);

/* The connected descriptor, -ENOTCONN or -EAGAIN. */
int advice_fd(void);

#endif
