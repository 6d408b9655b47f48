/* SPDX-License-Identifier: MIT */
#include "tests/e2e/work.h"

#include <errno.h>
#include <sys/mman.h>

#define WORK_PAGE_WORDS (4096 / sizeof(uint64_t))

/* Differs from page to page, and is never what a fresh page holds. */
static uint64_t value(const struct work *w, size_t word)
{
	return (word + 1) * 0x9e3779b97f4a7c15ULL + w->uses;
}

int work_init(struct work *w, size_t bytes)
{
	size_t i;

	*w = (struct work){ .bytes = bytes };
	if (!bytes)
		return 0;
	w->words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (w->words == MAP_FAILED)
		return -errno;
	for (i = 0; i < bytes / sizeof(*w->words); i += WORK_PAGE_WORDS)
		w->words[i] = value(w, i);
	return 0;
}

void work_done(struct work *w)
{
	if (w->bytes)
		munmap(w->words, w->bytes);
}

size_t work_use(struct work *w)
{
	size_t i, lost = 0;

	for (i = 0; i < w->bytes / sizeof(*w->words); i += WORK_PAGE_WORDS) {
		lost += w->words[i] != value(w, i);
		w->words[i]++; /* what is lost stays lost */
	}
	w->uses++;
	return lost;
}
