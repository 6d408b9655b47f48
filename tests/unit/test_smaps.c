/* SPDX-License-Identifier: MIT */
/*
 * What explain reads of /proc and makes of it: classes of mappings, the buffers of a
 * ring, pages that are counted more than once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "userspace/cli/footprint.h"
#include "userspace/cli/spans.h"

#define MIB 1048576ULL

static int parse(const char *text, struct smaps_mapping **ret)
{
	FILE *f = fmemopen((void *)text, strlen(text), "r");
	int n;

	assert_non_null(f);
	n = smaps_parse(f, ret);
	fclose(f);
	return n;
}

static void classes(void **state)
{
	static const char text[] =
		"7f0000000000-7f0000800000 rw-p 00000000 00:00 0 \n"
		"Size:               8192 kB\nRss:                1024 kB\nPss: 7 kB\n"
		"VmFlags: rd wr mr mw me lo lf ac sd \n"
		"7f0001000000-7f0001800000 r--p 00001000 fe:01 42                /w a/x.bin\n"
		"Rss:                8192 kB\nVmFlags: rd mr mw me lo \n"
		"7f0002000000-7f0002800000 rw-s 00000000 fe:01 42                /w a/x.bin\n"
		"Rss:                 0 kB\nVmFlags: rd wr sh mr mw me ms lo \n"
		"7f0003000000-7f0003800000 rw-s 00000000 00:01 9    /memfd:a (deleted)\n"
		"Rss:                 4 kB\nVmFlags: rd wr sh mr mw me ms lo \n"
		"7f0004000000-7f0004001000 rw-s 00000000 00:01 9    /dev/zero (deleted)\n"
		"Rss:                 4 kB\nVmFlags: rd wr sh loud\n"
		"7f0004100000-7f0004101000 rw-s 00000000 00:01 0    /SYSV00000000 (deleted)\n"
		"Rss:                 4 kB\nVmFlags: rd wr sh mr mw me ms\n"
		"7f0005000000-7f0005001000 rw-p 00000000 00:00 0    [heap]\n"
		"Rss:                 4 kB\nVmFlags: rd wr mr mw me ac \n";
	static const enum smaps_class want[] = { SMAPS_ANON,  SMAPS_PRIVATE_FILE, SMAPS_SHARED_FILE,
						 SMAPS_SHMEM, SMAPS_SHMEM,	  SMAPS_SHMEM,
						 SMAPS_ANON };
	_cleanup_free_ struct smaps_mapping *maps = NULL;

	(void)state;
	assert_int_equal(parse(text, &maps), 7);
	for (int i = 0; i < 7; i++) {
		assert_int_equal(maps[i].class, want[i]);
		assert_int_equal(maps[i].locked, i < 4);
	}
	assert_int_equal(maps[0].end - maps[0].start, 8388608);
	assert_int_equal(maps[0].resident_bytes, 1048576);
	assert_true(maps[0].writable);
	assert_int_equal(maps[1].inode, 42);
	assert_int_equal(maps[1].offset, 4096);
	assert_int_equal(maps[1].dev, 0xfe00000001ULL);
	assert_false(maps[1].writable);
	assert_int_equal(maps[5].resident_bytes, 4096);
	free(TAKE_PTR(maps));
	assert_int_equal(parse("nonsense\n", &maps), 0);
}

/* The kernel's own text, of this very process. */
static void own(void **state)
{
	_cleanup_free_ struct smaps_mapping *maps = NULL;
	char *p = mmap(NULL, 8192, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int n, found = 0;

	(void)state;
	assert_ptr_not_equal(p, MAP_FAILED);
	n = smaps_read(getpid(), &maps);
	assert_in_range(n, 5, 100000);
	for (int i = 0; i < n; i++)
		if (maps[i].start == (uintptr_t)p)
			found += maps[i].class == SMAPS_SHMEM && !maps[i].locked;
	assert_int_equal(found, 1);
	munmap(p, 8192);
}

static void ring(void **state)
{
	static const char text[] = "pos:\t0\nUserFiles:\t1\n    0: /tmp/0x1000/4096\n"
				   "UserBufs:\t3\n    0: 0x7f0000000000/8388608\n"
				   "    1: 0x7f0000400000/8388608\n    2: <none>\n"
				   "PollList:\n  0: 0x1000/4096\n";
	FILE *f = fmemopen((void *)text, strlen(text), "r");
	struct spans s = { 0 };

	(void)state;
	assert_non_null(f);
	assert_int_equal(spans_parse_ring(f, &s), 0);
	fclose(f);
	assert_int_equal(s.n, 2);
	assert_int_equal(spans_bytes(&s), 16 * MIB);
	spans_join(&s);
	assert_int_equal(s.n, 1);
	assert_int_equal(spans_bytes(&s), 12 * MIB);
	assert_int_equal(spans_overlap(&s, 0x7f0000b00000, 0x7f0000d00000), MIB);
	assert_int_equal(spans_overlap(&s, 0x7f0000d00000, 0x7f0000e00000), 0);
	spans_done(&s);
}

static struct smaps_mapping mapping(uint64_t start, uint64_t mib, enum smaps_class class,
				    bool writable)
{
	return (struct smaps_mapping){
		.start = start,
		.end = start + mib * MIB,
		.inode = class == SMAPS_ANON ? 0 : 42,
		.resident_bytes = mib * MIB,
		.class = class,
		.writable = writable,
		.locked = true,
	};
}

static void assert_footprint(struct footprint *fp, uint64_t bytes, uint64_t again)
{
	uint64_t got;

	assert_int_equal(footprint_bytes(fp, &got), bytes);
	assert_int_equal(got, again);
	footprint_done(fp);
}

static void locked_and_registered(void **state)
{
	struct smaps_mapping m = mapping(64 * MIB, 8, SMAPS_ANON, true);
	struct footprint fp = { 0 };

	(void)state;
	footprint_add_mapping(&fp, 1, &m);
	footprint_add_range(&fp, 1, &m, 1, m.start, m.end);
	assert_footprint(&fp, 8388608, 8388608);
	/* what nobody has touched is not there, but for what is registered */
	m.resident_bytes = MIB;
	footprint_add_mapping(&fp, 1, &m);
	assert_footprint(&fp, MIB, 0);
	footprint_add_mapping(&fp, 1, &m);
	footprint_add_range(&fp, 1, &m, 1, m.start + 4 * MIB, m.end + 4 * MIB);
	assert_footprint(&fp, 5 * MIB, 4 * MIB);
}

static void shared_or_not(void **state)
{
	struct smaps_mapping a = mapping(64 * MIB, 8, SMAPS_SHMEM, true),
			     b = mapping(128 * MIB, 8, SMAPS_SHMEM, true);
	struct footprint fp = { 0 };

	(void)state;
	/* one file twice, in one process or two; a later part of it; another file */
	footprint_add_mapping(&fp, 1, &a);
	footprint_add_mapping(&fp, 1, &b);
	assert_footprint(&fp, 8388608, 8388608);
	footprint_add_mapping(&fp, 1, &a);
	footprint_add_mapping(&fp, 2, &a);
	assert_footprint(&fp, 8388608, 8388608);
	b.offset = 8 * MIB;
	footprint_add_mapping(&fp, 1, &a);
	footprint_add_mapping(&fp, 1, &b);
	assert_footprint(&fp, 16 * MIB, 0);
	b = a;
	b.inode = 43;
	footprint_add_mapping(&fp, 1, &a);
	footprint_add_mapping(&fp, 1, &b);
	assert_footprint(&fp, 16 * MIB, 0);
	/* private memory at the same address in two processes; a private copy of a file */
	a = mapping(64 * MIB, 8, SMAPS_ANON, true);
	footprint_add_mapping(&fp, 1, &a);
	footprint_add_mapping(&fp, 2, &a);
	assert_footprint(&fp, 16 * MIB, 0);
	a = mapping(64 * MIB, 8, SMAPS_PRIVATE_FILE, true);
	footprint_add_mapping(&fp, 1, &a);
	footprint_add_mapping(&fp, 2, &a);
	assert_footprint(&fp, 16 * MIB, 0);
	a.writable = false;
	footprint_add_mapping(&fp, 1, &a);
	footprint_add_mapping(&fp, 2, &a);
	assert_footprint(&fp, 8 * MIB, 8 * MIB);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(classes),	 cmocka_unit_test(own),
		cmocka_unit_test(ring),		 cmocka_unit_test(locked_and_registered),
		cmocka_unit_test(shared_or_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
