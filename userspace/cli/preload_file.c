/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/xattr.h>

#include "userspace/cli/preload_file.h"
#include "userspace/cli/run_place.h"

#define TEMPORARY "/etc/.ld.so.preload.pincap"
#define LOCK_FILE PINCAP_RUNDIR "/attach-host.lock"
#define MAX_BYTES (1 << 20)

int preload_file_lock(void)
{
	_cleanup_close_ int fd = -1;

	if (!mkdir(PINCAP_RUNDIR, 0755))
		chmod(PINCAP_RUNDIR, 0755); /* whatever the umask */
	fd = open(LOCK_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB))
		return -errno;
	return TAKE_FD(fd);
}

/* Until the end or `size`. */
static ssize_t read_all(int fd, char *to, size_t size)
{
	size_t len = 0;
	ssize_t n;

	while (len < size && (n = read(fd, to + len, size - len)) != 0) {
		if (n < 0)
			return -errno;
		len += (size_t)n;
	}
	return (ssize_t)len;
}

int preload_file_read(struct preload_file *ret)
{
	_cleanup_close_ int fd = open(PRELOAD_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	_cleanup_free_ char *text = NULL;
	struct stat st;
	ssize_t len;

	if (fd < 0 && errno == ENOENT) {
		*ret = (struct preload_file){ 0 };
		return 0;
	}
	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (st.st_size > MAX_BYTES)
		return -EFBIG;
	text = calloc(1, (size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	len = read_all(fd, text, (size_t)st.st_size);
	if (len < 0)
		return (int)len;
	if (strlen(text) != (size_t)len)
		return -EINVAL;
	ret->text = TAKE_PTR(text);
	ret->st = st;
	return 0;
}

void preload_file_done(struct preload_file *f)
{
	free(f->text);
	f->text = NULL;
}

/* Labels and access lists. What the file system will not have is left out. */
static void copy_attributes(int to)
{
	char names[4096], value[4096];
	ssize_t len = listxattr(PRELOAD_FILE, names, sizeof(names));

	for (const char *name = names; len > 0 && name < names + len; name += strlen(name) + 1) {
		ssize_t n = getxattr(PRELOAD_FILE, name, value, sizeof(value));

		if (n >= 0)
			fsetxattr(to, name, value, (size_t)n, 0);
	}
}

static int write_all(int fd, const char *text)
{
	size_t len = strlen(text);
	ssize_t n;

	for (; len; len -= (size_t)n, text += n) {
		n = write(fd, text, len);
		if (n < 0)
			return -errno;
	}
	return 0;
}

static int write_temporary(const struct preload_file *old, const char *text)
{
	const bool fresh = !old->text;
	_cleanup_close_ int fd = -1;
	int err;

	unlink(TEMPORARY); /* of one that was killed */
	fd = open(TEMPORARY, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	err = write_all(fd, text);
	if (err)
		return err;
	if (!fresh)
		copy_attributes(fd);
	if (fchown(fd, fresh ? 0 : old->st.st_uid, fresh ? 0 : old->st.st_gid) ||
	    fchmod(fd, fresh ? 0644 : old->st.st_mode & 07777) || fsync(fd))
		return -errno;
	return 0;
}

static int sync_directory(void)
{
	_cleanup_close_ int fd = open("/etc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 || fsync(fd) ? -errno : 0;
}

int preload_file_write(const struct preload_file *old, const char *text)
{
	int err;

	if (!text)
		return unlink(PRELOAD_FILE) && errno != ENOENT ? -errno : sync_directory();
	err = write_temporary(old, text);
	if (!err && rename(TEMPORARY, PRELOAD_FILE))
		err = -errno;
	if (err)
		unlink(TEMPORARY);
	return err ? err : sync_directory();
}
