/* SPDX-License-Identifier: MIT */
/*
 * Cgroup paths as text anywhere; cgroups as directories as root, on the real
 * hierarchy, below a directory of our own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "userspace/common/cgproc.h"
#include "userspace/common/cgroup.h"

static char base[64]; /* cgpath of our own directory */

static const char hybrid[] =
	"22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/root rw\n"
	"34 30 0:31 / /sys/fs/cgroup/memory rw,relatime shared:9 master:3 - cgroup cgroup "
	"rw,memory\n"
	"31 30 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
	"40 30 0:37 /docker/abc /mnt/a\\040b\\134c rw - cgroup2 cgroup2 rw\n"
	"41 30 0:37 / /sys/fs/cgroup/uni\\011fied rw - cgroup2 cgroup2 rw\n"
	"42 30 0:37 / /later rw - cgroup2 cgroup2 rw\n"
	"rubbish\n";

static FILE *text_file(const char *text)
{
	FILE *f = fmemopen((char *)text, strlen(text), "r");

	assert_non_null(f);
	return f;
}

static void test_mountinfo(void **state)
{
	static const struct {
		const char *text, *controller, *dir, *root;
	} table[] = {
		{ hybrid, NULL, "/sys/fs/cgroup/uni\tfied", "/" },
		{ hybrid, "memory", "/sys/fs/cgroup/memory", "/" },
		{ hybrid, "cpuacct", "/sys/fs/cgroup/cpu,cpuacct", "/" },
		{ hybrid, "cpu", "/sys/fs/cgroup/cpu,cpuacct", "/" },
		{ hybrid, "cpuset", NULL, NULL },
		{ hybrid, "mem", NULL, NULL },
		{ "40 30 0:37 /docker/abc /mnt/a\\040b\\134c rw - cgroup2 cgroup2 rw\n", NULL,
		  "/mnt/a b\\c", "/docker/abc" },
		{ "40 30 0:37 / /x\\04 rw - cgroup2 cgroup2 rw", NULL, "/x\\04", "/" },
		{ "40 30 0:37 / /x rw - cgroup2\n", NULL, NULL, NULL },
		{ "\n\n", NULL, NULL, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_(cgproc_mount_done) struct cgproc_mount m = { 0 };
		_cleanup_fclose_ FILE *f = text_file(table[i].text);
		int err = cgproc_find_mount(f, table[i].controller, &m);

		assert_int_equal(err, table[i].dir ? 0 : -ENOENT);
		if (err)
			continue;
		assert_string_equal(m.dir, table[i].dir);
		assert_string_equal(m.root, table[i].root);
	}
}

static void test_find_path(void **state)
{
	static const char text[] = "9:name=systemd:/user\n8:cpu,cpuacct:/a:b\n4:memory:/m/n\n"
				   "0::/v2 with space/x (deleted)\n";
	static const struct {
		const char *controller, *path;
	} table[] = {
		{ NULL, "/v2 with space/x (deleted)" },
		{ "memory", "/m/n" },
		{ "cpu", "/a:b" },
		{ "cpuacct", "/a:b" },
		{ "mem", NULL },
		{ "acct", NULL },
		{ "name=systemd", "/user" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		_cleanup_fclose_ FILE *f = text_file(text);
		_cleanup_free_ char *path = NULL;
		int err = cgproc_find_path(f, table[i].controller, &path);

		assert_int_equal(err, table[i].path ? 0 : -ENOENT);
		if (!err)
			assert_string_equal(path, table[i].path);
	}
}

static void test_namespaces(void **state)
{
	static const struct {
		const char *path, *root, *rest;
	} table[] = {
		{ "/", "/", "/" },
		{ "/a/b", "/", "/a/b" },
		{ "/docker/abc", "/docker/abc", "/" },
		{ "/docker/abc/x", "/docker/abc", "/x" },
		{ "/docker/abcd", "/docker/abc", NULL },
		{ "/docker", "/docker/abc", NULL },
		{ "/..", "/", NULL },
		{ "/../sibling", "/", NULL },
		{ "/..name", "/", "/..name" },
		{ "/", "/..", NULL },
		{ "/../x", "/..", NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		const struct cgproc_mount m = { .root = (char *)table[i].root };
		const char *rest = NULL;

		assert_int_equal(cgproc_path_in_mount(table[i].path, &m, &rest),
				 table[i].rest ? 0 : -EXDEV);
		if (table[i].rest)
			assert_string_equal(rest, table[i].rest);
	}
}

static void test_path_parse(void **state)
{
	static const struct {
		const char *text, *cgpath;
	} table[] = {
		{ "/", "/" },
		{ "//", "/" },
		{ ".", "/" },
		{ "a", "/a" },
		{ "/a", "/a" },
		{ "/a/b/", "/a/b" },
		{ "a//b///c", "/a/b/c" },
		{ "./a/./b", "/a/b" },
		{ "a..b", "/a..b" },
		{ "/a/...", "/a/..." },
	};
	static const char *const bad[] = { "", "..", "/..", "a/..", "a/../b", "../a", "a\nb" };
	_cleanup_free_ char *absolute = NULL, *none = NULL, *sibling = NULL;
	char *cgpath;

	(void)state;
	assert_non_null(cgroup_mount());
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		assert_int_equal(cgroup_path_parse(table[i].text, &cgpath), 0);
		assert_string_equal(cgpath, table[i].cgpath);
		free(cgpath);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(cgroup_path_parse(bad[i], &none), -EINVAL);
	assert_null(none);

	assert_true(asprintf(&absolute, "%s/x/y/", cgroup_mount()) > 0);
	for (unsigned int i = 0; i < 2; i++) { /* with and without the leading slash */
		assert_int_equal(cgroup_path_parse(absolute + i, &cgpath), 0);
		assert_string_equal(cgpath, "/x/y");
		free(cgpath);
	}
	assert_int_equal(cgroup_path_parse(cgroup_mount(), &cgpath), 0);
	assert_string_equal(cgpath, "/");
	free(cgpath);
	/* a name that only begins like the mount is no path below it */
	assert_true(asprintf(&sibling, "%sx/y", cgroup_mount()) > 0);
	assert_int_equal(cgroup_path_parse(sibling, &cgpath), 0);
	assert_string_equal(cgpath, sibling);
	free(cgpath);
}

static void below_base(char *buf, size_t size, const char *rest)
{
	snprintf(buf, size, "%s%s", base, rest);
}

static void test_directories(void **state)
{
	char deep[128], path[128];
	uint64_t chain[8], id;
	unsigned int depth;
	_cleanup_free_ char *dir = NULL, *again = NULL;
	struct stat st;

	if (!*state)
		skip();
	below_base(deep, sizeof(deep), "/a/b/c");
	assert_int_equal(cgroup_id(deep, &id), -ENOENT);
	assert_int_equal(cgroup_create(deep), 1);
	assert_int_equal(cgroup_create(deep), 0);
	assert_int_equal(cgroup_create("/"), 0);

	dir = cgroup_dir(deep);
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(cgroup_id(deep, &id), 0);
	assert_int_equal(id, st.st_ino);

	assert_int_equal(cgroup_chain(deep, chain, 5, &depth), 0);
	assert_int_equal(depth, 5);
	assert_int_equal(chain[0], id);
	assert_int_equal(cgroup_id("/", &id), 0);
	assert_int_equal(chain[4], id);
	assert_int_equal(cgroup_chain(deep, chain, 4, &depth), -E2BIG);
	assert_int_equal(cgroup_chain("/", chain, 1, &depth), 0);
	assert_int_equal(depth, 1);

	assert_int_equal(cgroup_id(deep, &id), 0);
	assert_int_equal(cgroup_path_of_id(id, &again), 0);
	assert_string_equal(again, deep);
	below_base(path, sizeof(path), "/a");
	assert_int_equal(cgroup_remove(path), -EBUSY); /* has children */
	assert_int_equal(cgroup_remove(deep), 0);
	assert_int_equal(cgroup_remove(deep), -ENOENT);
	free(TAKE_PTR(again));
	assert_true(cgroup_path_of_id(id, &again) < 0);
	/* a new one of the same name is another */
	assert_int_equal(cgroup_create(deep), 1);
	assert_true(cgroup_path_of_id(id, &again) < 0);
	assert_null(again);
	assert_int_equal(cgroup_chain("/", chain, 1, &depth), 0);
	assert_int_equal(cgroup_path_of_id(chain[0], &again), 0);
	assert_string_equal(again, "/");
}

static void test_processes(void **state)
{
	_cleanup_free_ char *mine = NULL, *now = NULL;
	char path[128], none[128];
	pid_t pid;
	int fd;

	if (!*state)
		skip();
	below_base(path, sizeof(path), "/p");
	below_base(none, sizeof(none), "/missing");
	assert_int_equal(cgroup_create(path), 1);
	assert_int_equal(cgroup_of_pid(0, &mine), 0);
	pid = fork();
	if (!pid) {
		pause();
		_exit(0);
	}
	assert_int_equal(cgroup_of_pid(pid, &now), 0);
	assert_string_equal(now, mine);
	free(TAKE_PTR(now));
	assert_int_equal(cgroup_attach(path, pid), 0);
	assert_int_equal(cgroup_of_pid(pid, &now), 0);
	assert_string_equal(now, path);
	assert_int_equal(cgroup_remove(path), -EBUSY);
	assert_int_equal(cgroup_attach(none, pid), -ENOENT);

	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_int_equal(cgroup_attach(path, pid), -ESRCH);
	free(TAKE_PTR(now));
	assert_int_equal(cgroup_of_pid(pid, &now), -ESRCH);
	assert_null(now);

	fd = cgroup_open(path);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(cgroup_open(none), -ENOENT);
	assert_int_equal(cgroup_remove(path), 0);
}

static void test_memory_limit(void **state)
{
	uint64_t limit = 0;

	(void)state;
	assert_int_equal(cgroup_memory_limit(&limit), 0);
	assert_true(limit > 0);
	if (limit != UINT64_MAX)
		assert_true(limit < 1ULL << 62);
}

/* *state is NULL where cgroups cannot be made. */
static int set_up(void **state)
{
	snprintf(base, sizeof(base), "/pincap-test-cgroup-%d", (int)getpid());
	*state = cgroup_create(base) == 1 ? base : NULL;
	return 0;
}

static int tear_down(void **state)
{
	static const char *const made[] = { "/p", "/a/b/c", "/a/b", "/a", "" };
	char path[128];

	for (size_t i = 0; *state && i < ARRAY_SIZE(made); i++) {
		below_base(path, sizeof(path), made[i]);
		cgroup_remove(path);
	}
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mountinfo),    cmocka_unit_test(test_find_path),
		cmocka_unit_test(test_namespaces),   cmocka_unit_test(test_path_parse),
		cmocka_unit_test(test_directories),  cmocka_unit_test(test_processes),
		cmocka_unit_test(test_memory_limit),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
