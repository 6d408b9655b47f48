/* SPDX-License-Identifier: MIT */
/* The files of a configuration, as bytes. Internal to config*.c. */
#ifndef PINCAP_CONFIG_FILE_H
#define PINCAP_CONFIG_FILE_H

#include "userspace/control/config.h"

/* A regular file of at most CONFIG_FILE_BYTES_MAX. *ret_text is malloc'd. Never waits. */
int config_file_read(const char *path, char **ret_text, size_t *ret_len,
		     struct config_error *error);

/* Calls fn for each PATH.d/NAME.yaml in the order of their bytes, hidden ones left out;
 * stops at and returns its first failure. No such directory: nothing to do. */
typedef int (*config_file_fn)(const char *path, void *ctx);
int config_file_each_drop_in(const char *path, config_file_fn fn, void *ctx,
			     struct config_error *error);

#endif
