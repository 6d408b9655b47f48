/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <bpf/bpf.h>

#include "userspace/common/log.h"
#include "userspace/control/kernel_trigger.h"
#include "userspace/control/openers.h"

#define KFD_DEVICE "/dev/kfd"
#define DRM_CLASS  "/sys/class/drm"
#define DEV_CHAR   "/sys/dev/char"

/* dev_t as the kernel keeps it; stat(2) shows another encoding. */
static uint32_t kernel_dev(dev_t dev)
{
	return major(dev) << 20 | minor(dev);
}

struct addition {
	struct pincap_device device;
	bool is_new;
};

static void add_device(struct pincap_config *cfg, void *ctx)
{
	struct addition *a = ctx;
	const struct pincap_device *d = &a->device;

	for (size_t i = 0; i < PINCAP_DEVICES; i++)
		if (cfg->devices[i].ino == d->ino && cfg->devices[i].dev == d->dev)
			return;
	/* The newest first; of too many, the oldest falls off the end. */
	memmove(cfg->devices + 1, cfg->devices, sizeof(cfg->devices) - sizeof(cfg->devices[0]));
	cfg->devices[0] = *d;
	a->is_new = true;
}

static int attach_pinned_in(const char *dir, const char *name)
{
	_cleanup_close_ int prog_fd = -1;
	_cleanup_close_ int link_fd = -1;
	char path[512];

	snprintf(path, sizeof(path), "%s/progs/%s", dir, name);
	prog_fd = bpf_obj_get(path);
	if (prog_fd < 0)
		return prog_fd;
	link_fd = bpf_raw_tracepoint_open(NULL, prog_fd);
	if (link_fd < 0)
		return link_fd;
	snprintf(path, sizeof(path), "%s/links/%s", dir, name);
	return bpf_obj_pin(link_fd, path);
}

static int attach_pinned(const char *name)
{
	return kernel_has_link(name) ? 0 : attach_pinned_in(PIN_DIR, name);
}

/* Of each kind that is in use: a newer one may consist of more programs. */
static int attach_kind(const char *dir, const char *prefix)
{
	char path[512];
	DIR *d;
	const struct dirent *e;
	int err = 0;

	snprintf(path, sizeof(path), "%s/progs", dir);
	d = opendir(path);
	while (!err && d && (e = readdir(d)))
		if (!strncmp(e->d_name, prefix, strlen(prefix)))
			err = attach_pinned_in(dir, e->d_name);
	if (d)
		closedir(d);
	return err;
}

int carry_gpu(const char *dir)
{
	static const struct {
		const char *link, *prefix;
	} kinds[] = {
		{ "gpu_map_munmap", "gpu_map_" },
		{ "gpu_drv_alloc", "gpu_drv_" },
		{ "gpu_call_exit", "gpu_call_" },
		{ "gpu_sys_exit", "gpu_sys_" },
	};
	int err = 0;

	for (size_t i = 0; i < ARRAY_SIZE(kinds) && !err; i++)
		if (kernel_has_link(kinds[i].link))
			err = attach_kind(dir, kinds[i].prefix);
	return err ? log_ret(err, "attach to the GPU driver") : 0;
}

static int attach_all(const char *prefix)
{
	DIR *d = opendir(PIN_DIR "/progs");
	const struct dirent *e;
	int err = 0;

	while (!err && d && (e = readdir(d))) {
		if (!strncmp(e->d_name, prefix, strlen(prefix)))
			err = attach_pinned(e->d_name);
		if (err == -EEXIST) /* somebody was faster */
			err = 0;
	}
	if (d)
		closedir(d);
	return err;
}

/* The driver's own functions, or the system calls that lead to it. */
static int attach_gpu(bool driver)
{
	int err = attach_all("gpu_map_");

	if (err || driver)
		return err ? err : attach_all("gpu_drv_");
	err = attach_all("gpu_call_");
	return err ? err : attach_all("gpu_sys_");
}

/* The last component of what a link in sysfs points to is `name`. */
static bool leads_to(const char *link, const char *name)
{
	char target[PATH_MAX];
	ssize_t n = readlink(link, target, sizeof(target) - 1);

	if (n < 0)
		return false;
	target[n] = '\0';
	return streq(basename(target), name);
}

/* AMD's driver answers on it: no file that stands in for it, nor another's device. */
static bool is_drivers_own(const struct stat *st, enum pincap_device_kind kind)
{
	const char *what = kind == PINCAP_DEVICE_KFD ? "subsystem" : "device/driver";
	char path[PATH_MAX];

	snprintf(path, sizeof(path), DEV_CHAR "/%u:%u/%s", major(st->st_rdev), minor(st->st_rdev),
		 what);
	return S_ISCHR(st->st_mode) && leads_to(path, kind == PINCAP_DEVICE_KFD ? "kfd" : "amdgpu");
}

/* Where its own functions are read, its ioctls are not: one event counts once. */
static int watch(struct kernel *k, const char *path, enum pincap_device_kind kind)
{
	_cleanup_close_ int lock = -1;
	struct addition a = { .device = { .kind = kind } };
	struct pincap_device *d = &a.device;
	bool by_driver;
	struct stat st;
	int err;

	if (stat(path, &st))
		return -errno;
	if (!S_ISCHR(st.st_mode) && !S_ISREG(st.st_mode))
		return -ENODEV;
	by_driver = trigger_reads_driver() && is_drivers_own(&st, kind);
	if (by_driver)
		d->kind |= PINCAP_DEVICE_BY_DRIVER;
	d->dev = kernel_dev(S_ISCHR(st.st_mode) ? st.st_rdev : st.st_dev);
	d->ino = S_ISCHR(st.st_mode) ? 0 : st.st_ino;
	lock = kernel_update_config(k, add_device, &a);
	if (lock < 0)
		return lock;
	err = attach_gpu(by_driver);
	if (!err && a.is_new)
		openers_warn(path);
	return err;
}

/* The numbers of DRM's ioctls mean something else to every driver. */
static bool is_amdgpu(const char *node)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), DRM_CLASS "/%s/device/driver", node);
	return leads_to(path, "amdgpu");
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
