/* SPDX-License-Identifier: MIT */
/*
 * The checksum that mkmodel writes for every tensor and loader verifies: fast,
 * 64 bits, and changed by any lost, moved or repeated word. Bytes after the last
 * whole word count one by one.
 */
#ifndef CHECKSUM_H
#define CHECKSUM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define CHECKSUM_START 0x9e3779b97f4a7c15ULL

static inline uint64_t checksum_mix(uint64_t sum, uint64_t word)
{
	sum = (sum ^ word) * 0xff51afd7ed558ccdULL;
	return sum ^ sum >> 32;
}

/* Continue with more data; all parts but the last must be whole words. */
static inline uint64_t checksum_add(uint64_t sum, const void *data, size_t bytes)
{
	const char *p = data;
	uint64_t word;

	for (; bytes >= sizeof(word); p += sizeof(word), bytes -= sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		sum = checksum_mix(sum, word);
	}
	for (; bytes; p++, bytes--)
		sum = checksum_mix(sum, (unsigned char)*p);
	return sum;
}

#endif
