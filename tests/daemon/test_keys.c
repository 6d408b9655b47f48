/* SPDX-License-Identifier: MIT */
/*
 * What the rest of a configuration's keys do: percentages of a memory limit, who may
 * read the counters, which devices are read; and many cgroups at once.
 */
#include <errno.h>
#include <grp.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <cmocka.h>

#include "tests/daemon/pincapd.h"
#include "tests/kernel/ask.h"
#include "tests/kernel/harness.h"
#include "tests/kernel/play.h"

#define V1_MEMORY "/sys/fs/cgroup/memory"

static uint64_t limit(const struct cg *cg)
{
	struct pincap_cgroup m;

	return map_cgroup(cg, &m) ? m.limit : PINCAP_UNLIMITED;
}

static bool has_limit(const struct cg *cg, uint64_t bytes)
{
	struct deadline d = deadline_in(4000);

	while (limit(cg) != bytes)
		if (!deadline_open(&d))
			return false;
	return true;
}

static int write_text(const char *path, const char *text)
{
	FILE *f = fopen(path, "we");
	int err = f ? fputs(text, f) < 0 : -1;

	return f && !fclose(f) ? err : -1;
}

/* Where the controller's limit of a cgroup is: v1 beside v2 has the same paths. NULL:
 * there is no such controller to be had. */
static const char *memory_limit_of(const struct cg *cg)
{
	static char path[700];
	struct stat st;

	snprintf(path, sizeof(path), "%s/memory.max", cg->dir);
	if (!stat(path, &st))
		return path;
	snprintf(path, sizeof(path), V1_MEMORY "%s", cg->dir + strlen(scratch_mount()));
	if (mkdir(path, 0755) && errno != EEXIST)
		return NULL;
	strcat(path, "/memory.limit_in_bytes");
	return path;
}

static void remove_v1(const struct cg *cg)
{
	char path[700];

	snprintf(path, sizeof(path), V1_MEMORY "%s", cg->dir + strlen(scratch_mount()));
	rmdir(path);
}

/* systemd makes the cgroup first and writes its memory.max then. */
static void percent_of_memory_max(void **state)
{
	struct cg cg, inner;
	const char *path;

	(void)state;
	pincapd_configure("budgets:\n"
			  "- {match: '/pincap-kt-*-boxed', limit: '50%%', min: '10%%'}\n"
			  "- {match: '/pincap-kt-*-boxed/inner', limit: '25%%'}\n");
	pincapd_start();
	cg_make(&cg, NULL, "boxed");
	cg_make(&inner, &cg, "inner");
	path = memory_limit_of(&cg);
	if (!path)
		skip();
	assert_int_equal(write_text(path, "67108864"), 0);
	assert_true(has_limit(&cg, 32 * MIB));
	assert_true(has_limit(&inner, 16 * MIB));
	pincapd_stop();
	pincapd_start();
	assert_int_equal(limit(&cg), 32 * MIB);
	pincapd_stop();
	remove_v1(&cg);
}

static void group(void **state)
{
	const struct group *g = getgrnam("nogroup");
	struct stat st;

	(void)state;
	assert_non_null(g);
	pincapd_configure("group: nogroup\n");
	pincapd_start();
	assert_return_code(stat("/sys/fs/bpf/pincap/iters/processes", &st), errno);
	assert_int_equal(st.st_gid, g->gr_gid);
	assert_int_equal(st.st_mode & 0777, 0440);
	pincapd_configure("tick: 1s\n");
	pincapd_reload();
	assert_return_code(stat("/sys/fs/bpf/pincap/iters/processes", &st), errno);
	assert_int_equal(st.st_gid, 0);
}

static bool is_read(ino_t ino, uint32_t kind)
{
	int fd = bpf_obj_get("/sys/fs/bpf/pincap/maps/config");
	struct pincap_config c;
	uint32_t zero = 0;

	assert_true(fd >= 0);
	assert_int_equal(bpf_map_lookup_elem(fd, &zero, &c), 0);
	close(fd);
	for (int i = 0; i < PINCAP_DEVICES; i++)
		if (c.devices[i].ino == ino && c.devices[i].kind == kind)
			return true;
	return false;
}

static void devices(void **state)
{
	char kfd[100], drm[100];
	struct stat a, b;

	(void)state;
	snprintf(kfd, sizeof(kfd), "%s/kfd", pincapd_dir());
	snprintf(drm, sizeof(drm), "%s/drm", pincapd_dir());
	assert_int_equal(write_text(kfd, "") | write_text(drm, ""), 0);
	assert_return_code(stat(kfd, &a) | stat(drm, &b), errno);
	pincapd_configure("devices: {kfd: %s}\n", kfd);
	pincapd_start();
	assert_true(is_read(a.st_ino, PINCAP_DEVICE_KFD));
	assert_false(is_read(b.st_ino, PINCAP_DEVICE_DRM));
	pincapd_configure("devices: {kfd: %s, drm: %s}\n", kfd, drm);
	pincapd_reload();
	assert_true(is_read(b.st_ino, PINCAP_DEVICE_DRM));
}

/* All is decided, told and counted, and nothing is refused. */
static void dry_run(void **state)
{
	struct pincap_cgroup m;
	struct actor p;
	struct cg cg;

	(void)state;
	pincapd_configure("dry_run: true\nbudgets: [{match: '/pincap-kt-*-dry*', limit: 4M}]\n");
	pincapd_start();
	assert_true(pincapd_says("1 rule, 0 budgets; dry run: nothing is refused"));
	assert_true(pincapd_status("^dry run: 0 budgets"));
	cg_make(&cg, NULL, "dry");
	assert_true(has_limit(&cg, 4 * MIB));
	actor_start(&p, &cg, false);
	actor_must(&p, 0, "charge %lld %d", 4 * MIB, PINCAP_DRIVER);
	actor_must(&p, 0, "charge %lld %d", 2 * MIB, PINCAP_DRIVER);
	assert_true(pincapd_says("would refuse 1 request in '/pincap-kt-.*-dry': its limit of 4.0 "
				 "MiB is reached"));
	assert_true(map_cgroup(&cg, &m));
	assert_int_equal(m.would_refuse, 1);
	assert_int_equal(m.refused, 0);
	/* in earnest */
	pincapd_configure("budgets: [{match: '/pincap-kt-*-dry*', limit: 4M}]\n");
	pincapd_reload();
	actor_fails(&p, EDQUOT, "charge %lld %d", 4 * KIB, PINCAP_DRIVER);
	actor_exit(&p);
	cg_make(&cg, NULL, "dry2");
	actor_start(&p, &cg, false);
	while (actor_do(&p, "charge %lld %d", 5 * MIB, PINCAP_DRIVER).err == EINPROGRESS)
		continue;
	assert_true(pincapd_says("refused 1 request in '/pincap-kt-.*-dry2': its limit of 4.0 MiB "
				 "is reached; last actor\\["));
	actor_exit(&p);
}

/* The exit code of pincapd with these arguments; its output must have `text`. */
static int run(const char *arguments, const char *text)
{
	const char *program = getenv("PINCAPD");
	char line[512], out[16384];
	size_t len;
	FILE *f;
	int status;

	snprintf(line, sizeof(line), "%s %s 2>&1", program ? program : "build/pincapd", arguments);
	f = popen(line, "re");
	assert_non_null(f);
	len = fread(out, 1, sizeof(out) - 1, f);
	out[len] = '\0';
	status = pclose(f);
	if (!strstr(out, text))
		fail_msg("'%s' is not in: %s", text, out);
	return WEXITSTATUS(status);
}

static void options(void **state)
{
	char arguments[200];

	(void)state;
	pincapd_configure("tick: 1s\nbudgets: [{match: /a, limit: 8G}]\n");
	snprintf(arguments, sizeof(arguments), "--check %s/pincap.yaml", pincapd_dir());
	assert_int_equal(run(arguments, "pincap.yaml: OK, 1 rule\n"), 0);
	snprintf(arguments, sizeof(arguments), "--config %s/pincap.yaml --print", pincapd_dir());
	assert_int_equal(run(arguments, "limit: 8589934592"), 0);
	assert_int_equal(run("--config /nowhere.yaml", "/nowhere.yaml: cannot be read"), 1);
	assert_int_equal(run("--version", "pincapd "), 0);
	assert_int_equal(run("--help", "--dry-run"), 0);
	assert_int_equal(run("--nonsense", "unrecognized option"), 2);
	assert_int_equal(run("what", "too many arguments: 'what'"), 2);
}

static const char *flood_dir(const struct cg *top, int i)
{
	static char dir[600];

	snprintf(dir, sizeof(dir), "%s/f%d", top->dir, i);
	return dir;
}

/* More at once than there is room to tell of: the walk finds the rest. */
static void flood(void **state)
{
	enum { COUNT = 3000 };
	struct cg top, cg;
	int64_t begin;

	(void)state;
	pincapd_configure("budgets: [{match: '/pincap-kt-*-flood/*', limit: 5M}]\n");
	pincapd_start();
	cg_make(&top, NULL, "flood");
	begin = now_ns();
	kill(pincapd_pid(), SIGSTOP);
	for (int i = 0; i < COUNT; i++) {
		assert_return_code(mkdir(flood_dir(&top, i), 0755), errno);
	}
	kill(pincapd_pid(), SIGCONT);
	print_message("# %d cgroups in %" PRId64 " ms\n", COUNT, (now_ns() - begin) / 1000000);
	assert_true(pincapd_status("^3000 budgets"));
	for (int i = 0; i < COUNT; i++) {
		struct stat st;

		assert_return_code(stat(flood_dir(&top, i), &st), errno);
		cg.id = st.st_ino;
		assert_int_equal(limit(&cg), 5 * MIB);
	}
	/* and forgets them when they go */
	for (int i = 0; i < COUNT; i++) {
		assert_return_code(rmdir(flood_dir(&top, i)), errno);
	}
	assert_true(pincapd_status("^0 budgets"));
}

int main(int argc, char **argv)
{
#define DAEMON_TEST(f) cmocka_unit_test_teardown(f, pincapd_teardown)
	const struct CMUnitTest tests[] = {
		DAEMON_TEST(percent_of_memory_max),
		DAEMON_TEST(group),
		DAEMON_TEST(devices),
		DAEMON_TEST(dry_run),
		DAEMON_TEST(options),
		DAEMON_TEST(flood),
	};

	harness_init(argc, argv);
	return cmocka_run_group_tests(tests, pincapd_group_setup, pincapd_group_teardown);
}
