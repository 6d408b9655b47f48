/* SPDX-License-Identifier: MIT */
/*
 * The gpu class against a model: random SVM requests, mappings changed under them,
 * and buffers, as real ioctls on the emulated driver; after each operation the
 * cgroup's figure is the model's, to the byte. PINCAP_TEST_SEED repeats a run.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <linux/aio_abi.h>
#include <bpf/bpf.h>
#include <libdrm/amdgpu_drm.h>
#include <cmocka.h>

#include "tests/kernel/ask.h"
#include "tests/kernel/child.h"
#include "tests/kernel/harness.h"

#define PAGE	4096UL
#define PAGES	256UL
#define BUFFERS 32
#define ROUNDS	20000
#define RW	(PROT_READ | PROT_WRITE)
#define ANON	(MAP_PRIVATE | MAP_ANONYMOUS)

/* include/uapi/linux/kfd_ioctl.h */
#define SET_ATTR	0
#define GET_ATTR	1
#define ACCESS_IN_PLACE 3
#define NO_ACCESS	4
#define SET_FLAGS	5
#define FLAG_GTT	2U
#define FLAG_USERPTR	4U
#define FLAG_VRAM	1U
#define FLAG_AQL	(1U << 27)

struct svm {
	uint64_t start;
	uint64_t size;
	uint32_t op;
	uint32_t nattr;
	uint32_t attr[2][2];
};

struct alloc {
	uint64_t va_addr;
	uint64_t size;
	uint64_t handle;
	uint64_t mmap_offset;
	uint32_t gpu_id;
	uint32_t flags;
};

#define IOC_SVM	  _IOC(_IOC_READ | _IOC_WRITE, 'K', 0x20, sizeof(struct svm))
#define IOC_ALLOC _IOWR('K', 0x16, struct alloc)
#define IOC_FREE  _IOW('K', 0x17, uint64_t)

struct buffer {
	uint64_t handle;
	int64_t bytes; /* as counted; 0 for device memory */
	bool used;
};

static struct {
	int kfd;
	char *arena;
	char *elsewhere;
	bool gpu[PAGES]; /* the GPU may access this page */
	struct buffer buffers[BUFFERS];
	uint64_t random;
} m;

static char dir[64], device[80], render[80];
static pid_t driver;

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
	struct svm a = {
		.start = (uint64_t)m.arena + first * PAGE,
		.size = pages * PAGE,
		.op = op,
		.nattr = 2,
		.attr = { { SET_FLAGS, 2 }, { type, 0x4242 } },
	};

	CHILD_EQUAL(ioctl(m.kfd, IOC_SVM, &a), 0);
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
	struct alloc a = {
		.size = (1 + dice(64)) * 2 * PAGE,
		.mmap_offset = (uint64_t)m.arena,
		.va_addr = (uint64_t)m.arena,
		.gpu_id = 0x4242,
		.flags = flags[dice(4)],
	};

	if (b->used) {
		CHILD_EQUAL(ioctl(m.kfd, IOC_FREE, &b->handle), 0);
		b->used = false;
		return;
	}
	CHILD_EQUAL(ioctl(m.kfd, IOC_ALLOC, &a), 0);
	b->used = true;
	b->handle = a.handle;
	b->bytes = a.flags & FLAG_VRAM ? 0 : (int64_t)(a.flags & FLAG_AQL ? a.size / 2 : a.size);
}

static void do_nothing(size_t first, size_t pages)
{
	uint64_t handle = 0x424200ffff;

	CHILD_EQUAL(ioctl(m.kfd, IOC_FREE, &handle), -1);
	CHILD_EQUAL(munmap(m.arena + first * PAGE + 1, pages * PAGE), -1);
	do_svm(first, pages, GET_ATTR, ACCESS_IN_PLACE);
	do_svm(first, pages, SET_ATTR, SET_FLAGS);
}

static void operate(void)
{
	size_t first = dice(PAGES), pages = 1 + dice(dice(8) ? 16 : PAGES);

	if (pages > PAGES - first)
		pages = PAGES - first;
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
		CHILD_EQUAL(munmap(m.arena + first * PAGE, pages * PAGE), 0);
		mark(first, pages, false);
		break;
	case 5:
		do_move(first, pages);
		break;
	case 6:
		do_shrink(first, pages);
		break;
	case 7:
		do_buffer();
		return;
	default:
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
	fprintf(stderr, "%s, operation %u: gpu %lld, current %lld, not %" PRId64 "\n", when, round,
		(long long)entry.gpu, (long long)entry.current, expected());
	_exit(1);
}

static void play(const struct cg *cg)
{
	m.kfd = open(device, O_RDWR | O_CLOEXEC);
	m.arena = mmap(NULL, PAGES * PAGE, RW, ANON, -1, 0);
	m.elsewhere = mmap(NULL, PAGES * PAGE, RW, ANON, -1, 0);
	CHILD_EQUAL(m.kfd >= 0 && m.arena != MAP_FAILED && m.elsewhere != MAP_FAILED, 1);
	for (unsigned int i = 0; i < ROUNDS; i++) {
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
	print_message("# PINCAP_TEST_SEED=%" PRIu64 ", %d operations\n", m.random, ROUNDS);
	cg_make(&cg, NULL, "ranges");
	child_run(&cg, play, &cg);
	map_wait(&cg, 0, 0); /* it left with all it had */
	assert_int_equal(map_count("ranges"), 0);
	assert_int_equal(map_count("buffers"), 0);
	assert_int_equal(map_stats().ranges_full + map_stats().svm_busy + map_stats().buffers_full,
			 0);
}

static uint64_t alloc_gtt(int64_t bytes)
{
	struct alloc a = { .size = (uint64_t)bytes, .gpu_id = 0x4242, .flags = FLAG_GTT };

	CHILD_EQUAL(ioctl(m.kfd, IOC_ALLOC, &a), 0);
	return a.handle;
}

static int64_t current_of(const struct cg *cg)
{
	struct pincap_cgroup entry = { 0 };

	map_cgroup(cg, &entry);
	return entry.current;
}

/* Asking for little and pinning much gains nothing; what the driver is seen to take
 * was promised, and is no longer held. */
static void lie_low(const struct cg *cg)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint64_t handle;

	m.kfd = open(device, O_RDWR | O_CLOEXEC);
	CHILD_EQUAL(ask_charge(fd, MIB, PINCAP_DRIVER), 0);
	handle = alloc_gtt(64 * MIB);
	CHILD_EQUAL(current_of(cg), 64 * MIB);
	CHILD_EQUAL(ask_settle(fd), 0);
	CHILD_EQUAL(current_of(cg), 64 * MIB);
	CHILD_EQUAL(ioctl(m.kfd, IOC_FREE, &handle), 0);
	CHILD_EQUAL(current_of(cg), 0);

	CHILD_EQUAL(ask_charge(fd, 64 * MIB, PINCAP_DRIVER), 0);
	handle = alloc_gtt(16 * MIB);
	CHILD_EQUAL(current_of(cg), 64 * MIB);
	CHILD_EQUAL(ask_settle(fd), 48 * MIB); /* to be given back by the library */
	CHILD_EQUAL(current_of(cg), 64 * MIB);
	CHILD_EQUAL(ioctl(m.kfd, IOC_FREE, &handle), 0);
	CHILD_EQUAL(current_of(cg), 48 * MIB);
}

static void allow(const void *at, size_t pages)
{
	struct svm a = {
		.start = (uint64_t)at,
		.size = pages * PAGE,
		.op = SET_ATTR,
		.nattr = 2,
		.attr = { { SET_FLAGS, 2 }, { ACCESS_IN_PLACE, 0x4242 } },
	};

	CHILD_EQUAL(ioctl(m.kfd, IOC_SVM, &a), 0);
}

static void ask_and_allow(int fd, int64_t promised, const char *at, size_t pages, int64_t stays)
{
	CHILD_EQUAL(ask_charge(fd, (uint64_t)promised, PINCAP_DRIVER), 0);
	allow(at, pages);
	CHILD_EQUAL(ask_settle(fd), stays);
}

/* A range that the GPU has kept is not new when it is asked for again, and counts once:
 * all of it, a part of it, and with more around it. */
static void allow_again(const struct cg *cg)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char *p = mmap(NULL, 64 * PAGE, RW, ANON, -1, 0);

	m.kfd = open(device, O_RDWR | O_CLOEXEC);
	ask_and_allow(fd, 16 * PAGE, p, 16, 0);
	CHILD_EQUAL(current_of(cg), 16 * PAGE);
	ask_and_allow(fd, 16 * PAGE, p, 16, 0);
	CHILD_EQUAL(current_of(cg), 16 * PAGE);
	ask_and_allow(fd, 4 * PAGE, p + 8 * PAGE, 4, 0);
	CHILD_EQUAL(current_of(cg), 16 * PAGE);
	ask_and_allow(fd, 16 * PAGE, p + 8 * PAGE, 16, 0);
	CHILD_EQUAL(current_of(cg), 24 * PAGE);
	/* No more than the request: the rest is still promised. */
	ask_and_allow(fd, 16 * PAGE, p, 4, 12 * PAGE);
	CHILD_EQUAL(current_of(cg), 36 * PAGE);
	CHILD_EQUAL(ask_uncharge(fd, 12 * PAGE), 0);
	CHILD_EQUAL(munmap(p, 64 * PAGE), 0);
	CHILD_EQUAL(current_of(cg), 0);
	/* Nor more than what this thread has under way. */
	ask_and_allow(fd, 4 * PAGE, mmap(p, 64 * PAGE, RW, ANON | MAP_FIXED, -1, 0), 16, 0);
	CHILD_EQUAL(current_of(cg), 16 * PAGE);
	allow(p, 16);
	CHILD_EQUAL(current_of(cg), 16 * PAGE);
}

static void promises_and_pins(void **state)
{
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "promises");
	child_run(&cg, lie_low, &cg);
	map_wait(&cg, 0, 0);
	child_run(&cg, allow_again, &cg);
	map_wait(&cg, 0, 0);
}

#define MIXERS 8

#define MIXED_PAGES 16

/* Seen by the driver's own words, seen in locked_vm, and not seen at all. */
static void mix_buffer(int fd, int64_t bytes)
{
	uint64_t handle;

	CHILD_EQUAL(ask_charge(fd, bytes, PINCAP_DRIVER), 0);
	handle = alloc_gtt(bytes);
	CHILD_EQUAL(ask_settle(fd), 0);
	CHILD_EQUAL(ioctl(m.kfd, IOC_FREE, &handle), 0);
}

static void mix_lock(int fd, const char *at, int64_t bytes)
{
	CHILD_EQUAL(ask_charge(fd, bytes, PINCAP_LOCK), 0);
	CHILD_EQUAL(mlock2(at, bytes, MLOCK_ONFAULT), 0);
	CHILD_EQUAL(ask_settle(fd), 0);
	CHILD_EQUAL(munlock(at, bytes), 0);
}

static void mix_unseen(int fd, int64_t bytes)
{
	CHILD_EQUAL(ask_charge(fd, bytes, PINCAP_DRIVER), 0);
	CHILD_EQUAL(ask_settle(fd), bytes);
	CHILD_EQUAL(ask_uncharge(fd, bytes), 0);
}

static void *mix(void *arg)
{
	unsigned int seed = (unsigned int)(uintptr_t)arg;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char *own = mmap(NULL, MIXED_PAGES * PAGE, RW, ANON, -1, 0);

	CHILD_EQUAL(own != MAP_FAILED, 1);
	for (int i = 0; i < 3000; i++) {
		int64_t bytes = (int64_t)(1 + rand_r(&seed) % MIXED_PAGES) * (int64_t)PAGE;

		if (i % 3 == 0)
			mix_buffer(fd, bytes);
		else if (i % 3 == 1)
			mix_lock(fd, own, bytes);
		else
			mix_unseen(fd, bytes);
	}
	return NULL;
}

/* Threads that mix all kinds at full speed on one address space, with handles used
 * again at once. */
static void mix_kinds(const struct cg *cg)
{
	pthread_t threads[MIXERS];

	m.kfd = open(device, O_RDWR | O_CLOEXEC);
	for (uintptr_t i = 0; i < MIXERS; i++)
		CHILD_EQUAL(pthread_create(&threads[i], NULL, mix, (void *)(i + 1)), 0);
	for (size_t i = 0; i < MIXERS; i++)
		pthread_join(threads[i], NULL);
	CHILD_EQUAL(current_of(cg), 0);
}

static void threads_mix_both(void **state)
{
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "mix");
	child_run(&cg, mix_kinds, &cg);
	map_wait(&cg, 0, 0);
}

/*
 * Memory that goes without munmap. What the figures have to be is known here; and the
 * driver, which looks into /proc for what is mapped, says the same.
 */
static uint64_t driver_holds(void)
{
	char line[256];
	unsigned long long bytes = UINT64_MAX;
	FILE *f = fopen(device, "re");

	CHILD_EQUAL(!f, 0);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "total gpu_bytes %llu", &bytes) == 1)
			break;
	fclose(f);
	return bytes;
}

static void wait_driver(size_t pages)
{
	struct deadline d = deadline_in(2000);

	while (driver_holds() != pages * PAGE && deadline_open(&d))
		;
}

static void pincap_sweep(void)
{
	CHILD_EQUAL(system("${PINCAP:-build/pincap} stat / >/dev/null"), 0);
}

/* At once: the system call says it. */
#define NOW_PAGES(cg, pages)                                         \
	do {                                                         \
		CHILD_EQUAL(current_of(cg), (int64_t)(pages)*PAGE);  \
		CHILD_EQUAL(driver_holds(), (uint64_t)(pages)*PAGE); \
	} while (0)

static void shrink_heap(const struct cg *cg)
{
	char *base;

	m.kfd = open(device, O_RDWR | O_CLOEXEC);
	base = sbrk(0);
	CHILD_EQUAL(brk((char *)(((uintptr_t)base + 2 * PAGE - 1) & ~(PAGE - 1))), 0);
	base = sbrk(0);
	CHILD_EQUAL(brk(base + 64 * PAGE), 0);
	allow(base, 64);
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

	m.kfd = open(device, O_RDWR | O_CLOEXEC);
	a = shmat(id, NULL, 0);
	b = shmat(id, NULL, 0);
	CHILD_EQUAL(shmctl(id, IPC_RMID, NULL), 0);
	CHILD_EQUAL(a != MAP_FAILED && b != MAP_FAILED, 1);
	allow(a, 32);
	allow(b, 8);
	NOW_PAGES(cg, 40);
	CHILD_EQUAL(mprotect(a + 4 * PAGE, 4 * PAGE, PROT_READ), 0); /* three mappings */
	CHILD_EQUAL(shmdt(a + PAGE), -1);
	NOW_PAGES(cg, 40);
	CHILD_EQUAL(shmdt(a), 0);
	NOW_PAGES(cg, 8);
	CHILD_EQUAL(shmat(id, a, 0) == a, 1);
	NOW_PAGES(cg, 8);
	allow(a, 32);
	NOW_PAGES(cg, 40);
	/* A page of something else in it stays, and what is behind it goes later. */
	CHILD_EQUAL(mmap(a + 8 * PAGE, PAGE, RW, ANON | MAP_FIXED, -1, 0) == a + 8 * PAGE, 1);
	allow(a + 8 * PAGE, 1);
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

	m.kfd = open(device, O_RDWR | O_CLOEXEC);
	allow(a, 64);
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

	m.kfd = open(device, O_RDWR | O_CLOEXEC);
	for (size_t i = 0; i < KEPT; i++)
		allow(arena + 2 * i * PAGE, 1);
	for (size_t i = 0; i < 8; i++) {
		CHILD_EQUAL(syscall(SYS_io_setup, 1, &ctx[i]), 0);
		allow((void *)ctx[i], 1);
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

/* The KFD's state is the address space's: the last close frees nothing, and the next
 * open finds it. */
static void close_kfd(const struct cg *cg)
{
	uint64_t handle;
	char *a = mmap(NULL, 8 * PAGE, RW, ANON, -1, 0);

	m.kfd = open(device, O_RDWR | O_CLOEXEC);
	handle = alloc_gtt(16 * PAGE);
	allow(a, 8);
	NOW_PAGES(cg, 24);
	close(m.kfd);
	pincap_sweep();
	NOW_PAGES(cg, 24);
	CHILD_EQUAL(munmap(a, 4 * PAGE), 0);
	NOW_PAGES(cg, 20);
	m.kfd = open(device, O_RDWR | O_CLOEXEC);
	CHILD_EQUAL(ioctl(m.kfd, IOC_FREE, &handle), 0);
	NOW_PAGES(cg, 4);
	alloc_gtt(8 * PAGE);
	close(m.kfd);
	NOW_PAGES(cg, 12);
}

static uint32_t create_gem(int fd, size_t pages)
{
	union drm_amdgpu_gem_create args = { .in.bo_size = pages * PAGE };

	args.in.domains = AMDGPU_GEM_DOMAIN_GTT;
	CHILD_EQUAL(ioctl(fd, DRM_IOCTL_AMDGPU_GEM_CREATE, &args), 0);
	return args.out.handle;
}

static void close_gem(int fd, uint32_t handle)
{
	struct drm_gem_close args = { .handle = handle };

	CHILD_EQUAL(ioctl(fd, DRM_IOCTL_GEM_CLOSE, &args), 0);
}

static int open_render(void)
{
	int fd = open(render, O_RDWR | O_CLOEXEC);

	CHILD_EQUAL(fd >= 0, 1);
	return fd;
}

/* Within one sweep, and exactly what the driver holds. */
#define SWEPT_PAGES(cg, pages)                                       \
	do {                                                         \
		CHILD_EQUAL(driver_holds(), (uint64_t)(pages)*PAGE); \
		pincap_sweep();                                      \
		NOW_PAGES(cg, pages);                                \
	} while (0)

static void close_in_turn(const struct cg *cg)
{
	int a = open_render(), b = open_render(), copy = dup(a);

	create_gem(a, 8);
	create_gem(b, 4);
	NOW_PAGES(cg, 12);
	close(a);
	SWEPT_PAGES(cg, 12);
	close_gem(copy, create_gem(copy, 2));
	NOW_PAGES(cg, 12);
	close(copy);
	SWEPT_PAGES(cg, 4);
	dup2(0, b); /* closes it */
	SWEPT_PAGES(cg, 0);
	a = open_render();
	b = open_render();
	create_gem(a, 8);
	create_gem(b, 4);
	CHILD_EQUAL(syscall(SYS_close_range, a, b, 0), 0);
	SWEPT_PAGES(cg, 0);
}

/* Another process has the file, which need not be in the cgroup. */
static void leave_to_child(const struct cg *cg)
{
	int fd = open_render(), status;
	pid_t pid;

	create_gem(fd, 8);
	pid = fork();
	if (!pid)
		for (;;)
			pause();
	close(fd);
	SWEPT_PAGES(cg, 8);
	SWEPT_PAGES(cg, 8);
	kill(pid, SIGKILL);
	CHILD_EQUAL(waitpid(pid, &status, 0), pid);
	SWEPT_PAGES(cg, 0);
}

static void send_fd(int to, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { &(char){ 0 }, 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	CHILD_EQUAL(sendmsg(to, &msg, 0), 1);
}

/* Nobody's descriptor, on its way: still open. */
static void keep_in_message(const struct cg *cg)
{
	int fd = open_render(), pair[2];

	CHILD_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	create_gem(fd, 8);
	send_fd(pair[0], fd);
	close(fd);
	SWEPT_PAGES(cg, 8);
	close(pair[0]);
	close(pair[1]);
	wait_driver(0); /* the kernel drops messages when it gets round to it */
	SWEPT_PAGES(cg, 0);
}

/* The first of the files that are known: its address. */
static uint64_t known_file(void)
{
	uint64_t address = 0;

	bpf_map_get_next_key(map_fd("files"), NULL, &address);
	return address;
}

#define OPENS 64

/* The next open is handed the address that was just given back. Its buffers are its
 * own from the first moment. */
static void open_again(const struct cg *cg)
{
	cpu_set_t one;
	int same = 0;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof(one), &one);
	for (size_t i = 0; i < OPENS; i++) {
		int fd = open_render();
		uint64_t was, is;

		create_gem(fd, 16);
		create_gem(fd, 16);
		was = known_file();
		close(fd);
		fd = open_render();
		create_gem(fd, 1);
		is = known_file();
		if (is == was && map_count("files") == 1) {
			same++;
			NOW_PAGES(cg, 1);
		}
		close(fd);
		if (i % 16 == 0)
			SWEPT_PAGES(cg, 0);
	}
	SWEPT_PAGES(cg, 0);
	fprintf(stderr, "# the same address %d times of %d\n", same, OPENS);
	CHILD_EQUAL(same > 0, 1);
}

static void open_files(void **state)
{
	static void (*const ways[])(const struct cg *) = {
		close_kfd, close_in_turn, leave_to_child, keep_in_message, open_again,
	};
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "files");
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		child_run(&cg, ways[i], &cg);
		map_wait(&cg, 0, 0);
	}
	assert_int_equal(map_count("buffers"), 0);
	pincap_sweep();
	assert_int_equal(map_count("files"), 0);
	assert_int_equal(map_stats().files_full, 0);
}

/* The driver, beside this program; ready when it says so. */
static void start_driver(const char *self)
{
	int out[2];
	char word[8];

	snprintf(dir, sizeof(dir), "/tmp/pincap-ranges-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(device, sizeof(device), "%s/kfd", dir);
	snprintf(render, sizeof(render), "%s/render", dir);
	close(open(device, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	close(open(render, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	driver = fork();
	if (!driver) {
		char path[4096];

		snprintf(path, sizeof(path), "%.*s/../kfd-driver", (int)(strrchr(self, '/') - self),
			 self);
		dup2(out[1], STDOUT_FILENO);
		execl(path, "kfd-driver", device, "--render", render, NULL);
		_exit(127);
	}
	close(out[1]);
	assert_true(read(out[0], word, sizeof(word)) > 0);
	close(out[0]);
}

static int setup(void **state)
{
	char command[256], self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	const char *pincap = getenv("PINCAP");

	assert_true(n > 0);
	self[n] = '\0';
	start_driver(self);
	if (harness_setup(state))
		return -1;
	snprintf(command, sizeof(command), "%s load --kfd %s --drm %s",
		 pincap ? pincap : "build/pincap", device, render);
	return system(command);
}

static int teardown(void **state)
{
	int err = harness_teardown(state);

	kill(driver, SIGTERM);
	waitpid(driver, NULL, 0);
	unlink(device);
	unlink(render);
	rmdir(dir);
	return err;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(random_ranges, test_teardown),
		cmocka_unit_test_teardown(promises_and_pins, test_teardown),
		cmocka_unit_test_teardown(threads_mix_both, test_teardown),
		cmocka_unit_test_teardown(without_munmap, test_teardown),
		cmocka_unit_test_teardown(open_files, test_teardown),
	};

	harness_init(argc, argv);
	return cmocka_run_group_tests(tests, setup, teardown);
}
