/* SPDX-License-Identifier: MIT */
/*
 * The gpu class against a model: random SVM requests, mappings changed under them,
 * and buffers, as real ioctls on the emulated driver; after each operation the
 * cgroup's figure is the model's, to the byte. Then memory that goes without munmap.
 * PINCAP_TEST_SEED repeats a run of
 * PINCAP_TEST_RANGES (20000) operations.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <time.h>
#include <linux/aio_abi.h>
#include <cmocka.h>

#include "tests/kernel/gpu.h"

#define PAGES	256UL
#define BUFFERS 32
#define ROUNDS	((unsigned int)harness_number("PINCAP_TEST_RANGES", 20000))
#define RW	(PROT_READ | PROT_WRITE)
#define ANON	(MAP_PRIVATE | MAP_ANONYMOUS)

struct buffer {
	uint64_t handle;
	int64_t bytes; /* as counted; 0 for device memory */
	bool used;
};

static struct {
	char *arena;
	char *elsewhere;
	bool gpu[PAGES];  /* the GPU may access this page */
	const char *last; /* what was done, and where */
	size_t first, pages;
	struct buffer buffers[BUFFERS];
	uint64_t random;
} m;

static uint64_t dice(uint64_t sides)
{
	m.random = m.random * 6364136223846793005ULL + 1442695040888963407ULL;
	return (m.random >> 33) % sides;
}

static int64_t expected(void)
{
	int64_t bytes = 0;

	for (size_t i = 0; i < PAGES; i++)
		bytes += m.gpu[i] ? (int64_t)PAGE : 0;
	for (size_t i = 0; i < BUFFERS; i++)
		bytes += m.buffers[i].used ? m.buffers[i].bytes : 0;
	return bytes;
}

static void mark(size_t first, size_t pages, bool to)
{
	for (size_t i = first; i < first + pages; i++)
		m.gpu[i] = to;
}

/* In its own right, since ioctl(2) of an unmapped range would fail on a real GPU. */
static void refill(size_t first, size_t pages)
{
	char *at = m.arena + first * PAGE;

	if (mmap(at, pages * PAGE, RW, ANON | MAP_FIXED, -1, 0) != at)
		_exit(2);
	mark(first, pages, false);
}

static void do_svm(size_t first, size_t pages, uint32_t op, uint32_t type)
{
	CHILD_EQUAL(gpu_svm(m.arena + first * PAGE, pages, op, type), 0);
	if (op == SET_ATTR && type != SET_FLAGS)
		mark(first, pages, type == ACCESS_IN_PLACE);
}

static void do_move(size_t first, size_t pages)
{
	char *from = m.arena + first * PAGE;

	if (mremap(from, pages * PAGE, pages * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, m.elsewhere) ==
	    MAP_FAILED)
		return;
	refill(first, pages);
}

static void do_shrink(size_t first, size_t pages)
{
	char *from = m.arena + first * PAGE;
	size_t keep = pages / 2;

	if (!keep || mremap(from, pages * PAGE, keep * PAGE, 0) == MAP_FAILED)
		return;
	mark(first + keep, pages - keep, false);
	refill(first + keep, pages - keep);
}

static void do_buffer(void)
{
	static const uint32_t flags[] = { FLAG_USERPTR, FLAG_GTT, FLAG_VRAM,
					  FLAG_USERPTR | FLAG_AQL };
	struct buffer *b = &m.buffers[dice(BUFFERS)];
	uint64_t bytes = (1 + dice(64)) * 2 * PAGE;
	uint32_t kind = flags[dice(4)];

	if (b->used) {
		CHILD_EQUAL(gpu_free(b->handle), 0);
		b->used = false;
		return;
	}
	CHILD_EQUAL(gpu_alloc(bytes, kind, m.arena, &b->handle), 0);
	b->used = true;
	b->bytes = kind & FLAG_VRAM ? 0 : (int64_t)(kind & FLAG_AQL ? bytes / 2 : bytes);
}

static void do_nothing(size_t first, size_t pages)
{
	CHILD_EQUAL(gpu_free(0x424200ffff), -1);
	CHILD_EQUAL(munmap(m.arena + first * PAGE + 1, pages * PAGE), -1);
	do_svm(first, pages, GET_ATTR, ACCESS_IN_PLACE);
	do_svm(first, pages, SET_ATTR, SET_FLAGS);
}

static void operate(void)
{
	size_t first = dice(PAGES), pages = 1 + dice(dice(8) ? 16 : PAGES);

	if (pages > PAGES - first)
		pages = PAGES - first;
	m.first = first;
	m.pages = pages;
	m.last = "svm";
	switch (dice(9)) {
	case 0:
	case 1:
	case 2:
		do_svm(first, pages, SET_ATTR, ACCESS_IN_PLACE);
		break;
	case 3:
		do_svm(first, pages, SET_ATTR, NO_ACCESS);
		break;
	case 4:
		m.last = "munmap";
		CHILD_EQUAL(munmap(m.arena + first * PAGE, pages * PAGE), 0);
		mark(first, pages, false);
		break;
	case 5:
		m.last = "move";
		do_move(first, pages);
		break;
	case 6:
		m.last = "shrink";
		do_shrink(first, pages);
		break;
	case 7:
		m.last = "buffer";
		do_buffer();
		return;
	default:
		m.last = "nothing";
		do_nothing(first, pages);
		return;
	}
}

static void check(const struct cg *cg, const char *when, unsigned int round)
{
	struct pincap_cgroup entry = { 0 };

	map_cgroup(cg, &entry);
	if (entry.gpu == expected() && entry.current == entry.gpu)
		return;
	fprintf(stderr,
		"%s, operation %u (%s of %zu pages from %zu): gpu %lld, current %lld, not %" PRId64
		"\n",
		when, round, m.last, m.pages, m.first, (long long)entry.gpu,
		(long long)entry.current, expected());
	_exit(1);
}

static void play(const struct cg *cg)
{
	gpu_open();
	m.arena = mmap(NULL, PAGES * PAGE, RW, ANON, -1, 0);
	m.elsewhere = mmap(NULL, PAGES * PAGE, RW, ANON, -1, 0);
	CHILD_EQUAL(m.arena != MAP_FAILED && m.elsewhere != MAP_FAILED, 1);
	for (unsigned int i = 0, n = ROUNDS; i < n; i++) {
		operate();
		check(cg, "at random", i);
	}
}

static void random_ranges(void **state)
{
	const char *seed = getenv("PINCAP_TEST_SEED");
	struct cg cg;

	(void)state;
	m.random = seed ? strtoull(seed, NULL, 0) : (uint64_t)time(NULL);
	print_message("# PINCAP_TEST_SEED=%" PRIu64 ", %u operations\n", m.random, ROUNDS);
	cg_make(&cg, NULL, "ranges");
	child_run(&cg, play, &cg);
	map_wait(&cg, 0, 0); /* it left with all it had */
	assert_int_equal(map_count("ranges"), 0);
	assert_int_equal(map_count("buffers"), 0);
	assert_int_equal(map_stats().ranges_full + map_stats().svm_busy + map_stats().buffers_full,
			 0);
}

/*
 * Memory that goes without munmap. What the figures have to be is known here; and the
 * driver, which looks into /proc for what is mapped, says the same.
 */
static void shrink_heap(const struct cg *cg)
{
	char *base;

	gpu_open();
	base = sbrk(0);
	CHILD_EQUAL(brk((char *)(((uintptr_t)base + 2 * PAGE - 1) & ~(PAGE - 1))), 0);
	base = sbrk(0);
	CHILD_EQUAL(brk(base + 64 * PAGE), 0);
	gpu_allow(base, 64);
	NOW_PAGES(cg, 64);
	CHILD_EQUAL(brk(base + 48 * PAGE), 0);
	NOW_PAGES(cg, 48);
	CHILD_EQUAL(brk(base + 16 * PAGE - 100), 0);
	NOW_PAGES(cg, 16);
	CHILD_EQUAL(brk(base + 64 * PAGE), 0); /* others' memory now */
	NOW_PAGES(cg, 16);
	CHILD_EQUAL(brk((char *)UINT64_MAX), -1);
	NOW_PAGES(cg, 16);
	CHILD_EQUAL(brk(base), 0);
	NOW_PAGES(cg, 0);
}

static void detach_segments(const struct cg *cg)
{
	int id = shmget(IPC_PRIVATE, 32 * PAGE, IPC_CREAT | 0600);
	char *a, *b;

	gpu_open();
	a = shmat(id, NULL, 0);
	b = shmat(id, NULL, 0);
	CHILD_EQUAL(shmctl(id, IPC_RMID, NULL), 0);
	CHILD_EQUAL(a != MAP_FAILED && b != MAP_FAILED, 1);
	gpu_allow(a, 32);
	gpu_allow(b, 8);
	NOW_PAGES(cg, 40);
	CHILD_EQUAL(mprotect(a + 4 * PAGE, 4 * PAGE, PROT_READ), 0); /* three mappings */
	CHILD_EQUAL(shmdt(a + PAGE), -1);
	NOW_PAGES(cg, 40);
	CHILD_EQUAL(shmdt(a), 0);
	NOW_PAGES(cg, 8);
	CHILD_EQUAL(shmat(id, a, 0) == a, 1);
	NOW_PAGES(cg, 8);
	gpu_allow(a, 32);
	NOW_PAGES(cg, 40);
	/* A page of something else in it stays, and what is behind it goes later. */
	CHILD_EQUAL(mmap(a + 8 * PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0) == a + 8 * PAGE, 1);
	gpu_allow(a + 8 * PAGE, 1);
	NOW_PAGES(cg, 40);
	CHILD_EQUAL(shmdt(a), 0);
	CHILD_EQUAL(driver_holds(), 9 * PAGE);
	pincap_sweep();
	NOW_PAGES(cg, 9);
	CHILD_EQUAL(munmap(a + 8 * PAGE, PAGE), 0);
	NOW_PAGES(cg, 8);
	CHILD_EQUAL(shmdt(b), 0);
	NOW_PAGES(cg, 0);
}

static void replace_segment(const struct cg *cg)
{
	int id = shmget(IPC_PRIVATE, 16 * PAGE, IPC_CREAT | 0600);
	char *a = mmap(NULL, 64 * PAGE, RW, ANON, -1, 0);

	gpu_open();
	gpu_allow(a, 64);
	CHILD_EQUAL(shmat(id, a + 8 * PAGE, SHM_REMAP) == a + 8 * PAGE, 1);
	CHILD_EQUAL(current_of(cg), 48 * PAGE); /* /proc does not tell the driver of this */
	CHILD_EQUAL(shmctl(id, IPC_RMID, NULL), 0);
	CHILD_EQUAL(shmdt(a + 8 * PAGE), 0);
	NOW_PAGES(cg, 48);
}

#define KEPT 200

/*
 * Mappings that no call of ours ends: of a ring for asynchronous I/O the kernel unmaps
 * itself. Among many ranges that stay, each of them is found by the next sweep.
 */
static void lose_silently(const struct cg *cg)
{
	aio_context_t ctx[8] = { 0 };
	char *arena = mmap(NULL, 2 * KEPT * PAGE, RW, ANON, -1, 0);
	size_t ring = 0;

	gpu_open();
	for (size_t i = 0; i < KEPT; i++)
		gpu_allow(arena + 2 * i * PAGE, 1);
	for (size_t i = 0; i < 8; i++) {
		CHILD_EQUAL(syscall(SYS_io_setup, 1, &ctx[i]), 0);
		gpu_allow((void *)ctx[i], 1);
		ring++;
	}
	NOW_PAGES(cg, KEPT + ring);
	pincap_sweep();
	NOW_PAGES(cg, KEPT + ring);
	for (size_t i = 0; i < 8; i += 2, ring--)
		CHILD_EQUAL(syscall(SYS_io_destroy, ctx[i]), 0);
	CHILD_EQUAL(driver_holds(), (KEPT + ring) * PAGE);
	pincap_sweep();
	NOW_PAGES(cg, KEPT + ring);
	CHILD_EQUAL(munmap(arena, 2 * KEPT * PAGE), 0);
	NOW_PAGES(cg, ring);
}

static void without_munmap(void **state)
{
	static void (*const ways[])(const struct cg *) = { shrink_heap, detach_segments,
							   replace_segment, lose_silently };
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "silent");
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		child_run(&cg, ways[i], &cg);
		map_wait(&cg, 0, 0);
	}
	assert_int_equal(map_count("ranges"), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(random_ranges, test_teardown),
		cmocka_unit_test_teardown(without_munmap, test_teardown),
	};

	harness_init(argc, argv);
	return cmocka_run_group_tests(tests, gpu_setup, gpu_teardown);
}
