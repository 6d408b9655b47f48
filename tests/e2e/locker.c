/* SPDX-License-Identifier: MIT */
/*
 * locker: a program that pins its weights by mlock. It maps a file, locks it in
 * pieces, leaves those pageable that are refused, and then goes over the weights
 * and over memory of its own, again and again. The kernel's answer to mlock is
 * all that it knows of a budget.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/e2e/work.h"
#include "userspace/common/util.h"

#define LOCKER_MIB	   (1UL << 20)
#define LOCKER_PIECE_BYTES (4 * LOCKER_MIB)
#define LOCKER_PAGE_WORDS  (4096 / sizeof(uint64_t))

static const char usage[] = "usage: locker --make FILE MIB\n"
			    "       locker FILE PASSES WORK_MIB\n";

struct weights {
	const uint64_t *words;
	size_t bytes;
	size_t pieces, pinned;
};

static unsigned long parse_number(const char *text)
{
	unsigned long n;
	char *end;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || end == text || *end || strchr(text, '-') || n > UINT32_MAX)
		errx(2, "'%s' is not a number", text);
	return n;
}

/* What the file holds at this word. */
static uint64_t value(size_t word)
{
	return (word + 1) * 0xff51afd7ed558ccdULL;
}

static void make_file(const char *path, unsigned long mib)
{
	static uint64_t words[LOCKER_MIB / sizeof(uint64_t)];
	_cleanup_fclose_ FILE *f = fopen(path, "we");
	size_t i, at = 0;

	if (!f)
		err(1, "create '%s'", path);
	for (; mib; mib--) {
		for (i = 0; i < ARRAY_SIZE(words); i++)
			words[i] = value(at++);
		if (fwrite(words, sizeof(words), 1, f) != 1)
			err(1, "write '%s'", path);
	}
	if (fflush(f))
		err(1, "write '%s'", path);
}

static void map_file(struct weights *w, const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *p;

	if (fd < 0 || fstat(fd, &st))
		err(1, "open '%s'", path);
	if (!st.st_size || st.st_size % LOCKER_PIECE_BYTES)
		errx(1, "'%s' is not a multiple of 4 MiB", path);
	p = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		err(1, "map '%s'", path);
	*w = (struct weights){ p, st.st_size, st.st_size / LOCKER_PIECE_BYTES, 0 };
}

static void lock_all(struct weights *w)
{
	size_t at;

	for (at = 0; at < w->bytes; at += LOCKER_PIECE_BYTES)
		w->pinned += !mlock((const char *)w->words + at, LOCKER_PIECE_BYTES);
}

/* What of our own is in swap now. */
static unsigned long swapped_kib(void)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/status", "re");
	unsigned long kib = 0;
	char line[128];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmSwap: %lu kB", &kib) == 1)
			return kib;
	errx(1, "/proc/self/status does not tell what is in swap");
}

/* A word of each page. Returns how many pages are wrong. */
static size_t read_all(const struct weights *w)
{
	size_t i, wrong = 0;

	for (i = 0; i < w->bytes / sizeof(*w->words); i += LOCKER_PAGE_WORDS)
		wrong += w->words[i] != value(i);
	return wrong;
}

static int run(const char *path, unsigned long passes, unsigned long work_mib)
{
	struct weights weights;
	unsigned long i, verified = 0;
	struct work work;
	size_t wrong;

	map_file(&weights, path);
	if (work_init(&work, work_mib * LOCKER_MIB))
		errx(1, "out of memory");
	lock_all(&weights);
	for (i = 0; i < passes; i++) {
		wrong = read_all(&weights);
		wrong += work_use(&work);
		verified += !wrong;
	}
	printf("%lu KiB in swap at the end\n", swapped_kib());
	printf("%zu of %zu pinned, %zu pageable; passes verified %lu of %lu\n", weights.pinned,
	       weights.pieces, weights.pieces - weights.pinned, verified, passes);
	work_done(&work);
	return verified == passes ? 0 : 1;
}

int main(int argc, char **argv)
{
	if (argc != 4) {
		fputs(usage, stderr);
		return 2;
	}
	if (!streq(argv[1], "--make"))
		return run(argv[1], parse_number(argv[2]), parse_number(argv[3]));
	make_file(argv[2], parse_number(argv[3]));
	return 0;
}
