/* SPDX-License-Identifier: MIT */
/*
 * /etc/ld.so.preload as text: names of libraries between blanks, colons and
 * newlines, and comments from '#' on. Ours is whichever is called
 * PRELOAD_LIBRARY; everything else stays as it is. Pure.
 */
#ifndef PINCAP_PRELOAD_TEXT_H
#define PINCAP_PRELOAD_TEXT_H

#include "userspace/common/util.h"

#define PRELOAD_LIBRARY "libpincap-preload.so"

/*
 * The text with `entry` as the only one of ours, or with none for NULL. `text`
 * NULL, and *ret NULL: no file; what was empty before keeps a newline, so that
 * only a file that we made comes to nothing again. No comment of ours says who
 * did it: glibc up to 2.36 at least takes later comments for names where there
 * are several. *ret is malloc'd. 0 or -ENOMEM.
 */
int preload_text_edit(const char *text, const char *entry, char **ret);

/* How many entries are ours. The first is copied to *ret, malloc'd, unless 0. */
int preload_text_find(const char *text, char **ret);

#endif
