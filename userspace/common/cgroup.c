/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libcgroup.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "userspace/common/cgroup.h"
#include "userspace/common/cgproc.h"

/* Type of a kernfs file handle (include/linux/exportfs.h, 5.5 and later): the
 * 8 bytes are the node's id. */
#define FILEID_KERNFS 0xfe

/* v1 says "no limit" as the largest page-aligned long. */
#define MEMORY_NO_LIMIT (1ULL << 62)

static struct cgproc_mount unified; /* dir NULL until found; then for good */

static int find_mount(const char *controller, struct cgproc_mount *ret)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/mountinfo", "re");

	return f ? cgproc_find_mount(f, controller, ret) : -errno;
}

const char *cgroup_mount(void)
{
	int err;

	if (!unified.dir) {
		err = find_mount(NULL, &unified);
		if (err) {
			errno = -err;
			return NULL;
		}
	}
	return unified.dir;
}

/* "a//b/./" -> "/a/b"; "" and "/" -> "" */
static int normalize(const char *text, char **ret)
{
	_cleanup_free_ char *path = calloc(1, strlen(text) + 2);
	char *to = path;

	if (!path)
		return -ENOMEM;
	while (*text) {
		size_t len = strcspn(text, "/");

		if (len == 2 && !strncmp(text, "..", 2))
			return -EINVAL;
		if (len && !(len == 1 && *text == '.')) {
			*to++ = '/';
			to = mempcpy(to, text, len);
		}
		text += len + (text[len] == '/');
	}
	*ret = TAKE_PTR(path);
	return 0;
}

int cgroup_path_parse(const char *text, char **ret_cgpath)
{
	_cleanup_free_ char *path = NULL;
	const char *mount = cgroup_mount(), *rest;
	int err;

	if (!mount)
		return -errno;
	if (!*text || strchr(text, '\n'))
		return -EINVAL;
	if (strlen(text) >= PATH_MAX)
		return -ENAMETOOLONG;
	err = normalize(text, &path);
	if (err)
		return err;
	rest = cgproc_below(path, mount);
	if (!rest)
		rest = path;
	*ret_cgpath = strdup(*rest ? rest : "/");
	return *ret_cgpath ? 0 : -ENOMEM;
}

char *cgroup_dir(const char *cgpath)
{
	const char *mount = cgroup_mount();
	char *dir;

	if (!mount || asprintf(&dir, "%s%s", mount, streq(cgpath, "/") ? "" : cgpath) < 0)
		return NULL;
	return dir;
}

/* cgroup_dir or its errno: without a mount it is not memory that lacks. */
static int dir_of(const char *cgpath, char **ret)
{
	if (!cgroup_mount())
		return -errno;
	*ret = cgroup_dir(cgpath);
	return *ret ? 0 : -ENOMEM;
}

/* The path in /proc/PID/cgroup, in v2 (controller NULL) or a v1 hierarchy. */
static int proc_path(pid_t pid, const char *controller, char **ret)
{
	_cleanup_fclose_ FILE *f = NULL;
	char name[64] = "/proc/self/cgroup";

	if (pid)
		snprintf(name, sizeof(name), "/proc/%d/cgroup", (int)pid);
	f = fopen(name, "re");
	if (!f)
		return errno == ENOENT ? -ESRCH : -errno;
	return cgproc_find_path(f, controller, ret);
}

int cgroup_of_pid(pid_t pid, char **ret_cgpath)
{
	_cleanup_free_ char *path = NULL;
	const char *rest;
	int err;

	if (!cgroup_mount())
		return -errno;
	err = proc_path(pid, NULL, &path);
	if (err)
		return err;
	err = cgproc_path_in_mount(path, &unified, &rest);
	if (err)
		return err;
	*ret_cgpath = strdup(rest);
	return *ret_cgpath ? 0 : -ENOMEM;
}

int cgroup_open(const char *cgpath)
{
	_cleanup_free_ char *dir = NULL;
	_cleanup_close_ int fd = -1;
	struct statfs fs;
	int err;

	err = dir_of(cgpath, &dir);
	if (err)
		return err;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fstatfs(fd, &fs))
		return -errno;
	return fs.f_type == CGROUP2_SUPER_MAGIC ? TAKE_FD(fd) : -EXDEV;
}

int cgroup_id(const char *cgpath, uint64_t *ret_cgid)
{
	_cleanup_close_ int fd = cgroup_open(cgpath);
	struct stat st;

	if (fd < 0)
		return fd;
	if (fstat(fd, &st))
		return -errno;
	*ret_cgid = st.st_ino;
	return 0;
}

int cgroup_chain(const char *cgpath, uint64_t *ret_chain, unsigned int max, unsigned int *ret_depth)
{
	_cleanup_free_ char *path = strdup(cgpath);
	unsigned int depth = 0;
	int err;

	if (!path)
		return -ENOMEM;
	for (;;) {
		char *slash = strrchr(path, '/');

		if (!slash)
			return -EINVAL;
		if (depth == max)
			return -E2BIG;
		err = cgroup_id(path, &ret_chain[depth]);
		if (err)
			return err;
		depth++;
		if (streq(path, "/"))
			break;
		slash[slash == path] = '\0';
	}
	*ret_depth = depth;
	return 0;
}

int cgroup_path_of_id(uint64_t cgid, char **ret_cgpath)
{
	_cleanup_(freep) struct file_handle *handle = NULL;
	_cleanup_free_ char *path = NULL;
	_cleanup_close_ int root_fd = -1, fd = -1;
	char link[64], text[PATH_MAX];
	const char *rest;
	uint64_t id;
	ssize_t len;

	root_fd = cgroup_open("/");
	if (root_fd < 0)
		return root_fd;
	handle = calloc(1, sizeof(*handle) + sizeof(cgid));
	if (!handle)
		return -ENOMEM;
	handle->handle_bytes = sizeof(cgid);
	handle->handle_type = FILEID_KERNFS;
	memcpy(handle->f_handle, &cgid, sizeof(cgid));
	fd = open_by_handle_at(root_fd, handle, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	len = readlink(link, text, sizeof(text) - 1);
	if (len < 0)
		return -errno;
	text[len] = '\0';
	rest = cgproc_below(text, unified.dir);
	if (!rest)
		return -EXDEV; /* above what is mounted here */
	path = strdup(*rest ? rest : "/");
	if (!path)
		return -ENOMEM;
	/* Removed since: the link reads "... (deleted)", or the name is another's. */
	if (cgroup_id(path, &id) || id != cgid)
		return -ENOENT;
	*ret_cgpath = TAKE_PTR(path);
	return 0;
}

int cgroup_create(const char *cgpath)
{
	_cleanup_free_ char *dir = NULL;
	size_t mount_len;
	uint64_t id;
	int made = 0, err;

	err = dir_of(cgpath, &dir);
	if (err)
		return err;
	mount_len = strlen(unified.dir);
	for (char *end = dir + mount_len; *end;) {
		char saved;

		end += 1 + strcspn(end + 1, "/");
		saved = *end;
		*end = '\0';
		made = !mkdir(dir, 0755);
		if (!made && errno != EEXIST)
			return -errno;
		*end = saved;
	}
	err = cgroup_id(cgpath, &id);
	return err ? err : made;
}

int cgroup_attach(const char *cgpath, pid_t pid)
{
	_cleanup_close_ int dir_fd = cgroup_open(cgpath), fd = -1;
	_cleanup_free_ char *now = NULL;
	char text[16];
	int len = snprintf(text, sizeof(text), "%d", (int)pid), err;

	if (dir_fd < 0)
		return dir_fd;
	fd = openat(dir_fd, "cgroup.procs", O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, (size_t)len) != len)
		return -errno;
	err = cgroup_of_pid(pid, &now);
	if (err)
		return err;
	return streq(now, cgpath) ? 0 : -EIO;
}

int cgroup_remove(const char *cgpath)
{
	_cleanup_free_ char *dir = NULL;
	int err = dir_of(cgpath, &dir);

	if (err)
		return err;
	return rmdir(dir) ? -errno : 0;
}

static void no_log(void *ctx, int level, const char *fmt, va_list ap)
{
	(void)ctx;
	(void)level;
	(void)fmt;
	(void)ap;
}

/*
 * Where libcgroup sees the memory controller. Without a logger of ours it
 * would print its troubles to stdout.
 */
static int libcgroup_memory_mount(char **ret)
{
	cgroup_set_logger(no_log, CGROUP_LOG_ERROR, NULL);
	if (cgroup_init() || cgroup_get_subsys_mount_point("memory", ret))
		return -ENOENT;
	return 0;
}

int cgroup_print_rules(FILE *to)
{
	if (access("/etc/cgrules.conf", F_OK))
		return -errno;
	cgroup_set_logger(no_log, CGROUP_LOG_ERROR, NULL);
	if (cgroup_init_rules_cache())
		return -EBADMSG;
	cgroup_print_rules_config(to);
	return ferror(to) ? -EIO : 0;
}

static int read_limit(const char *dir, const char *file, uint64_t *ret)
{
	_cleanup_free_ char *name = NULL;
	_cleanup_fclose_ FILE *f = NULL;
	uint64_t limit;

	if (asprintf(&name, "%s/%s", dir, file) < 0)
		return -ENOMEM;
	f = fopen(name, "re");
	if (!f)
		return -errno;
	if (fscanf(f, "%" SCNu64, &limit) != 1 || limit >= MEMORY_NO_LIMIT)
		limit = UINT64_MAX; /* v2 says "max" */
	*ret = limit;
	return 0;
}

/* The memory controller's mount: libcgroup's word, else what mountinfo says.
 * 0: v1, 1: v2. */
static int memory_mount(struct cgproc_mount *ret)
{
	_cleanup_free_ char *dir = NULL;
	struct statfs fs;
	int err;

	if (!libcgroup_memory_mount(&dir)) {
		_cleanup_fclose_ FILE *f = fopen("/proc/self/mountinfo", "re");

		err = f ? cgproc_find_dir(f, dir, ret) : -errno;
	} else {
		err = find_mount("memory", ret);
		if (err == -ENOENT)
			err = find_mount(NULL, ret);
	}
	if (err)
		return err;
	return !statfs(ret->dir, &fs) && fs.f_type == CGROUP2_SUPER_MAGIC;
}

/* From `rest` below the mount up to the mount. */
static int tightest_limit(const struct cgproc_mount *m, bool v2, const char *rest, uint64_t *ret)
{
	_cleanup_free_ char *dir = NULL;
	uint64_t tightest = UINT64_MAX, limit = UINT64_MAX;
	char *slash;

	if (asprintf(&dir, "%s%s", m->dir, streq(rest, "/") ? "" : rest) < 0)
		return -ENOMEM;
	for (;;) {
		if (!read_limit(dir, v2 ? "memory.max" : "memory.limit_in_bytes", &limit))
			tightest = MIN(tightest, limit);
		slash = strrchr(dir, '/');
		if (!slash || slash < dir + strlen(m->dir))
			break;
		*slash = '\0';
	}
	*ret = tightest;
	return 0;
}

/* cgpath NULL: the caller's. */
static int memory_limit(const char *cgpath, uint64_t *ret)
{
	_cleanup_(cgproc_mount_done) struct cgproc_mount m = { 0 };
	_cleanup_free_ char *path = NULL;
	const char *rest = cgpath ? cgpath : "/";
	int v2 = memory_mount(&m);

	if (v2 == -ENOENT) {
		*ret = UINT64_MAX;
		return 0;
	}
	if (v2 < 0)
		return v2;
	/* Where our place cannot be told, the mount's own root still counts. */
	if (!cgpath && !proc_path(0, v2 ? NULL : "memory", &path))
		cgproc_path_in_mount(path, &m, &rest);
	return tightest_limit(&m, v2, rest, ret);
}

int cgroup_memory_limit(uint64_t *ret_bytes)
{
	return memory_limit(NULL, ret_bytes);
}

int cgroup_memory_limit_at(const char *cgpath, uint64_t *ret_bytes)
{
	return memory_limit(cgpath, ret_bytes);
}
