/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "userspace/common/util.h"
#include "userspace/control/config_doc.h"
#include "userspace/control/config_file.h"

static int fail_open(const char *path, int err, struct config_error *error)
{
	return config_fail_at(error, err, path, 0, "", "cannot be read: %s; %s", strerror(-err),
			      err == -ENOENT ? "create it or name another"
					     : "make it a file that root can read");
}

static int fail_large(const char *path, struct config_error *error)
{
	return config_fail_at(error, -EFBIG, path, 0, "",
			      "is larger than %u KiB; no configuration is, name another",
			      CONFIG_FILE_BYTES_MAX / 1024);
}

/* Reads to the end, whatever size the file is said to have. */
static int read_all(int fd, char *text, size_t size, size_t *ret_len)
{
	size_t len = 0;

	while (len < size) {
		ssize_t n = read(fd, text + len, size - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		len += (size_t)n;
	}
	*ret_len = len;
	return 0;
}

int config_file_read(const char *path, char **ret_text, size_t *ret_len, struct config_error *error)
{
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int fd = -1;
	struct stat st;
	int err;

	/* O_NONBLOCK: a pipe without a writer must not hold us up */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st))
		return fail_open(path, -errno, error);
	if (!S_ISREG(st.st_mode))
		return config_fail_at(error, S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL, path, 0, "",
				      "is %s; name a regular file",
				      S_ISDIR(st.st_mode) ? "a directory" : "a device or a pipe");
	if (st.st_size > CONFIG_FILE_BYTES_MAX)
		return fail_large(path, error);
	text = malloc(CONFIG_FILE_BYTES_MAX + 1);
	if (!text)
		return config_fail_memory(error, path);
	err = read_all(fd, text, CONFIG_FILE_BYTES_MAX + 1, ret_len);
	if (err)
		return fail_open(path, err, error);
	if (*ret_len > CONFIG_FILE_BYTES_MAX)
		return fail_large(path, error);
	*ret_text = TAKE_PTR(text);
	return 0;
}

static int is_drop_in(const struct dirent *e)
{
	size_t len = strlen(e->d_name);

	return e->d_name[0] != '.' && len > 5 && streq(e->d_name + len - 5, ".yaml");
}

/* Not alphasort, whose order is the locale's. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

int config_file_each_drop_in(const char *path, config_file_fn fn, void *ctx,
			     struct config_error *error)
{
	_cleanup_free_ struct dirent **list = NULL;
	_cleanup_free_ char *dir = NULL;
	int count, err = 0;

	if (asprintf(&dir, "%s.d", path) < 0) {
		dir = NULL;
		return config_fail_memory(error, path);
	}
	count = scandir(dir, &list, is_drop_in, by_name);
	if (count < 0 && errno == ENOENT)
		return 0;
	if (count < 0)
		return config_fail_at(error, -errno, dir, 0, "",
				      "cannot be read: %s; make it a directory of *.yaml files",
				      strerror(errno));
	for (int i = 0; i < count; i++) {
		_cleanup_free_ char *name = NULL;

		if (!err && asprintf(&name, "%s/%s", dir, list[i]->d_name) < 0) {
			name = NULL;
			err = config_fail_memory(error, dir);
		}
		if (!err)
			err = fn(name, ctx);
		free(list[i]);
	}
	return err;
}
