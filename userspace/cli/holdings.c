/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "userspace/cli/holdings.h"

/* From this size on a power of two may be a caching allocator's rounding. */
#define ROUNDED_BYTES (1ULL << 20)

void holdings_done(struct holdings *h)
{
	free(h->maps);
	free(h->groups);
	spans_done(&h->driver);
	spans_done(&h->rings);
	*h = (struct holdings){ 0 };
}

const char *holding_kind_str(enum holding_kind kind)
{
	switch (kind) {
	case HOLDING_RING:
		return "registered with io_uring";
	case HOLDING_USERPTR:
		return "registered memory";
	case HOLDING_DRIVER:
		return "the driver's own, GTT";
	default:
		return smaps_class_str((enum smaps_class)(kind - HOLDING_MAPPING));
	}
}

int holdings_largest_first(const void *a, const void *b)
{
	const struct holding_group *x = a, *y = b;
	uint64_t m = x->bytes * x->count, n = y->bytes * y->count;

	return (m < n) - (m > n);
}

static void round_up_waste(struct holdings *h, uint64_t bytes, uint64_t resident)
{
	if (bytes < ROUNDED_BYTES || (bytes & (bytes - 1)))
		return;
	h->rounded_bytes += bytes;
	h->waste_least += bytes - MIN(resident, bytes);
	h->waste_most += MAX(bytes - MIN(resident, bytes), bytes / 2);
}

static int add_group(struct holdings *h, enum holding_kind kind, uint64_t bytes, uint64_t resident)
{
	struct holding_group *g = NULL, *grown;

	for (size_t i = 0; i < h->n_groups && !g; i++)
		if (h->groups[i].kind == kind && h->groups[i].bytes == bytes)
			g = &h->groups[i];
	if (!g) {
		grown = reallocarray(h->groups, h->n_groups + 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		h->groups = grown;
		g = &h->groups[h->n_groups++];
		*g = (struct holding_group){ .kind = kind, .bytes = bytes, .tgid = h->p.tgid };
	}
	g->count++;
	g->resident_bytes += resident;
	return 0;
}

static int on_buffer(const struct pincap_buffer *b, void *ctx)
{
	bool is_userptr = b->kind == PINCAP_BUFFER_USERPTR;
	struct holdings *h = ctx;
	int err;

	if (b->mm != h->p.mm)
		return 0;
	round_up_waste(h, b->bytes, b->bytes);
	err = add_group(h, is_userptr ? HOLDING_USERPTR : HOLDING_DRIVER, b->bytes, b->bytes);
	if (!is_userptr)
		h->driver_bytes += b->bytes;
	else if (!err)
		err = spans_add(&h->driver, b->addr, b->addr + b->bytes);
	return err;
}

static int on_range(uint64_t birth, uint64_t start, uint64_t end, void *ctx)
{
	struct holdings *h = ctx;

	if (birth != h->p.birth)
		return 0;
	h->ranges++;
	return spans_add(&h->driver, start, end);
}

static int add_mappings(struct holdings *h)
{
	int err = 0;

	for (int i = 0; i < h->n_maps && !err; i++) {
		const struct smaps_mapping *m = &h->maps[i];

		if (!m->locked)
			continue;
		if (m->class == SMAPS_ANON)
			round_up_waste(h, m->end - m->start, m->resident_bytes);
		err = add_group(h, HOLDING_MAPPING + m->class, m->end - m->start,
				m->resident_bytes);
	}
	return err;
}

/* A process that pins nothing may have registered what the kernel does not count. */
static int add_rings(struct holdings *h)
{
	int err = h->p.pinned ? spans_read_rings((pid_t)h->p.tgid, &h->rings) : 0;

	for (size_t i = 0; i < h->rings.n && !err; i++) {
		uint64_t bytes = h->rings.list[i].end - h->rings.list[i].start;

		h->ring_bytes += bytes;
		round_up_waste(h, bytes, bytes);
		err = add_group(h, HOLDING_RING, bytes, bytes);
	}
	return err;
}

static int gather(struct kernel *k, struct holdings *h)
{
	int err = smaps_read((pid_t)h->p.tgid, &h->maps);

	if (err < 0)
		return err;
	h->n_maps = err;
	err = add_mappings(h);
	if (!err)
		err = add_rings(h);
	if (!err)
		err = kernel_each_buffer(k, on_buffer, h);
	if (!err)
		err = kernel_each_range(k, on_range, h);
	return err;
}

int holdings_read(struct kernel *k, const struct pincap_process *p, struct holdings *ret)
{
	struct holdings h = { .p = *p };
	int err = gather(k, &h);

	if (err) {
		holdings_done(&h);
		return err;
	}
	spans_join(&h.driver);
	spans_join(&h.rings);
	if (h.n_groups)
		qsort(h.groups, h.n_groups, sizeof(*h.groups), holdings_largest_first);
	*ret = h;
	return 0;
}

static int add_spans(const struct holdings *h, const struct spans *s, struct footprint *fp)
{
	int err = 0;

	for (size_t i = 0; i < s->n && !err; i++)
		err = footprint_add_range(fp, (pid_t)h->p.tgid, h->maps, h->n_maps,
					  s->list[i].start, s->list[i].end);
	return err;
}

int holdings_footprint(const struct holdings *h, struct footprint *fp)
{
	int err = 0;

	for (int i = 0; i < h->n_maps && !err; i++)
		if (h->maps[i].locked)
			err = footprint_add_mapping(fp, (pid_t)h->p.tgid, &h->maps[i]);
	if (!err)
		err = add_spans(h, &h->driver, fp);
	return err ? err : add_spans(h, &h->rings, fp);
}

uint64_t holdings_unknown_pins(const struct holdings *h)
{
	return h->p.pinned > h->ring_bytes ? h->p.pinned - h->ring_bytes : 0;
}

uint64_t holdings_unplaced(const struct holdings *h)
{
	return h->driver_bytes + holdings_unknown_pins(h);
}
