/* SPDX-License-Identifier: MIT */
/*
 * The render node, as far as the runtime asks it: who it is, and a description
 * of the GPU that nothing here depends on. Buffers are the driver's business.
 */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <libdrm/amdgpu_drm.h>

#include "tests/kfd/shim.h"
#include "userspace/common/util.h"

#define FAMILY_AI 141 /* libdrm's number for Vega */

static void copy_text(char *to, size_t *bytes, const char *text)
{
	size_t n = strlen(text);

	if (to)
		memcpy(to, text, MIN(n, *bytes));
	*bytes = n;
}

static int get_version(struct drm_version *v)
{
	size_t name = v->name_len, date = v->date_len, desc = v->desc_len;

	copy_text(v->name, &name, "amdgpu");
	copy_text(v->date, &date, "20150101");
	copy_text(v->desc, &desc, "AMD GPU");
	v->name_len = name;
	v->date_len = date;
	v->desc_len = desc;
	v->version_major = 3;
	v->version_minor = 49;
	v->version_patchlevel = 0;
	return 0;
}

static int get_client(struct drm_client *c)
{
	if (c->idx)
		return -EINVAL;
	c->auth = 1;
	c->pid = getpid();
	c->uid = getuid();
	return 0;
}

static void describe(struct drm_amdgpu_info_device *d)
{
	d->device_id = shim_config()->gfx == 1030 ? 0x73bf : 0x687f;
	d->family = FAMILY_AI;
	d->num_shader_engines = 4;
	d->num_shader_arrays_per_engine = 1;
	d->gpu_counter_freq = 100000;
	d->max_engine_clock = 1630000;
	d->max_memory_clock = 945000;
	d->cu_active_number = 64;
	d->virtual_address_offset = 0x200000;
	d->virtual_address_max = 0x800000000000;
	d->virtual_address_alignment = 4096;
	d->pte_fragment_size = 2 << 20;
	d->gart_page_size = 4096;
	d->wave_front_size = 64;
}

/* Queries that are not known get zeros of the size that was asked for. */
static int get_info(const struct drm_amdgpu_info *info)
{
	struct drm_amdgpu_info_device device = { 0 };
	void *to = (void *)(uintptr_t)info->return_pointer;

	memset(to, 0, info->return_size);
	if (info->query == AMDGPU_INFO_ACCEL_WORKING && info->return_size >= sizeof(uint32_t))
		*(uint32_t *)to = 1;
	if (info->query == AMDGPU_INFO_DEV_INFO) {
		describe(&device);
		memcpy(to, &device, MIN(sizeof(device), info->return_size));
	}
	return 0;
}

static int ask_driver(int fd, unsigned long cmd, void *arg)
{
	if (!shim_config()->render)
		return -EINVAL;
	return syscall(SYS_ioctl, fd, cmd, arg) < 0 ? -errno : 0;
}

int drm_ioctl(int fd, unsigned long cmd, void *arg)
{
	shim_log("render node ioctl %#lx", cmd);
	switch (_IOC_NR(cmd)) {
	case _IOC_NR(DRM_IOCTL_VERSION):
		return get_version(arg);
	case _IOC_NR(DRM_IOCTL_GET_CLIENT):
		return get_client(arg);
	case DRM_COMMAND_BASE + DRM_AMDGPU_INFO:
		return get_info(arg);
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_CREATE:
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_USERPTR:
	case _IOC_NR(DRM_IOCTL_GEM_CLOSE):
		return ask_driver(fd, cmd, arg);
	default:
		return -EINVAL;
	}
}
