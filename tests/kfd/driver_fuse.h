/* SPDX-License-Identifier: MIT */
/*
 * One regular file, served over /dev/fuse: its ioctls go to the emulated
 * driver, reading it tells what the driver holds. Knows the FUSE protocol and
 * nothing of buffers.
 */
#ifndef DRIVER_FUSE_H
#define DRIVER_FUSE_H

#include <stdbool.h>

#include "tests/kfd/driver_table.h"

struct fuse_file;

/* Mount over path, which is created if need be. 0 or negative errno. */
int fuse_file_open(struct fuse_file **ret, const char *path, struct table *t,
		   enum opener_kind kind);
/* Unmounts, and removes the file if fuse_file_open() created it. */
struct fuse_file *fuse_file_close(struct fuse_file *f);

/* Readable when a request waits. */
int fuse_file_fd(const struct fuse_file *f);

/* Serve a request. 1: done; 0: none waits. -ENODEV: the mount is gone. */
int fuse_file_serve(struct fuse_file *f);

#endif
