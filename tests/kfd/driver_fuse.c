/* SPDX-License-Identifier: MIT */
/*
 * The FUSE side of the emulated driver, on the raw protocol: the root of the
 * file system is itself the regular file, which no library offers.
 *
 * Requests are answered in the order in which they come. The kernel queues the
 * release of a dead process's files before its parent can reap it, so a report
 * that is asked for after wait(2) never shows that process's buffers.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <linux/fuse.h>

#include "tests/kfd/driver_drm.h"
#include "tests/kfd/driver_fuse.h"
#include "tests/kfd/driver_kfd.h"
#include "tests/kfd/driver_table.h"
#include "userspace/common/util.h"

#define FUSE_FILE_REQUEST_BYTES (256 << 10) /* 32 pages of payload are the kernel's default */
#define FUSE_FILE_MINOR		31	    /* of protocol 7: all that is used here exists in it */
#define FUSE_FILE_ATTR_SECONDS	3600	    /* attributes never change */
#define FUSE_FILE_ARG_BYTES	(1 << _IOC_SIZEBITS)

struct fuse_file {
	int fd;
	char *path;
	bool is_created;
	bool is_mounted;
	struct table *table;
	enum opener_kind kind;
	char request[FUSE_FILE_REQUEST_BYTES];
};

/* What an answer consists of; err excludes the rest. */
struct answer {
	int err;
	const void *head, *data;
	size_t head_bytes, data_bytes;
	union {
		struct fuse_init_out init;
		struct fuse_attr_out attr;
		struct fuse_open_out open;
		struct fuse_write_out write;
		struct fuse_statfs_out statfs;
		struct fuse_ioctl_out ioctl;
	} out;
	_Alignas(8) char arg[FUSE_FILE_ARG_BYTES];
};

static void answer_head(struct answer *a, const void *head, size_t bytes)
{
	a->head = head;
	a->head_bytes = bytes;
}

static void on_init(struct answer *a)
{
	a->out.init.major = FUSE_KERNEL_VERSION;
	a->out.init.minor = FUSE_FILE_MINOR;
	a->out.init.max_write = 4096;
	answer_head(a, &a->out.init, sizeof(a->out.init));
}

static void on_getattr(struct answer *a)
{
	struct fuse_attr_out *out = &a->out.attr;

	out->attr_valid = FUSE_FILE_ATTR_SECONDS;
	out->attr.ino = FUSE_ROOT_ID;
	out->attr.mode = S_IFREG | 0666;
	out->attr.nlink = 1;
	answer_head(a, out, sizeof(*out));
}

static void on_open(struct fuse_file *f, const struct fuse_in_header *in, struct answer *a)
{
	struct opener *o;

	a->err = opener_new(&o, f->table, f->kind, in->pid);
	if (a->err)
		return;
	a->out.open.fh = (uintptr_t)o;
	a->out.open.open_flags = FOPEN_DIRECT_IO;
	answer_head(a, &a->out.open, sizeof(a->out.open));
}

static struct opener *opener_of(uint64_t fh)
{
	return (struct opener *)(uintptr_t)fh;
}

static void on_read(const struct fuse_read_in *in, struct answer *a)
{
	const char *text = NULL;
	ssize_t n = opener_report(opener_of(in->fh), in->offset, in->size, &text);

	if (n < 0) {
		a->err = n;
		return;
	}
	a->data = text;
	a->data_bytes = n;
}

/* For a well-formed command the kernel copies the argument in and out by the
 * size and direction that the command number names. */
static void on_ioctl(const struct fuse_file *f, const struct fuse_in_header *head,
		     const struct fuse_ioctl_in *in, struct answer *a)
{
	int (*answer)(struct opener *, pid_t, uint32_t, void *, size_t) =
		f->kind == OPENER_KFD ? driver_kfd_answer : driver_drm_answer;
	size_t in_bytes = head->len - sizeof(*head) - sizeof(*in);

	if (in_bytes > sizeof(a->arg) || in->out_size > sizeof(a->arg)) {
		a->err = -EINVAL;
		return;
	}
	memcpy(a->arg, in + 1, in_bytes);
	a->err = answer(opener_of(in->fh), head->pid, in->cmd, a->arg, in_bytes);
	if (a->err)
		return;
	answer_head(a, &a->out.ioctl, sizeof(a->out.ioctl));
	a->data = a->arg;
	a->data_bytes = in->out_size;
}

static void on_write(const struct fuse_file *f, const struct fuse_in_header *head,
		     const struct fuse_write_in *in, struct answer *a)
{
	a->err = -EINVAL;
	if (f->kind == OPENER_KFD && in->size <= head->len - sizeof(*head) - sizeof(*in))
		a->err = driver_kfd_write(opener_of(in->fh), head->pid, (const char *)(in + 1),
					  in->size);
	a->out.write.size = in->size;
	answer_head(a, &a->out.write, sizeof(a->out.write));
}

static void dispatch(struct fuse_file *f, struct answer *a)
{
	const struct fuse_in_header *in = (const void *)f->request;
	const void *arg = in + 1;

	switch (in->opcode) {
	case FUSE_INIT:
		on_init(a);
		break;
	case FUSE_GETATTR:
	case FUSE_SETATTR: /* a shell's redirection truncates; there is nothing to cut */
		on_getattr(a);
		break;
	case FUSE_OPEN:
		on_open(f, in, a);
		break;
	case FUSE_READ:
		on_read(arg, a);
		break;
	case FUSE_IOCTL:
		on_ioctl(f, in, arg, a);
		break;
	case FUSE_RELEASE:
		opener_free(opener_of(((const struct fuse_release_in *)arg)->fh));
		break;
	case FUSE_STATFS:
		answer_head(a, &a->out.statfs, sizeof(a->out.statfs));
		break;
	case FUSE_WRITE:
		on_write(f, in, arg, a);
		break;
	default:
		a->err = -ENOSYS;
	}
}

static int reply(struct fuse_file *f, uint64_t unique, const struct answer *a)
{
	struct fuse_out_header out = { .unique = unique, .error = a->err };
	struct iovec iov[3] = { { .iov_base = &out, .iov_len = sizeof(out) } };
	int n = 1;

	out.len = sizeof(out);
	if (!a->err) {
		iov[n++] = (struct iovec){ (void *)a->head, a->head_bytes };
		iov[n++] = (struct iovec){ (void *)a->data, a->data_bytes };
		out.len += a->head_bytes + a->data_bytes;
	}
	/* ENOENT: the kernel gave the request up in the meantime. */
	if (writev(f->fd, iov, n) < 0 && errno != ENOENT)
		return -errno;
	return 0;
}

static int serve_one(struct fuse_file *f)
{
	const struct fuse_in_header *in = (const void *)f->request;
	struct answer a = { .err = 0 };
	ssize_t n = read(f->fd, f->request, sizeof(f->request));

	if (n < 0)
		return -errno;
	if ((size_t)n < sizeof(*in))
		return -EIO;
	/* These want no answer; an interrupted request is answered all the same. */
	if (in->opcode == FUSE_FORGET || in->opcode == FUSE_BATCH_FORGET ||
	    in->opcode == FUSE_INTERRUPT)
		return 0;
	dispatch(f, &a);
	return reply(f, in->unique, &a);
}

int fuse_file_serve(struct fuse_file *f)
{
	int err;

	do {
		err = serve_one(f);
	} while (err == -EINTR || err == -ENOENT);
	if (err == -EAGAIN)
		return 0;
	return err ? err : 1;
}

int fuse_file_fd(const struct fuse_file *f)
{
	return f->fd;
}

/* A driver that was killed leaves a mount that answers ENOTCONN: replace it. */
static int make_mount_point(struct fuse_file *f)
{
	_cleanup_close_ int fd = -1;

	fd = open(f->path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0666);
	if (fd >= 0) {
		f->is_created = true;
		return 0;
	}
	if (errno != EEXIST)
		return -errno;
	fd = open(f->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 && errno == ENOTCONN && !umount2(f->path, MNT_DETACH))
		fd = open(f->path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : 0;
}

static int mount_file(struct fuse_file *f)
{
	char options[128];
	int err;

	err = make_mount_point(f);
	if (err)
		return err;
	f->fd = open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (f->fd < 0)
		return -errno;
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=100666,user_id=%u,group_id=%u,allow_other", f->fd, getuid(),
		 getgid());
	if (mount("kfd-driver", f->path, "fuse", MS_NOSUID | MS_NODEV, options))
		return -errno;
	f->is_mounted = true;
	return 0;
}

static void fuse_file_closep(struct fuse_file **f)
{
	fuse_file_close(*f);
}

int fuse_file_open(struct fuse_file **ret, const char *path, struct table *t, enum opener_kind kind)
{
	_cleanup_(fuse_file_closep) struct fuse_file *f = calloc(1, sizeof(*f));
	int err;

	if (!f)
		return -ENOMEM;
	f->fd = -1;
	f->table = t;
	f->kind = kind;
	f->path = strdup(path);
	if (!f->path)
		return -ENOMEM;
	err = mount_file(f);
	if (err)
		return err;
	*ret = TAKE_PTR(f);
	return 0;
}

struct fuse_file *fuse_file_close(struct fuse_file *f)
{
	if (!f)
		return NULL;
	if (f->is_mounted)
		umount2(f->path, MNT_DETACH);
	if (f->is_created)
		unlink(f->path);
	closep(&f->fd);
	free(f->path);
	free(f);
	return NULL;
}
