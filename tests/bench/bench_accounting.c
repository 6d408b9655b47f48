/* SPDX-License-Identifier: MIT */
/*
 * What counting costs a process: prints nanoseconds per operation for each kind,
 * the lowest of several blocks, since noise only ever adds. accounting.py compares.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS 15
#define PAGE   4096UL

static char *area;

static void lock_page(void)
{
	if (mlock(area, PAGE) || munlock(area, PAGE))
		exit(1);
}

static void map_64k(void)
{
	void *p = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || munmap(p, 16 * PAGE))
		exit(1);
}

/* A fault and what it takes to have the next one at the same place. */
static void fault(void)
{
	*(volatile char *)(area + PAGE) = 1;
	if (madvise(area + PAGE, PAGE, MADV_DONTNEED))
		exit(1);
}

static void bare(void)
{
	syscall(SYS_getppid);
}

static const struct {
	const char *name;
	void (*run)(void);
	int count;
} ops[] = {
	{ "mmap+munmap of 64 KiB", map_64k, 8000 },
	{ "page fault", fault, 8000 },
	{ "bare system call", bare, 100000 },
	/* From here on the process has a record. */
	{ "mlock+munlock of 4 KiB", lock_page, 4000 },
};

static double block_ns(void (*run)(void), int count)
{
	struct timespec a, b;

	clock_gettime(CLOCK_MONOTONIC, &a);
	for (int i = 0; i < count; i++)
		run();
	clock_gettime(CLOCK_MONOTONIC, &b);
	return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / count;
}

int main(void)
{
	area = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (area == MAP_FAILED)
		return 1;
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		double best = block_ns(ops[i].run, ops[i].count);

		for (int j = 1; j < BLOCKS; j++) {
			double ns = block_ns(ops[i].run, ops[i].count);

			best = ns < best ? ns : best;
		}
		printf("%s\t%.2f\n", ops[i].name, best);
	}
	return 0;
}
