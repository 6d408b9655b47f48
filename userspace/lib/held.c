/* SPDX-License-Identifier: MIT */
/*
 * The multiset of held.h: open addressing with linear probing, in memory of its
 * own (the program's malloc may be the one that is pinning) that forked children
 * do not inherit.
 */
#include <errno.h>
#include <sys/mman.h>

#include "userspace/lib/held.h"
#include "userspace/lib/state.h"

#define SLOTS_FIRST 256 /* one page; runtimes stop near 65,000 registrations */

static size_t home(const struct held *h, uintptr_t ptr)
{
	return (size_t)((ptr * 0x9e3779b97f4a7c15ULL) >> 32) & (h->slots - 1);
}

static void insert(struct held *h, uintptr_t ptr, uint64_t bytes)
{
	size_t i = home(h, ptr);

	while (h->table[i].ptr)
		i = (i + 1) & (h->slots - 1);
	h->table[i] = (struct held_entry){ .ptr = ptr, .bytes = bytes };
	h->used++;
}

/* At most three quarters full, so that probing ends. */
static bool make_room(struct held *h)
{
	struct held old = { .table = h->table, .slots = h->slots };
	size_t slots = old.slots ? 2 * old.slots : SLOTS_FIRST;
	struct held_entry *table;
	size_t i;

	if (h->used < old.slots / 4 * 3)
		return true;
	table = mmap(NULL, slots * sizeof(*table), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (table == MAP_FAILED)
		return false;
	madvise(table, slots * sizeof(*table), MADV_DONTFORK);

	h->table = table;
	h->slots = slots;
	h->used = 0;
	for (i = 0; i < old.slots; i++)
		if (old.table[i].ptr)
			insert(h, old.table[i].ptr, old.table[i].bytes);
	if (old.table)
		munmap(old.table, old.slots * sizeof(*table));
	return true;
}

/* Empty slot i and close the gap: no tombstones to wade through later. */
static void remove_at(struct held *h, size_t i)
{
	size_t mask = h->slots - 1;
	size_t j = i;

	for (;;) {
		j = (j + 1) & mask;
		if (!h->table[j].ptr)
			break;
		/* Move j into the gap unless its home lies after the gap. */
		if (((j - home(h, h->table[j].ptr)) & mask) < ((j - i) & mask))
			continue;
		h->table[i] = h->table[j];
		i = j;
	}
	h->table[i].ptr = 0;
	h->used--;
}

bool held_add(const void *ptr, uint64_t bytes)
{
	struct state *s = state_get();
	int saved = errno;
	bool ok;

	if (!s || !ptr)
		return false;
	pthread_mutex_lock(&s->held.lock);
	ok = make_room(&s->held);
	if (ok)
		insert(&s->held, (uintptr_t)ptr, bytes);
	pthread_mutex_unlock(&s->held.lock);
	errno = saved;
	return ok;
}

uint64_t held_take(const void *ptr)
{
	struct state *s = state_get();
	struct held *h = s ? &s->held : NULL;
	uint64_t bytes = 0;
	size_t i;

	/* Where the kernel sees everything, nothing is ever held: no lock then. */
	if (!h || !ptr || h->used == 0)
		return 0;
	pthread_mutex_lock(&h->lock);
	i = h->slots ? home(h, (uintptr_t)ptr) : 0;
	while (h->slots && h->table[i].ptr && h->table[i].ptr != (uintptr_t)ptr)
		i = (i + 1) & (h->slots - 1);
	if (h->slots && h->table[i].ptr) {
		bytes = h->table[i].bytes;
		remove_at(h, i);
	}
	pthread_mutex_unlock(&h->lock);
	return bytes;
}
