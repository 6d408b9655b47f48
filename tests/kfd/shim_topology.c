/* SPDX-License-Identifier: MIT */
/*
 * The KFD's topology in sysfs: a private directory, written when the runtime
 * first asks for it and removed when the first queue shows that it has read
 * it. Asked again, it is written again. So even a process that is killed leaves
 * nothing behind.
 */
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "tests/kfd/shim.h"
#include "userspace/common/util.h"

#define TOPOLOGY_FILE_BYTES 4096

/* The paths that are led into the tree, and the place there. */
static const struct {
	const char *prefix;
	const char *place;
} redirections[] = {
	{ "/sys/devices/virtual/kfd/", "/" },
	{ "/sys/class/kfd/", "/" },
	{ "/sys/module/amdgpu/", "/amdgpu/" },
};

static pthread_mutex_t topology_mutex = PTHREAD_MUTEX_INITIALIZER;
static char root[64]; /* empty: not written */

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void remove_tree(void)
{
	if (root[0])
		nftw(root, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
	root[0] = '\0';
}

/* Every directory on the way to the last slash of path, which is under root. */
static int make_parents(char *path)
{
	char *slash = path + strlen(root);
	int ret = 0;

	while (!ret && (slash = strchr(slash + 1, '/'))) {
		*slash = '\0';
		if (mkdir(path, 0700) && errno != EEXIST)
			ret = -errno;
		*slash = '/';
	}
	return ret;
}

static int write_file(const struct topology_file *file, int gfx)
{
	_cleanup_close_ int fd = -1;
	char path[PATH_MAX], text[TOPOLOGY_FILE_BYTES];
	int bytes, err;

	snprintf(path, sizeof(path), "%s/%s", root, file->path);
	err = make_parents(path);
	if (err || !file->format)
		return err;
	bytes = file->format(text, sizeof(text), gfx);
	fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	return write(fd, text, bytes) == bytes ? 0 : -EIO;
}

static int make_root(const char *parent)
{
	if (!parent ||
	    snprintf(root, sizeof(root), "%s/kfd-shim.XXXXXX", parent) >= (int)sizeof(root))
		return -EINVAL;
	return mkdtemp(root) ? 0 : -errno;
}

static int write_tree(void)
{
	const struct topology_file *file;
	int err;

	err = make_root(secure_getenv("TMPDIR"));
	if (err)
		err = make_root("/tmp");
	if (err)
		root[0] = '\0';
	for (file = topology_files; !err && file->path; file++)
		err = write_file(file, shim_config()->gfx);
	if (err) {
		shim_complain("cannot write the topology: %s", strerror(-err));
		remove_tree();
	}
	return err;
}

static const char *place_of(const char *path, size_t *ret_prefix_bytes)
{
	size_t i, n;

	for (i = 0; i < ARRAY_SIZE(redirections); i++) {
		n = strlen(redirections[i].prefix);
		if (strncmp(path, redirections[i].prefix, n) == 0) {
			*ret_prefix_bytes = n;
			return redirections[i].place;
		}
	}
	return NULL;
}

const char *topology_path(const char *path, char *buf, size_t size)
{
	const char *place;
	size_t prefix_bytes;

	if (!path || strncmp(path, "/sys/", 5) != 0)
		return path;
	place = place_of(path, &prefix_bytes);
	if (!place || !shim_config()->device)
		return path;

	pthread_mutex_lock(&topology_mutex);
	if (root[0] || write_tree() == 0) {
		snprintf(buf, size, "%s%s%s", root, place, path + prefix_bytes);
		path = buf;
	}
	pthread_mutex_unlock(&topology_mutex);
	return path;
}

void topology_drop(void)
{
	int saved = errno;

	pthread_mutex_lock(&topology_mutex);
	remove_tree();
	pthread_mutex_unlock(&topology_mutex);
	errno = saved;
}

void topology_lock(void)
{
	pthread_mutex_lock(&topology_mutex);
}

void topology_unlock(void)
{
	pthread_mutex_unlock(&topology_mutex);
}

/* The tree is the parent's to remove. */
void topology_forked(void)
{
	root[0] = '\0';
}
