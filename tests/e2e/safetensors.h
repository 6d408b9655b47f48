/* SPDX-License-Identifier: MIT */
/*
 * A reader of safetensors files: a length, a JSON header, and the tensors' data
 * back to back. The file is mapped privately, as model loaders do it. Nothing
 * in the file is believed before it has been checked.
 */
#ifndef SAFETENSORS_H
#define SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct safetensors_tensor {
	char *name;
	void *data; /* in the mapping; writable, writes stay private */
	size_t bytes;
	bool has_checksum; /* the metadata has "checksum.<name>" in hexadecimal */
	uint64_t checksum;
};

struct safetensors {
	void *map;
	size_t map_bytes;
	struct safetensors_tensor *tensors; /* in the order of their data */
	size_t count;
};

/* 0 or negative errno; -EBADMSG: not a valid file, and why[] says what is wrong. */
int safetensors_open(struct safetensors **ret, const char *path, char *why, size_t why_size);
struct safetensors *safetensors_free(struct safetensors *s);

#endif
