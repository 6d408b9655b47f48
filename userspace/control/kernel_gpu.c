/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "userspace/common/log.h"
#include "userspace/control/kernel_priv.h"

#define KFD_DEVICE "/dev/kfd"
#define DRM_CLASS  "/sys/class/drm"

/* dev_t as the kernel keeps it; stat(2) shows another encoding. */
static uint32_t kernel_dev(dev_t dev)
{
	return major(dev) << 20 | minor(dev);
}

static void add_device(struct pincap_config *cfg, void *ctx)
{
	const struct pincap_device *d = ctx;

	for (size_t i = 0; i < PINCAP_DEVICES; i++)
		if (cfg->devices[i].ino == d->ino && cfg->devices[i].dev == d->dev)
			return;
	/* The newest first; of too many, the oldest falls off the end. */
	memmove(cfg->devices + 1, cfg->devices, sizeof(cfg->devices) - sizeof(cfg->devices[0]));
	cfg->devices[0] = *d;
}

static int watch(struct kernel *k, const char *path, enum pincap_device_kind kind)
{
	_cleanup_close_ int lock = -1;
	struct pincap_device d = { .kind = kind };
	struct stat st;
	int err;

	if (stat(path, &st))
		return -errno;
	if (!S_ISCHR(st.st_mode) && !S_ISREG(st.st_mode))
		return -ENODEV;
	d.dev = kernel_dev(S_ISCHR(st.st_mode) ? st.st_rdev : st.st_dev);
	d.ino = S_ISCHR(st.st_mode) ? 0 : st.st_ino;
	lock = kernel_update_config(k, add_device, &d);
	if (lock < 0)
		return lock;
	err = kernel_attach_gpu();
	return err == -EEXIST ? 0 : err;
}

/* The numbers of DRM's ioctls mean something else to every driver. */
static bool is_amdgpu(const char *node)
{
	char path[PATH_MAX], target[PATH_MAX];
	ssize_t n;

	snprintf(path, sizeof(path), DRM_CLASS "/%s/device/driver", node);
	n = readlink(path, target, sizeof(target) - 1);
	if (n < 0)
		return false;
	target[n] = '\0';
	return streq(basename(target), "amdgpu");
}

static int watch_render_nodes(struct kernel *k)
{
	DIR *dir = opendir(DRM_CLASS);
	char path[PATH_MAX];
	struct dirent *e;
	int err = 0;

	while (!err && dir && (e = readdir(dir))) {
		if (strncmp(e->d_name, "renderD", 7) || !is_amdgpu(e->d_name))
			continue;
		snprintf(path, sizeof(path), "/dev/dri/%s", e->d_name);
		err = watch(k, path, PINCAP_DEVICE_DRM);
		if (err == -ENOENT) /* not in this container */
			err = 0;
	}
	if (dir)
		closedir(dir);
	return err;
}

static int watch_file(struct kernel *k, const char *path, enum pincap_device_kind kind)
{
	int err = path ? watch(k, path, kind) : 0;

	return err ? log_ret(err, "read the GPU driver's ioctls on '%s'", path) : 0;
}

int kernel_watch_gpu(struct kernel *k, const struct kernel_devices *extra)
{
	int err = watch(k, KFD_DEVICE, PINCAP_DEVICE_KFD);

	if (err && err != -ENOENT)
		return log_ret(err, "read the GPU driver's ioctls on '" KFD_DEVICE "'");
	err = watch_render_nodes(k);
	if (err)
		return log_ret(err, "read the GPU driver's ioctls on its render nodes");
	err = watch_file(k, extra->kfd, PINCAP_DEVICE_KFD);
	return err ? err : watch_file(k, extra->drm, PINCAP_DEVICE_DRM);
}
