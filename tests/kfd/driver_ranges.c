/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "tests/kfd/driver_ranges.h"
#include "userspace/common/util.h"

static int reserve_one(struct ranges *r)
{
	size_t size = r->size ? r->size * 2 : 64;
	struct range *grown;

	if (r->count < r->size)
		return 0;
	grown = reallocarray(r->items, size, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	r->items = grown;
	r->size = size;
	return 0;
}

/* The items from..to are replaced by n new ones, for which there is room. */
static void splice(struct ranges *r, size_t from, size_t to, const struct range *items, size_t n)
{
	memmove(r->items + from + n, r->items + to, (r->count - to) * sizeof(*r->items));
	if (n)
		memcpy(r->items + from, items, n * sizeof(*items));
	r->count = r->count - (to - from) + n;
}

uint64_t ranges_overlap(const struct ranges *r, uint64_t start, uint64_t end)
{
	uint64_t bytes = 0, from, to;
	size_t i;

	for (i = 0; i < r->count && r->items[i].start < end; i++) {
		from = MAX(start, r->items[i].start);
		to = MIN(end, r->items[i].end);
		if (from < to)
			bytes += to - from;
	}
	return bytes;
}

int ranges_add(struct ranges *r, uint64_t start, uint64_t end)
{
	uint64_t fresh = end - start - ranges_overlap(r, start, end);
	struct range all = { start, end };
	size_t from = 0, to;
	int err;

	err = reserve_one(r);
	if (err)
		return err;
	while (from < r->count && r->items[from].end < start)
		from++;
	for (to = from; to < r->count && r->items[to].start <= end; to++) {
		all.start = MIN(all.start, r->items[to].start);
		all.end = MAX(all.end, r->items[to].end);
	}
	splice(r, from, to, &all, 1);
	r->bytes += fresh;
	return 0;
}

int ranges_cut(struct ranges *r, uint64_t start, uint64_t end)
{
	uint64_t gone = ranges_overlap(r, start, end);
	struct range rest[2];
	size_t from = 0, to, n = 0;
	int err;

	if (!gone)
		return 0;
	err = reserve_one(r);
	if (err)
		return err;
	while (r->items[from].end <= start)
		from++;
	for (to = from; to < r->count && r->items[to].start < end; to++)
		;
	if (r->items[from].start < start)
		rest[n++] = (struct range){ r->items[from].start, start };
	if (r->items[to - 1].end > end)
		rest[n++] = (struct range){ end, r->items[to - 1].end };
	splice(r, from, to, rest, n);
	r->bytes -= gone;
	return 0;
}

void ranges_done(struct ranges *r)
{
	free(r->items);
	*r = (struct ranges){ 0 };
}
