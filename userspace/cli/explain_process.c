/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>

#include "userspace/cli/explain_process.h"
#include "userspace/cli/smaps.h"
#include "userspace/common/log.h"
#include "userspace/common/size.h"

/* From this size on a power of two may be a caching allocator's rounding. */
#define ROUNDED_BYTES (1ULL << 20)

#define MAX_SIZES 12 /* lines of buffers of one size */

struct span {
	uint64_t start;
	uint64_t end;
};

struct group {
	uint32_t kind;
	uint64_t bytes; /* of each */
	uint64_t count;
};

struct holdings {
	struct pincap_process p;
	bool found;
	struct group *groups;
	size_t n_groups;
	struct span *spans; /* the process's memory in the driver's hands */
	size_t n_spans;
	uint64_t ranges;
	uint64_t rounded_bytes;
};

void explain_process_line(const struct pincap_process *p)
{
	char locked[SIZE_FORMAT_BYTES], pinned[SIZE_FORMAT_BYTES], gpu[SIZE_FORMAT_BYTES],
		held[SIZE_FORMAT_BYTES];

	printf("%8u %-15.15s locked %s, pinned %s, gpu %s, held %s\n", p->tgid, p->comm,
	       size_format(p->locked, locked), size_format(p->pinned, pinned),
	       size_format(p->gpu, gpu), size_format(p->held, held));
}

static int on_process(const struct pincap_process *p, void *ctx)
{
	struct holdings *h = ctx;

	if (p->tgid != h->p.tgid)
		return 0;
	h->p = *p;
	h->found = true;
	return 1;
}

static int add_span(struct holdings *h, uint64_t start, uint64_t end)
{
	struct span *grown = reallocarray(h->spans, h->n_spans + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	h->spans = grown;
	h->spans[h->n_spans++] = (struct span){ start, end };
	return 0;
}

static int add_group(struct holdings *h, const struct pincap_buffer *b)
{
	struct group *grown;

	for (size_t i = 0; i < h->n_groups; i++) {
		if (h->groups[i].kind == b->kind && h->groups[i].bytes == b->bytes) {
			h->groups[i].count++;
			return 0;
		}
	}
	grown = reallocarray(h->groups, h->n_groups + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	h->groups = grown;
	h->groups[h->n_groups++] = (struct group){ b->kind, b->bytes, 1 };
	return 0;
}

static int on_buffer(const struct pincap_buffer *b, void *ctx)
{
	struct holdings *h = ctx;
	int err;

	if (b->mm != h->p.mm)
		return 0;
	if (b->bytes >= ROUNDED_BYTES && !(b->bytes & (b->bytes - 1)))
		h->rounded_bytes += b->bytes;
	err = add_group(h, b);
	if (!err && b->kind == PINCAP_BUFFER_USERPTR)
		err = add_span(h, b->addr, b->addr + b->bytes);
	return err;
}

static int on_range(uint64_t birth, uint64_t start, uint64_t end, void *ctx)
{
	struct holdings *h = ctx;

	if (birth != h->p.birth)
		return 0;
	h->ranges++;
	return add_span(h, start, end);
}

static int largest_first(const void *a, const void *b)
{
	const struct group *x = a, *y = b;
	uint64_t m = x->bytes * x->count, n = y->bytes * y->count;

	return (m < n) - (m > n);
}

static int by_start(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* Joins spans that overlap, so that a page registered twice is one page. */
static void join_spans(struct holdings *h)
{
	size_t n = 0;

	if (!h->n_spans)
		return;
	qsort(h->spans, h->n_spans, sizeof(*h->spans), by_start);
	for (size_t i = 1; i < h->n_spans; i++) {
		if (h->spans[i].start <= h->spans[n].end)
			h->spans[n].end = MAX(h->spans[n].end, h->spans[i].end);
		else
			h->spans[++n] = h->spans[i];
	}
	h->n_spans = n + 1;
}

static uint64_t overlap(const struct holdings *h, const struct smaps_mapping *maps, int n)
{
	uint64_t bytes = 0;

	for (int i = 0; i < n; i++) {
		for (size_t j = 0; j < h->n_spans; j++) {
			uint64_t from = MAX(maps[i].start, h->spans[j].start);
			uint64_t to = MIN(maps[i].end, h->spans[j].end);

			bytes += from < to ? to - from : 0;
		}
	}
	return bytes;
}

static void print_buffers(struct holdings *h)
{
	char a[SIZE_FORMAT_BYTES], b[SIZE_FORMAT_BYTES];

	if (h->n_groups)
		qsort(h->groups, h->n_groups, sizeof(*h->groups), largest_first);
	for (size_t i = 0; i < MIN(h->n_groups, MAX_SIZES); i++) {
		const struct group *g = &h->groups[i];

		printf("  gpu buffers     %s x %" PRIu64 " = %s  (%s)\n", size_format(g->bytes, a),
		       g->count, size_format(g->bytes * g->count, b),
		       g->kind == PINCAP_BUFFER_USERPTR ? "registered memory"
							: "the driver's own, GTT");
	}
	if (h->n_groups > MAX_SIZES)
		printf("  gpu buffers     and %zu more sizes\n", h->n_groups - MAX_SIZES);
	if (h->ranges)
		printf("  svm ranges      %" PRIu64 ", %s in all\n", h->ranges,
		       size_format(h->p.svm, a));
	if (h->rounded_bytes)
		printf("  rounding        %s lie in buffers of a power of two; a caching allocator "
		       "may use little more than half\n",
		       size_format(h->rounded_bytes, a));
}

static void print_mappings(const struct holdings *h, const struct smaps_mapping *maps, int n)
{
	uint64_t bytes = 0, resident = 0, twice = overlap(h, maps, n);
	char a[SIZE_FORMAT_BYTES], b[SIZE_FORMAT_BYTES];

	for (int i = 0; i < n; i++) {
		bytes += maps[i].end - maps[i].start;
		resident += maps[i].resident_bytes;
	}
	if (n > 0)
		printf("  locked mappings %d of %s in all, %s resident\n", n, size_format(bytes, a),
		       size_format(resident, b));
	if (twice)
		printf("  counted twice   %s are mlocked and in the driver's hands\n",
		       size_format(twice, a));
}

int explain_process(struct kernel *k, pid_t pid)
{
	struct holdings h = { .p.tgid = (uint32_t)pid };
	_cleanup_free_ struct smaps_mapping *maps = NULL;
	int err = kernel_each_process(k, on_process, &h), n;

	if (err >= 0 && !h.found) {
		printf("%8d holds nothing\n", (int)pid);
		return 0;
	}
	err = err < 0 ? err : kernel_each_buffer(k, on_buffer, &h);
	if (!err)
		err = kernel_each_range(k, on_range, &h);
	n = smaps_read_locked(pid, &maps);
	if (!err && n < 0)
		err = n;
	if (err) {
		log_ret(err, "look into process %d", (int)pid);
	} else {
		join_spans(&h);
		explain_process_line(&h.p);
		print_mappings(&h, maps, n);
		print_buffers(&h);
	}
	free(h.groups);
	free(h.spans);
	return err;
}
