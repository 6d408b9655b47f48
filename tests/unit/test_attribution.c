/* SPDX-License-Identifier: MIT */
/* When charges cannot be told apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "userspace/cli/attribution.h"

static struct pincap_process process(uint64_t cgid, uint64_t locked)
{
	return (struct pincap_process){ .cgroup_id = cgid, .locked = locked };
}

static void verdicts(void **state)
{
	struct pincap_process p = process(1, 0);
	struct attribution a = { 0 };

	(void)state;
	assert_false(attribution_fails(&a)); /* nobody */
	attribution_add(&a, &p);
	assert_false(attribution_fails(&a)); /* nobody who holds anything */
	p = process(1, 4096);
	attribution_add(&a, &p);
	assert_true(attribution_fails(&a));
	p = process(77, 0);
	attribution_add(&a, &p);
	assert_true(attribution_fails(&a)); /* 77 holds nothing */
	p.held = 1;
	attribution_add(&a, &p);
	assert_false(attribution_fails(&a)); /* one can be told */
	assert_int_equal(a.in_root, 1);
	assert_int_equal(a.elsewhere, 1);
}

static void every_amount_counts(void **state)
{
	const struct pincap_process list[] = { { .cgroup_id = 1, .locked = 1 },
					       { .cgroup_id = 1, .pinned = 1 },
					       { .cgroup_id = 1, .gpu = 1 },
					       { .cgroup_id = 1, .held = 1 } };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(list); i++) {
		struct attribution a = { 0 };

		attribution_add(&a, &list[i]);
		assert_true(attribution_fails(&a));
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(verdicts),
		cmocka_unit_test(every_amount_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
