/* SPDX-License-Identifier: MIT */
/*
 * Operations on memory, in an arena that lies where the kernel puts nothing by
 * itself, so that holes are never filled by a thread's stack. Nobody touches it:
 * pages come by being locked or pinned. See oracle_world.h.
 */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/kernel/oracle_world.h"
#include "tests/kernel/ring.h"

#define PAGE	    4096UL
#define ARENA	    ((char *)(1UL << 44))
#define ARENA_PAGES 512UL
#define MAX_RANGE   64
#define MAX_BRK	    (256 * 1024)
#define RINGS	    2
#define STRAYS	    4
#define RW	    (PROT_READ | PROT_WRITE)
#define ANON	    (MAP_PRIVATE | MAP_ANONYMOUS)

static int rings[RINGS]; /* + 1 */
static struct stray {
	char *at;
	size_t len;
} strays[STRAYS]; /* what moved out of the arena */
static char *brk_top;
static size_t brk_grown;
static atomic_flag outside; /* one thread at a time looks after those */

struct range {
	char *at;
	size_t len;
};

/* splitmix64 */
uint64_t dice_roll(struct dice *d, uint64_t below)
{
	uint64_t z = d->state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return (z ^ (z >> 31)) % below;
}

static struct range range_of(struct dice *d, size_t most)
{
	size_t pages = 1 + dice_roll(d, most);

	return (struct range){ ARENA + PAGE * dice_roll(d, ARENA_PAGES - pages + 1), PAGE * pages };
}

static void op_lock(struct dice *d)
{
	struct range r = range_of(d, MAX_RANGE);

	mlock(r.at + dice_roll(d, PAGE), r.len - PAGE + 1);
}

static void op_lock_onfault(struct dice *d)
{
	struct range r = range_of(d, 4L * MAX_RANGE);

	mlock2(r.at, r.len, MLOCK_ONFAULT);
}

static void op_unlock(struct dice *d)
{
	struct range r = range_of(d, 4L * MAX_RANGE);

	munlock(r.at, r.len);
}

static void op_map(struct dice *d)
{
	struct range r = range_of(d, 2L * MAX_RANGE);
	int flags = dice_roll(d, 4) ? 0 : MAP_LOCKED;

	mmap(r.at, r.len, dice_roll(d, 8) ? RW : PROT_NONE, ANON | MAP_FIXED | flags, -1, 0);
}

static void op_unmap(struct dice *d)
{
	struct range r = range_of(d, MAX_RANGE);

	munmap(r.at, r.len);
}

static void op_remap_shrink(struct dice *d)
{
	struct range r = range_of(d, MAX_RANGE);

	mremap(r.at, r.len, PAGE * (1 + dice_roll(d, r.len / PAGE)), 0);
}

static void grow_away(struct stray *s, struct range r, size_t to)
{
	char *p;

	if (s->len)
		munmap(s->at, s->len);
	s->len = 0;
	p = mremap(r.at, r.len, to, MREMAP_MAYMOVE);
	if (p != MAP_FAILED && (p < ARENA || p >= ARENA + ARENA_PAGES * PAGE))
		*s = (struct stray){ p, to };
}

/* Into room made for it, or else away from here. */
static void op_remap_grow(struct dice *d)
{
	struct range r = range_of(d, MAX_RANGE / 2);
	struct stray *s = &strays[dice_roll(d, STRAYS)];
	size_t to = r.len + PAGE * (1 + dice_roll(d, MAX_RANGE / 2));

	if (dice_roll(d, 2) && r.at + to <= ARENA + ARENA_PAGES * PAGE) {
		munmap(r.at + r.len, to - r.len);
		mremap(r.at, r.len, to, 0);
	} else if (!atomic_flag_test_and_set(&outside)) {
		grow_away(s, r, to);
		atomic_flag_clear(&outside);
	}
}

static void op_remap_move(struct dice *d)
{
	struct range from = range_of(d, MAX_RANGE), to = range_of(d, MAX_RANGE);

	mremap(from.at, from.len, from.len, MREMAP_MAYMOVE | MREMAP_FIXED, to.at);
}

/* What malloc has put on top of ours stays. */
static void op_brk(struct dice *d)
{
	size_t len = PAGE * (1 + dice_roll(d, 16));
	bool shrink = dice_roll(d, 2);

	if (atomic_flag_test_and_set(&outside))
		return;
	if (sbrk(0) != brk_top)
		brk_grown = 0;
	if (brk_grown >= len && (shrink || brk_grown > MAX_BRK)) {
		if (sbrk(-(intptr_t)len) != (void *)-1)
			brk_grown -= len;
	} else if (brk_grown <= MAX_BRK && sbrk((intptr_t)len) != (void *)-1) {
		brk_grown += len;
	}
	brk_top = sbrk(0);
	atomic_flag_clear(&outside);
}

static void op_lock_all(struct dice *d)
{
	static const int flags[] = {
		MCL_FUTURE,
		MCL_FUTURE | MCL_ONFAULT,
		MCL_CURRENT | MCL_ONFAULT,
		MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT,
		MCL_CURRENT,
		MCL_CURRENT | MCL_FUTURE,
	};
	uint64_t i = dice_roll(d, 16);

	mlockall(flags[i < 6 ? i : i % 4]);
}

static void op_unlock_all(struct dice *d)
{
	(void)d;
	munlockall();
}

static int ring_of(uint64_t i)
{
	if (!rings[i])
		rings[i] = ring_setup(4) + 1;
	return rings[i] - 1;
}

static void op_register(struct dice *d)
{
	int fd = ring_of(dice_roll(d, RINGS));
	struct range r = range_of(d, MAX_RANGE);
	struct iovec iov = { .iov_base = r.at, .iov_len = r.len };

	syscall(SYS_io_uring_register, fd, IORING_REGISTER_BUFFERS, &iov, 1);
}

static void op_unregister(struct dice *d)
{
	int fd = ring_of(dice_roll(d, RINGS));

	syscall(SYS_io_uring_register, fd, IORING_UNREGISTER_BUFFERS, NULL, 0);
}

static void op_close(struct dice *d)
{
	uint64_t i = dice_roll(d, RINGS);

	if (rings[i])
		close(rings[i] - 1);
	rings[i] = 0;
}

static const struct {
	unsigned int weight;
	void (*fn)(struct dice *d);
} ops[] = {
	{ 180, op_lock },      { 140, op_lock_onfault }, { 200, op_unlock },
	{ 120, op_map },       { 60, op_unmap },	 { 40, op_remap_shrink },
	{ 50, op_remap_grow }, { 50, op_remap_move },	 { 50, op_brk },
	{ 15, op_lock_all },   { 25, op_unlock_all },	 { 30, op_register },
	{ 30, op_unregister }, { 10, op_close },
};

void ops_memory(struct dice *d)
{
	uint64_t pick = dice_roll(d, 1000);

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (pick < ops[i].weight) {
			ops[i].fn(d);
			return;
		}
		pick -= ops[i].weight;
	}
}

/* Some have huge pages, of which the kernel pins all for a part. */
void ops_init(int index)
{
	mmap(ARENA, ARENA_PAGES * PAGE, RW, ANON | MAP_FIXED_NOREPLACE, -1, 0);
	if (index % 4 == 0)
		madvise(ARENA, ARENA_PAGES * PAGE, MADV_HUGEPAGE);
	brk_top = sbrk(0);
}
