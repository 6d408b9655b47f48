/* SPDX-License-Identifier: MIT */
/* Segments locked by SHM_LOCK, as /proc/sysvipc/shm lists them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "userspace/common/shmlock.h"

#define TITLES "       key      shmid perms                  size  cpid  lpid nattch   uid\n"

static int parse(const char *text, struct shmlock_segment **ret)
{
	FILE *f = fmemopen((void *)text, strlen(text), "r");
	int n;

	assert_non_null(f);
	n = shmlock_parse(f, ret);
	fclose(f);
	return n;
}

static void locked_ones(void **state)
{
	_cleanup_free_ struct shmlock_segment *list = NULL;

	(void)state;
	assert_int_equal(parse(TITLES "         0          5   600  4194304  9  9  1  0\n"
				      "-559038737         7  2600  8388608  9  9  1  0\n"
				      "         0          9  3666     4097  9  9  0  0\n",
			       &list),
			 2);
	assert_int_equal(list[0].shmid, 7);
	assert_int_equal(list[0].bytes, 8388608);
	assert_int_equal(list[1].shmid, 9); /* also to be destroyed; whole pages */
	assert_int_equal(list[1].bytes, 8192);
	assert_int_equal(shmlock_sum(list, 2), 8396800);
}

static void none(void **state)
{
	_cleanup_free_ struct shmlock_segment *list = NULL;

	(void)state;
	assert_int_equal(parse(TITLES, &list), 0);
	assert_int_equal(parse("", &list), 0);
	assert_int_equal(shmlock_sum(list, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(locked_ones),
		cmocka_unit_test(none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
