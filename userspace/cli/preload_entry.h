/* SPDX-License-Identifier: MIT */
/*
 * Whether a library may be loaded into every program of the host, root's and
 * set-user-ID ones too, and how its name is written in /etc/ld.so.preload.
 *
 * ld.so complains on stderr, at every start, of an entry that it cannot load, and
 * a 32-bit one cannot load ours ("wrong ELF class"). So the entry has $LIB in it,
 * where each ld.so puts the library directory of its kind, and in that of the
 * 32-bit ones an empty stand-in is installed.
 */
#ifndef PINCAP_PRELOAD_ENTRY_H
#define PINCAP_PRELOAD_ENTRY_H

#include "userspace/common/util.h"

/* NULL, or why the library at `path`, absolute and without symbolic links, must
 * not be preloaded: one line, malloc'd. */
char *preload_entry_fault(const char *path);

/* The entry for a library. Returns a fault as above and leaves *ret alone. */
char *preload_entry_of(const char *path, char **ret);

/* The file that an entry means to programs like this one; malloc'd. */
char *preload_entry_path(const char *entry);

#endif
