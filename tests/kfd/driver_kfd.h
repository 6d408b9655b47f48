/* SPDX-License-Identifier: MIT */
/*
 * The emulated driver's answer to one ioctl, on a copy of its argument.
 */
#ifndef DRIVER_KFD_H
#define DRIVER_KFD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct opener;

/* The argument is in_bytes long on the way in; what is written to it on success
 * goes back to the caller. 0 or a negative errno, which the ioctl returns. */
int driver_kfd_answer(struct opener *o, pid_t tid, uint32_t cmd, void *arg, size_t in_bytes);

/* What is written to the file: the report by which the library in the workload
 * tells of munmap (see kfd_emu.h). */
int driver_kfd_write(struct opener *o, pid_t tid, const char *text, size_t bytes);

#endif
