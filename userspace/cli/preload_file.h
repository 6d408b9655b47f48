/* SPDX-License-Identifier: MIT */
/*
 * /etc/ld.so.preload as a file: read, and replaced as a whole or not at all. A
 * reader at any moment, a crash included, finds the old one or the new one.
 * Silent; knows nothing of what is in it.
 */
#ifndef PINCAP_PRELOAD_FILE_H
#define PINCAP_PRELOAD_FILE_H

#include <sys/stat.h>

#include "userspace/common/util.h"

#define PRELOAD_FILE "/etc/ld.so.preload"

struct preload_file {
	char *text;	/* NULL: there is none */
	struct stat st; /* of it */
};

/* One change at a time. An fd to close afterwards, -EWOULDBLOCK: somebody is at it. */
int preload_file_lock(void);

/* -ELOOP: a symbolic link; -EINVAL: not a regular file, or not text; -EFBIG. */
int preload_file_read(struct preload_file *ret);

void preload_file_done(struct preload_file *f);

/*
 * Make `text` its content, or take it away for NULL. Mode, owner and extended
 * attributes stay those of `old`; where there was none, root's, 0644.
 */
int preload_file_write(const struct preload_file *old, const char *text);

#endif
