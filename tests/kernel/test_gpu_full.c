/* SPDX-License-Identifier: MIT */
/*
 * Full maps of the GPU's: a buffer, a range or a render node without room is not
 * counted, which is said; what was counted before stays exact, also when it goes; and
 * with room again all is counted. The maps are small here (PINCAP_MAX_ENTRIES).
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/kernel/gpu.h"

#define MAX  16 /* entries of each */
#define MORE 4	/* that find no room */
#define RW   (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

static void fill_buffers(const struct cg *cg)
{
	uint64_t handles[MAX + MORE], last;

	gpu_open();
	for (int i = 0; i < MAX + MORE; i++)
		handles[i] = gpu_alloc_gtt(PAGE);
	CHILD_EQUAL(driver_holds(), (MAX + MORE) * PAGE);
	CHILD_EQUAL(current_of(cg), MAX * PAGE);
	for (int i = MAX; i < MAX + MORE; i++) /* those that were not counted */
		CHILD_EQUAL(gpu_free(handles[i]), 0);
	NOW_PAGES(cg, MAX);
	CHILD_EQUAL(gpu_free(handles[0]), 0);
	NOW_PAGES(cg, MAX - 1);
	last = gpu_alloc_gtt(8 * PAGE);
	NOW_PAGES(cg, MAX + 7);
	CHILD_EQUAL(gpu_free(last), 0);
	for (int i = 1; i < MAX; i++)
		CHILD_EQUAL(gpu_free(handles[i]), 0);
	NOW_PAGES(cg, 0);
}

/* Every second page, so that no two of them join. */
static void fill_ranges(const struct cg *cg)
{
	char *p = mmap(NULL, 2 * (MAX + MORE) * PAGE, RW, ANON, -1, 0);

	gpu_open();
	for (size_t i = 0; i < MAX + MORE; i++)
		gpu_allow(p + 2 * i * PAGE, 1);
	CHILD_EQUAL(driver_holds(), (MAX + MORE) * PAGE);
	CHILD_EQUAL(current_of(cg), MAX * PAGE);
	CHILD_EQUAL(munmap(p, 2 * 8 * PAGE), 0); /* eight of those that were counted */
	CHILD_EQUAL(current_of(cg), (MAX - 8) * PAGE);
	gpu_allow(p + 2 * MAX * PAGE, 1); /* one that was not, again */
	CHILD_EQUAL(current_of(cg), (MAX - 7) * PAGE);
	CHILD_EQUAL(munmap(p, 2 * (MAX + MORE) * PAGE), 0);
	NOW_PAGES(cg, 0);
}

static void fill_files(const struct cg *cg)
{
	int fds[MAX + MORE];

	for (int i = 0; i < MAX + MORE; i++) {
		fds[i] = gpu_open_render();
		gpu_create_gem(fds[i], 1);
	}
	CHILD_EQUAL(driver_holds(), (MAX + MORE) * PAGE);
	CHILD_EQUAL(current_of(cg), MAX * PAGE);
	for (int i = MAX; i < MAX + MORE; i++)
		close(fds[i]);
	SWEPT_PAGES(cg, MAX);
	for (int i = 0; i < MORE; i++)
		close(fds[i]);
	SWEPT_PAGES(cg, MAX - MORE);
	gpu_create_gem(gpu_open_render(), 3);
	NOW_PAGES(cg, MAX - MORE + 3);
}

static void full(void (*fill)(const struct cg *), const char *map)
{
	char said[128];
	struct cg cg;

	cg_make(&cg, NULL, map);
	child_run(&cg, fill, &cg);
	map_wait(&cg, 0, 0);
	pincap_sweep();
	assert_int_equal(map_count(map), 0);
	snprintf(said, sizeof(said),
		 "${PINCAP:-build/pincap} stat 2>&1 | grep -q 'INCOMPLETE: %s_full'", map);
	assert_int_equal(system(said), 0); /* NOLINT(cert-env33-c) */
}

static void buffers_full(void **state)
{
	(void)state;
	full(fill_buffers, "buffers");
	assert_int_equal(map_stats().buffers_full, MORE);
}

static void ranges_full(void **state)
{
	(void)state;
	full(fill_ranges, "ranges");
	assert_int_equal(map_stats().ranges_full, MORE);
}

static void files_full(void **state)
{
	(void)state;
	full(fill_files, "files");
	assert_int_equal(map_stats().files_full, MORE);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(buffers_full, test_teardown),
		cmocka_unit_test_teardown(ranges_full, test_teardown),
		cmocka_unit_test_teardown(files_full, test_teardown),
	};
	char bounds[128];

	snprintf(bounds, sizeof(bounds), "buffers=%d ranges=%d files=%d", MAX, MAX, MAX);
	setenv("PINCAP_MAX_ENTRIES", bounds, 1);
	harness_init(argc, argv);
	if (!access("/sys/fs/bpf/pincap", F_OK)) {
		puts("1..1\nok 1 - full # SKIP a kernel side is loaded, with maps of their proper "
		     "size");
		return 0;
	}
	return cmocka_run_group_tests(tests, gpu_setup, gpu_teardown);
}
