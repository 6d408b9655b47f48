/* SPDX-License-Identifier: MIT */
/*
 * The render node's answer to one ioctl: GEM's buffers. See driver_kfd.h for
 * the arguments.
 */
#ifndef DRIVER_DRM_H
#define DRIVER_DRM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct opener;

int driver_drm_answer(struct opener *o, pid_t tid, uint32_t cmd, void *arg, size_t in_bytes);

#endif
