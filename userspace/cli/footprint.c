/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "userspace/cli/footprint.h"

void footprint_done(struct footprint *fp)
{
	free(fp->list);
	*fp = (struct footprint){ 0 };
}

static bool is_files(const struct smaps_mapping *m)
{
	return m->class != SMAPS_ANON && !(m->class == SMAPS_PRIVATE_FILE && m->writable);
}

static int add(struct footprint *fp, pid_t pid, const struct smaps_mapping *m, uint64_t start,
	       uint64_t end, uint64_t resident)
{
	struct extent *grown = reallocarray(fp->list, fp->n + 1, sizeof(*grown));
	struct extent e = { (uint64_t)pid, 0, start, end, resident };

	if (!grown)
		return -ENOMEM;
	if (is_files(m))
		e = (struct extent){ m->dev, m->inode, start - m->start + m->offset,
				     end - m->start + m->offset, resident };
	fp->list = grown;
	fp->list[fp->n++] = e;
	return 0;
}

int footprint_add_mapping(struct footprint *fp, pid_t pid, const struct smaps_mapping *m)
{
	return add(fp, pid, m, m->start, m->end, m->resident_bytes);
}

int footprint_add_range(struct footprint *fp, pid_t pid, const struct smaps_mapping *maps, int n,
			uint64_t start, uint64_t end)
{
	int err = 0;

	for (int i = 0; i < n && !err; i++) {
		uint64_t from = MAX(start, maps[i].start), to = MIN(end, maps[i].end);

		if (from < to)
			err = add(fp, pid, &maps[i], from, to, to - from);
	}
	return err;
}

static int by_place(const void *a, const void *b)
{
	const struct extent *x = a, *y = b;

	if (x->inode != y->inode)
		return x->inode < y->inode ? -1 : 1;
	if (x->dev != y->dev)
		return x->dev < y->dev ? -1 : 1;
	return (x->start > y->start) - (x->start < y->start);
}

static bool touches(const struct extent *e, const struct extent *run, uint64_t end)
{
	return e->inode == run->inode && e->dev == run->dev && e->start < end;
}

/* Extents that overlap make a run; no run holds more than is resident in it. */
uint64_t footprint_bytes(struct footprint *fp, uint64_t *ret_again)
{
	uint64_t bytes = 0, again = 0;
	size_t i = 0;

	if (fp->n)
		qsort(fp->list, fp->n, sizeof(*fp->list), by_place);
	while (i < fp->n) {
		const struct extent *run = &fp->list[i];
		uint64_t end = run->start, resident = 0, sum = 0;

		for (; i < fp->n && (&fp->list[i] == run || touches(&fp->list[i], run, end)); i++) {
			end = MAX(end, fp->list[i].end);
			resident += fp->list[i].resident_bytes;
			sum += fp->list[i].end - fp->list[i].start;
		}
		bytes += MIN(end - run->start, resident);
		again += sum - (end - run->start);
	}
	*ret_again = again;
	return bytes;
}
