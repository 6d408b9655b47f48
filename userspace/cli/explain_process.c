/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>

#include "userspace/cli/explain_process.h"
#include "userspace/cli/holdings.h"
#include "userspace/common/log.h"
#include "userspace/common/shmlock.h"
#include "userspace/common/size.h"

#define MAX_SIZES   12 /* lines of one process */
#define MAX_LARGEST 10 /* lines of a cgroup */

static void print_totals(const struct pincap_process *p)
{
	char locked[SIZE_FORMAT_BYTES], pinned[SIZE_FORMAT_BYTES], gpu[SIZE_FORMAT_BYTES],
		held[SIZE_FORMAT_BYTES];

	printf("%8u %-15.15s locked %s, pinned %s, gpu %s, held %s\n", p->tgid, p->comm,
	       size_format(p->locked, locked), size_format(p->pinned, pinned),
	       size_format(p->gpu, gpu), size_format(p->held, held));
}

static void print_group(const struct holding_group *g)
{
	char a[SIZE_FORMAT_BYTES], b[SIZE_FORMAT_BYTES], c[SIZE_FORMAT_BYTES];

	printf("%s x %u = %s", size_format(g->bytes, a), g->count,
	       size_format(g->bytes * g->count, b));
	if (g->kind < HOLDING_RING)
		printf(", %s resident", size_format(g->resident_bytes, c));
	printf("  (%s)", holding_kind_str(g->kind));
}

static const char *group_label(enum holding_kind kind)
{
	if (kind < HOLDING_RING)
		return "locked";
	return kind == HOLDING_RING ? "pinned" : "gpu buffers";
}

static void print_groups(const struct holdings *h)
{
	for (size_t i = 0; i < MIN(h->n_groups, MAX_SIZES); i++) {
		printf("  %-15s ", group_label(h->groups[i].kind));
		print_group(&h->groups[i]);
		putchar('\n');
	}
	if (h->n_groups > MAX_SIZES)
		printf("  and %zu more sizes\n", h->n_groups - MAX_SIZES);
}

/* One line for each class of locked mappings. */
static void print_classes(const struct holdings *h)
{
	char a[SIZE_FORMAT_BYTES], b[SIZE_FORMAT_BYTES];

	for (int class = 0; class <= SMAPS_SHMEM; class ++) {
		uint64_t bytes = 0, resident = 0;
		unsigned int count = 0;

		for (size_t i = 0; i < h->n_groups; i++) {
			const struct holding_group *g = &h->groups[i];

			if ((int)g->kind != HOLDING_MAPPING + class)
				continue;
			bytes += g->bytes * g->count;
			resident += g->resident_bytes;
			count += g->count;
		}
		if (count)
			printf("  %-15s %u locked, %s, %s resident\n", smaps_class_str(class),
			       count, size_format(bytes, a), size_format(resident, b));
	}
}

static void print_mappings(const struct holdings *h)
{
	char a[SIZE_FORMAT_BYTES], b[SIZE_FORMAT_BYTES];
	uint64_t bytes = 0, resident = 0;
	int n = 0;

	for (int i = 0; i < h->n_maps; i++) {
		if (!h->maps[i].locked)
			continue;
		bytes += h->maps[i].end - h->maps[i].start;
		resident += h->maps[i].resident_bytes;
		n++;
	}
	if (n)
		printf("  locked mappings %d of %s in all, %s resident\n", n, size_format(bytes, a),
		       size_format(resident, b));
}

static void print_rest(const struct holdings *h)
{
	char a[SIZE_FORMAT_BYTES], b[SIZE_FORMAT_BYTES], c[SIZE_FORMAT_BYTES];
	uint64_t unknown = holdings_unknown_pins(h);

	if (h->ranges)
		printf("  svm ranges      %" PRIu64 ", %s in all\n", h->ranges,
		       size_format(h->p.svm, a));
	if (unknown)
		printf("  pinned          %s at addresses that the kernel does not tell\n",
		       size_format(unknown, a));
	if (h->rounded_bytes)
		printf("  rounding        %s lie in blocks of a power of two; waste, an estimate: "
		       "%s (never touched) to %s (if allocators rounded up)\n",
		       size_format(h->rounded_bytes, a), size_format(h->waste_least, b),
		       size_format(h->waste_most, c));
}

static bool is_attached(const struct smaps_mapping *maps, int n, int shmid)
{
	for (int i = 0; i < n; i++) /* a segment's inode number is its id */
		if (maps[i].class == SMAPS_SHMEM && maps[i].inode == (uint64_t)shmid)
			return true;
	return false;
}

/* SHM_LOCK is in none of the classes, so it is said apart. */
static void print_shm_locked(const struct smaps_mapping *maps, int n)
{
	_cleanup_free_ struct shmlock_segment *list = NULL;
	char a[SIZE_FORMAT_BYTES];
	uint64_t bytes = 0;
	int segments = shmlock_read(&list);

	for (int i = 0; i < segments; i++)
		if (is_attached(maps, n, list[i].shmid))
			bytes += list[i].bytes;
	if (bytes)
		printf("  shm locked      %s by SHM_LOCK, in no sum: the kernel charges a user\n",
		       size_format(bytes, a));
}

static uint64_t locked_in(const struct holdings *h, const struct spans *s)
{
	uint64_t bytes = 0;

	for (int i = 0; i < h->n_maps; i++)
		if (h->maps[i].locked)
			bytes += spans_overlap(s, h->maps[i].start, h->maps[i].end);
	return bytes;
}

static void print_twice(uint64_t bytes, const char *why)
{
	char a[SIZE_FORMAT_BYTES];

	if (bytes)
		printf("  counted twice   %s are %s\n", size_format(bytes, a), why);
}

static void print_physical(uint64_t bytes)
{
	char a[SIZE_FORMAT_BYTES];

	printf("  physical        %s (%" PRIu64 " bytes), an estimate: each page once\n",
	       size_format(bytes, a), bytes);
}

/* Locked pages alone that more than one mapping has locked. */
static int print_shared(const struct holdings *const list, size_t n)
{
	struct footprint fp = { 0 };
	uint64_t again = 0;
	int err = 0;

	for (size_t i = 0; i < n && !err; i++)
		for (int j = 0; j < list[i].n_maps && !err; j++)
			if (list[i].maps[j].locked)
				err = footprint_add_mapping(&fp, (pid_t)list[i].p.tgid,
							    &list[i].maps[j]);
	if (!err)
		footprint_bytes(&fp, &again);
	print_twice(again, "the same pages of a file or shared memory, locked again");
	footprint_done(&fp);
	return err;
}

/* What is counted more than once over these processes, and what is behind it. */
static int print_overlap(const struct holdings *list, size_t n)
{
	uint64_t driver = 0, rings = 0, unplaced = 0, again;
	struct footprint fp = { 0 };
	int err = 0;

	for (size_t i = 0; i < n && !err; i++) {
		driver += locked_in(&list[i], &list[i].driver);
		rings += locked_in(&list[i], &list[i].rings);
		unplaced += holdings_unplaced(&list[i]);
		err = holdings_footprint(&list[i], &fp);
	}
	print_twice(driver, "mlocked and in the driver's hands");
	print_twice(rings, "mlocked and registered with io_uring");
	if (!err)
		err = print_shared(list, n);
	if (!err)
		print_physical(footprint_bytes(&fp, &again) + unplaced);
	footprint_done(&fp);
	return err;
}

static int explain_nothing(pid_t pid)
{
	_cleanup_free_ struct smaps_mapping *maps = NULL;
	int n = smaps_read(pid, &maps);

	printf("%8d holds nothing\n", (int)pid);
	if (n > 0)
		print_shm_locked(maps, n);
	return 0;
}

struct search {
	struct pincap_process p;
	bool found;
};

static int on_process(const struct pincap_process *p, void *ctx)
{
	struct search *s = ctx;

	if (p->tgid != s->p.tgid)
		return 0;
	s->p = *p;
	s->found = true;
	return 1;
}

int explain_process(struct kernel *k, pid_t pid)
{
	struct search s = { .p.tgid = (uint32_t)pid };
	_cleanup_(holdings_done) struct holdings h = { 0 };
	int err = kernel_each_process(k, on_process, &s);

	if (err >= 0 && !s.found)
		return explain_nothing(pid);
	err = err < 0 ? err : holdings_read(k, &s.p, &h);
	if (err)
		return log_ret(err, "look into process %d", (int)pid);
	print_totals(&h.p);
	print_mappings(&h);
	print_classes(&h);
	print_groups(&h);
	print_rest(&h);
	print_shm_locked(h.maps, h.n_maps);
	err = print_overlap(&h, 1);
	return err ? log_ret(err, "look into process %d", (int)pid) : 0;
}

static int print_largest(const struct holdings *list, size_t n)
{
	_cleanup_free_ struct holding_group *all = NULL;
	size_t total = 0, at = 0;

	for (size_t i = 0; i < n; i++)
		total += list[i].n_groups;
	if (!total)
		return 0;
	all = calloc(total, sizeof(*all));
	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < list[i].n_groups; j++)
			all[at++] = list[i].groups[j];
	qsort(all, total, sizeof(*all), holdings_largest_first);
	puts("largest:");
	for (size_t i = 0; i < MIN(total, MAX_LARGEST); i++) {
		printf("%8u ", all[i].tgid);
		print_group(&all[i]);
		putchar('\n');
	}
	return 0;
}

static int print_all(const struct holdings *list, size_t n)
{
	int err;

	for (size_t i = 0; i < n; i++) {
		print_totals(&list[i].p);
		print_classes(&list[i]);
		print_rest(&list[i]);
		print_shm_locked(list[i].maps, list[i].n_maps);
	}
	err = print_largest(list, n);
	if (err || !n)
		return err;
	puts("all together:");
	return print_overlap(list, n);
}

int explain_processes(struct kernel *k, const struct pincap_process *list, size_t n)
{
	_cleanup_free_ struct holdings *all = calloc(n, sizeof(*all));
	size_t got = 0;
	int err = all ? 0 : -ENOMEM;

	for (size_t i = 0; i < n && !err; i++) {
		err = holdings_read(k, &list[i], &all[got]);
		if (err == -ENOENT || err == -ESRCH)
			err = 0;
		else if (!err)
			got++;
	}
	if (!err)
		err = print_all(all, got);
	for (size_t i = 0; i < got; i++)
		holdings_done(&all[i]);
	return err ? log_ret(err, "look into the processes") : 0;
}
