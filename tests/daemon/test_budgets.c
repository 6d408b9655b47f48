/* SPDX-License-Identifier: MIT */
/*
 * Whose budget is which: by the rules at start, for cgroups that are made later, after
 * a reload and a restart, and beside those that were set by hand.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/daemon/pincapd.h"
#include "tests/kernel/ask.h"
#include "tests/kernel/child.h"
#include "tests/kernel/harness.h"
#include "tests/kernel/play.h"

static struct pincap_cgroup entry(const struct cg *cg)
{
	struct pincap_cgroup m;

	if (!map_cgroup(cg, &m))
		m = (struct pincap_cgroup){ .limit = PINCAP_UNLIMITED, .high = PINCAP_UNLIMITED };
	return m;
}

static bool has_limit(const struct cg *cg, uint64_t limit)
{
	struct deadline d = deadline_in(2000);

	do {
		if (entry(cg).limit == limit)
			return true;
	} while (deadline_open(&d));
	print_error("the limit is %llu\n", (unsigned long long)entry(cg).limit);
	return false;
}

static void every_key(void **state)
{
	struct cg a, b, c, other;

	(void)state;
	cg_make(&a, NULL, "job-a");
	cg_make(&b, &a, "inner");
	cg_make(&other, NULL, "other");
	pincapd_configure("budgets:\n"
			  "- match: /pincap-kt-*-job-*\n"
			  "  limit: 64M\n"
			  "  high: 32M\n"
			  "  min: 8M\n"
			  "  alloc: pass\n"
			  "  release: transparent\n"
			  "- match: /pincap-kt-*-job-*/inner\n"
			  "  limit: 16M\n"
			  "  mode: observe\n");
	pincapd_start();
	assert_true(has_limit(&a, 64 * MIB));
	assert_int_equal(entry(&a).high, 32 * MIB);
	assert_int_equal(entry(&a).min, 8 * MIB);
	assert_int_equal(entry(&a).alloc, PINCAP_ALLOC_PASS);
	assert_int_equal(entry(&a).release, PINCAP_RELEASE_TRANSPARENT);
	assert_int_equal(entry(&a).observe, 0);
	assert_true(has_limit(&b, 16 * MIB));
	assert_int_equal(entry(&b).observe, 1);
	assert_int_equal(entry(&b).alloc, PINCAP_ALLOC_REFUSE);
	assert_int_equal(entry(&other).limit, PINCAP_UNLIMITED);
	/* one that is made later, and its directory once more */
	cg_make(&c, NULL, "job-c");
	assert_true(has_limit(&c, 64 * MIB));
	cg_remove(&c);
	cg_make(&c, NULL, "job-c");
	assert_true(has_limit(&c, 64 * MIB));
	pincapd_stop();
	/* budgets outlive the daemon */
	assert_true(has_limit(&a, 64 * MIB));
}

static void percent(void **state)
{
	FILE *f = fopen("/proc/meminfo", "re");
	unsigned long long kib = 0;
	struct cg a;

	(void)state;
	assert_int_equal(fscanf(f, "MemTotal: %llu kB", &kib), 1);
	fclose(f);
	cg_make(&a, NULL, "part");
	pincapd_configure("budgets: [{match: '/pincap-kt-*-part', limit: '50%%'}]\n");
	pincapd_start();
	assert_true(has_limit(&a, kib * 1024 / 2));
}

/* Each asks the moment it is made, for all that it may have and a page more. */
static void fresh_cgroups(void **state)
{
	enum { COUNT = 200 };
	static struct cg cgs[COUNT];
	pid_t pids[COUNT];
	char name[16];

	(void)state;
	pincapd_configure("budgets: [{match: '/pincap-kt-*-fresh*', limit: 4M}]\n");
	pincapd_start();
	for (int i = 0; i < COUNT; i++) {
		snprintf(name, sizeof(name), "fresh%d", i);
		cg_make(&cgs[i], NULL, name);
		pids[i] = cg_fork(&cgs[i]);
		if (!pids[i]) {
			int fd = socket(AF_UNIX, SOCK_DGRAM, 0), rc;

			do {
				rc = ask_charge(fd, 4 * MIB + 4096, PINCAP_DRIVER);
			} while (rc == -EINPROGRESS);
			CHILD_EQUAL(rc, -EDQUOT);
			CHILD_EQUAL(ask_decided(fd, 4 * MIB, PINCAP_DRIVER), 0);
			CHILD_EQUAL(ask_decided(fd, 4096, PINCAP_DRIVER), -EDQUOT);
			CHILD_EQUAL(ask_settle(fd), 4 * MIB);
			_exit(0);
		}
	}
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(reap(pids[i]), 0);
	for (int i = 0; i < COUNT; i++)
		assert_int_equal(entry(&cgs[i]).peak, 4 * MIB);
}

static void admitted_without(void *unused)
{
	(void)unused;
	CHILD_EQUAL(ask_decided(socket(AF_UNIX, SOCK_DGRAM, 0), 64 * MIB, PINCAP_DRIVER), 0);
}

static void reload(void **state)
{
	struct cg a, b, hand;

	(void)state;
	cg_make(&a, NULL, "one");
	cg_make(&b, NULL, "two");
	cg_make(&hand, NULL, "hand");
	set_limit(&hand, "7M");
	pincapd_configure("budgets:\n"
			  "- {match: '/pincap-kt-*-one', limit: 1M}\n"
			  "- {match: '/pincap-kt-*-two', limit: 2M, high: 1M, min: 1M}\n");
	pincapd_start();
	assert_true(has_limit(&a, MIB));
	assert_true(has_limit(&b, 2 * MIB));
	assert_true(pincapd_status("^3 budgets, 0 stopped, 0 over"));
	pincapd_configure("budgets: [{match: '/pincap-kt-*-one', limit: 3M}]\n");
	pincapd_reload();
	assert_int_equal(entry(&a).limit, 3 * MIB);
	assert_int_equal(entry(&b).limit, PINCAP_UNLIMITED);
	assert_int_equal(entry(&b).high, PINCAP_UNLIMITED);
	assert_int_equal(entry(&b).min, 0);
	assert_int_equal(entry(&hand).limit, 7 * MIB);
	assert_true(pincapd_status("^2 budgets"));
	/* one with a fault in it changes nothing */
	pincapd_configure("budgets: [{match: '/pincap-kt-*-one', limit: 4Q}]\n");
	pincapd_reload();
	assert_true(pincapd_says("reload: .*/pincap.yaml:3: budgets\\[0\\].limit: .*'4Q'"));
	assert_true(pincapd_status("last reload failed"));
	assert_int_equal(entry(&a).limit, 3 * MIB);
	/* and what a rule gave is taken back by a daemon that did not give it */
	pincapd_kill();
	pincapd_configure("budgets: []\n");
	pincapd_start();
	assert_int_equal(entry(&a).limit, PINCAP_UNLIMITED);
	assert_int_equal(entry(&hand).limit, 7 * MIB);
}

/* `pincap set` where a rule matches holds until the rules are read again. */
static void by_hand(void **state)
{
	struct cg a;

	(void)state;
	pincapd_configure("budgets: [{match: '/pincap-kt-*-tuned', limit: 5M}]\n");
	pincapd_start();
	cg_make(&a, NULL, "tuned");
	assert_true(has_limit(&a, 5 * MIB));
	set_limit(&a, "9M");
	sleep(2); /* two scans */
	assert_int_equal(entry(&a).limit, 9 * MIB);
	pincapd_reload();
	assert_int_equal(entry(&a).limit, 5 * MIB);
}

/* One that hangs hears of nothing; it finds all of it when it goes on. */
static void after_a_hang(void **state)
{
	enum { COUNT = 40 };
	static struct cg cgs[COUNT];
	struct cg hand;
	char name[16];

	(void)state;
	pincapd_configure("budgets: [{match: '/pincap-kt-*-late*', limit: 6M}]\n");
	pincapd_start();
	kill(pincapd_pid(), SIGSTOP);
	usleep(1100000); /* PINCAP_HEARTBEAT_NS: nobody waits for it any more */
	cg_make(&hand, NULL, "late-by-hand");
	set_limit(&hand, "2M");
	for (int i = 0; i < COUNT; i++) {
		snprintf(name, sizeof(name), "late%d", i);
		cg_make(&cgs[i], NULL, name);
	}
	child_run(&cgs[0], admitted_without, NULL);
	kill(pincapd_pid(), SIGCONT);
	for (int i = 0; i < COUNT; i++)
		assert_true(has_limit(&cgs[i], 6 * MIB));
	/* what was set meanwhile was meant */
	assert_int_equal(entry(&hand).limit, 2 * MIB);
}

/* `pincap run` is its own controller, under whatever the rules say of those above. */
static void beside_run(void **state)
{
	struct pincap_cgroup m;
	char line[900];
	struct cg cg;

	(void)state;
	pincapd_configure("budgets: [{match: '/pincap-kt-*-user', limit: 8M}]\n");
	pincapd_start();
	cg_make(&cg, NULL, "user");
	snprintf(line, sizeof(line),
		 "echo $$ >%s/cgroup.procs; exec env -u PINCAP_NOTIFY %s run --limit 4M -- true",
		 cg.dir, getenv("PINCAP"));
	assert_int_equal(system(line), 0);
	snprintf(line, sizeof(line),
		 "echo $$ >%s/cgroup.procs; exec env -u PINCAP_NOTIFY %s run --limit 64M -- "
		 "sh -c 'test \"$(%s stat --json $(sed -n s/^0:://p /proc/self/cgroup) | grep -c "
		 "67108864)\" -ge 1'",
		 cg.dir, getenv("PINCAP"), getenv("PINCAP"));
	assert_int_equal(system(line), 0);
	assert_true(map_cgroup(&cg, &m));
	assert_int_equal(m.limit, 8 * MIB);
	/* it unloads nothing, and nobody else does while a daemon is there */
	snprintf(line, sizeof(line), "%s unload 2>%s/unload", getenv("PINCAP"), pincapd_dir());
	assert_int_equal(WEXITSTATUS(system(line)), 1);
	snprintf(line, sizeof(line), "grep -q 'in use: end what uses it first, pincapd' %s/unload",
		 pincapd_dir());
	assert_int_equal(system(line), 0);
	assert_true(has_limit(&cg, 8 * MIB));
}

static void only_one(void **state)
{
	char line[512];

	(void)state;
	pincapd_configure("tick: 1s\n");
	pincapd_start();
	snprintf(line, sizeof(line), "%s --config %s/pincap.yaml 2>%s/second",
		 getenv("PINCAPD") ?: "build/pincapd", pincapd_dir(), pincapd_dir());
	assert_int_equal(WEXITSTATUS(system(line)), 1);
	snprintf(line, sizeof(line),
		 "grep -qx 'pincapd: another pincapd runs; stop it first: .*' %s/second",
		 pincapd_dir());
	assert_int_equal(system(line), 0);
}

int main(int argc, char **argv)
{
#define DAEMON_TEST(f) cmocka_unit_test_teardown(f, pincapd_teardown)
	const struct CMUnitTest tests[] = {
		DAEMON_TEST(every_key),	   DAEMON_TEST(percent),    DAEMON_TEST(fresh_cgroups),
		DAEMON_TEST(reload),	   DAEMON_TEST(by_hand),    DAEMON_TEST(only_one),
		DAEMON_TEST(after_a_hang), DAEMON_TEST(beside_run),
	};

	harness_init(argc, argv);
	return cmocka_run_group_tests(tests, pincapd_group_setup, pincapd_group_teardown);
}
