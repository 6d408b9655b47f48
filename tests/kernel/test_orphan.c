/* SPDX-License-Identifier: MIT */
/*
 * Pins that outlive their process (T23): a ring whose descriptor lives on in a
 * child. No process shows them; `pincap stat` does, as unattributed, until the
 * child is gone.
 */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>
#include <jansson.h>

#include "tests/kernel/ask.h"
#include "tests/kernel/child.h"
#include "tests/kernel/harness.h"
#include "tests/kernel/ring.h"

#define SLACK_BYTES (128 * 4096LL) /* the host's counters are folded late */

struct plan {
	int hold[2];  /* the grandchild lives until this is closed */
	int ready[2]; /* it is alone now */
};

static int64_t unattributed(void)
{
	const char *pincap = getenv("PINCAP");
	char command[256];
	json_t *root;
	int64_t bytes;
	FILE *f;

	snprintf(command, sizeof(command), "%s stat --json /", pincap ? pincap : "build/pincap");
	f = popen(command, "r");
	assert_non_null(f);
	root = json_loadf(f, 0, NULL);
	assert_int_equal(pclose(f), 0);
	assert_non_null(root);
	bytes = json_integer_value(json_object_get(root, "unattributed"));
	json_decref(root);
	return bytes;
}

static void wait_unattributed(int64_t want)
{
	struct deadline d = deadline_in(3000);
	int64_t seen;

	do {
		seen = unattributed();
		if (llabs(seen - want) <= SLACK_BYTES)
			return;
	} while (deadline_open(&d));
	fail_msg("unattributed is %" PRId64 ", not %" PRId64, seen, want);
}

static void pin_and_leave(struct plan *p)
{
	struct iovec v = { .iov_len = 8 * MIB };
	struct io_uring ring;
	char c;

	v.iov_base =
		mmap(NULL, v.iov_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	/* Linux 7.3 counts a pin of a huge page as one of a page. */
	madvise(v.iov_base, v.iov_len, MADV_NOHUGEPAGE);
	memset(v.iov_base, 1, v.iov_len);
	CHILD_EQUAL(ring_init(4, &ring), 0);
	CHILD_EQUAL(io_uring_register_buffers(&ring, &v, 1), 0);
	close(p->hold[1]);
	if (fork())
		return;
	/* The ring's descriptor is all that we keep of it. */
	munmap(v.iov_base, v.iov_len);
	CHILD_EQUAL(write(p->ready[1], "r", 1), 1);
	CHILD_EQUAL(read(p->hold[0], &c, 1), 0);
	_exit(0);
}

static void t23_orphan(void **state)
{
	int64_t before = unattributed();
	struct plan p;
	struct cg cg;
	char c;

	(void)state;
	assert_int_equal(pipe(p.hold), 0);
	assert_int_equal(pipe(p.ready), 0);
	cg_make(&cg, NULL, "orphan");
	child_run(&cg, pin_and_leave, &p);
	assert_int_equal(read(p.ready[0], &c, 1), 1);
	assert_usage(&cg, 0, 0);
	wait_unattributed(before + 8 * MIB);
	close(p.hold[1]);
	wait_unattributed(before);
	close(p.hold[0]);
	close(p.ready[0]);
	close(p.ready[1]);
}

static const struct CMUnitTest tests[] = { cmocka_unit_test_teardown(t23_orphan, test_teardown) };

HARNESS_MAIN(tests)
