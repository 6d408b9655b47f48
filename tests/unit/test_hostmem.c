/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>

#include "userspace/common/hostmem.h"

#define GIB (1ULL << 30)

static void test_auto(void **state)
{
	static const struct {
		uint64_t ram, swap, limit;
	} table[] = {
		{ 0, 0, 0 },
		{ 0, 100 * GIB, 0 },
		{ 1, 0, 0 },
		{ GIB, 0, 429494272 },	    /* 0.4 R, to the page below */
		{ 4 * GIB, 0, 1717985280 }, /* R - 4 GiB is 0 */
		{ 4 * GIB, 100 * GIB, 1717985280 },
		{ 16 * GIB, 0, 6871945216 }, /* R + S - 16 GiB is 0 */
		{ 30 * GIB, 0, 14 * GIB },   /* R + S - 16 GiB */
		{ 32 * GIB, 8 * GIB, 24 * GIB },
		{ 32 * GIB, 0, 16 * GIB },
		{ 32 * GIB, 1000 * GIB, 28 * GIB }, /* R - 4 GiB */
		{ 80 * GIB, 1000 * GIB, 72 * GIB }, /* 0.9 R */
		{ 1000 * GIB, 0, 900 * GIB },
		{ 25276026880, 0, 10110410752 }, /* 0.4 R */
		{ 5 * GIB, 0, 2 * GIB },
		{ 10 * GIB, UINT64_MAX, 6 * GIB },	    /* R + S saturates */
		{ UINT64_MAX, 0, 16602069666338594816ULL }, /* 0.9 R */
		{ UINT64_MAX, UINT64_MAX, 16602069666338594816ULL },
	};
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		uint64_t want = table[i].limit - table[i].limit % page;

		assert_true(hostmem_auto_limit(table[i].ram, table[i].swap) == want);
	}
}

/* The formula itself, in a wider type, over a grid. */
static void test_auto_grid(void **state)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	(void)state;
	for (uint64_t ram = 0; ram < 200 * GIB; ram += GIB / 3 + 12345)
		for (uint64_t swap = 0; swap < 64 * GIB; swap += 7 * GIB + 777) {
			__int128 most = (__int128)ram * 9 / 10, want = (__int128)ram * 4 / 10;

			most = MIN(most, (__int128)ram - (__int128)(4 * GIB));
			most = MIN(most, (__int128)ram + swap - (__int128)(16 * GIB));
			want = MAX(want, most);
			assert_true(hostmem_auto_limit(ram, swap) == (uint64_t)want / page * page);
		}
}

static int parse(const char *text, int (*fn)(FILE *, uint64_t *), uint64_t *ret)
{
	_cleanup_fclose_ FILE *f = fmemopen((char *)text, strlen(text), "r");

	assert_non_null(f);
	return fn(f, ret);
}

static void test_swaps(void **state)
{
	static const char head[] = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
	static const struct {
		const char *lines;
		uint64_t kib;
	} table[] = {
		{ "", 0 },
		{ "/dev/dm-1  partition\t8388604\t\t0\t\t-2\n", 8388604 },
		{ "/dev/zram0  partition\t4194300\t\t0\t\t100\n", 0 },
		{ "/dev/zram0 partition 5 0 100\n/swapfile file 7 0 -2\n/dev/sda2 partition 9 1 "
		  "-3\n",
		  16 },
		{ "/mnt/a\\040b/swap\\040(deleted) file 3 0 -2\n", 3 },
		{ "/var/zram-not/swap file 4 0 -2\n", 4 },
		{ "rubbish\n/x file many 0 -2\n\n", 0 },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_free_ char *text = NULL;
		uint64_t bytes = 42;

		assert_true(asprintf(&text, "%s%s", head, table[i].lines) > 0);
		assert_int_equal(parse(text, hostmem_parse_swaps, &bytes), 0);
		assert_int_equal(bytes, table[i].kib * 1024);
	}
}

static void test_meminfo(void **state)
{
	uint64_t bytes = 42;

	(void)state;
	assert_int_equal(parse("MemTotal:       24683620 kB\nMemFree: 1 kB\n",
			       hostmem_parse_meminfo, &bytes),
			 0);
	assert_int_equal(bytes, 25276026880);
	bytes = 42;
	assert_int_equal(parse("MemFree: 1 kB\n", hostmem_parse_meminfo, &bytes), -ENODATA);
	assert_int_equal(bytes, 42);
}

static void test_this_host(void **state)
{
	uint64_t pages = (uint64_t)sysconf(_SC_PHYS_PAGES), page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct hostmem m;

	(void)state;
	assert_int_equal(hostmem_read(&m), 0);
	assert_int_equal(m.total_bytes, pages * page);
	assert_true(m.ram_bytes > 0 && m.ram_bytes <= m.total_bytes);
	assert_int_equal(hostmem_ram(), m.ram_bytes);
	if (m.ram_bytes < m.total_bytes)
		assert_int_equal(m.swap_bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_auto),	  cmocka_unit_test(test_auto_grid),
		cmocka_unit_test(test_swaps),	  cmocka_unit_test(test_meminfo),
		cmocka_unit_test(test_this_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
