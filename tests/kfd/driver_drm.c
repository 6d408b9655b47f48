/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <libdrm/amdgpu_drm.h>

#include "tests/kfd/driver_drm.h"
#include "tests/kfd/driver_table.h"
#include "tests/kfd/kfd_emu.h"

static uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + KFD_EMU_PAGE_BYTES - 1) & ~(KFD_EMU_PAGE_BYTES - 1);
}

/* The answer lies over the question. */
static int answer_create(struct opener *o, union drm_amdgpu_gem_create *args)
{
	uint64_t bytes = args->in.bo_size, domains = args->in.domains;
	uint32_t flags, handle;
	int err;

	if (!bytes || bytes > KFD_EMU_END_OFFSET || domains & ~(uint64_t)AMDGPU_GEM_DOMAIN_MASK)
		return -EINVAL;
	flags = domains & AMDGPU_GEM_DOMAIN_GTT ? KFD_IOC_ALLOC_MEM_FLAGS_GTT
						: KFD_IOC_ALLOC_MEM_FLAGS_VRAM;
	err = opener_create_gem(o, whole_pages(bytes), flags, &handle);
	if (err)
		return err;
	args->out.handle = handle;
	args->out._pad = 0;
	return 0;
}

static int answer_userptr(struct opener *o, struct drm_amdgpu_gem_userptr *args)
{
	if (!args->addr || !args->size || args->size > KFD_EMU_END_OFFSET ||
	    (args->addr | args->size) & (KFD_EMU_PAGE_BYTES - 1))
		return -EINVAL;
	return opener_create_gem(o, args->size, KFD_IOC_ALLOC_MEM_FLAGS_USERPTR, &args->handle);
}

static size_t needed_bytes(uint32_t nr)
{
	switch (nr) {
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_CREATE:
		return sizeof(union drm_amdgpu_gem_create);
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_USERPTR:
		return sizeof(struct drm_amdgpu_gem_userptr);
	case _IOC_NR(DRM_IOCTL_GEM_CLOSE):
		return sizeof(struct drm_gem_close);
	default:
		return 0;
	}
}

int driver_drm_answer(struct opener *o, pid_t tid, uint32_t cmd, void *arg, size_t in_bytes)
{
	uint32_t nr = _IOC_NR(cmd);
	int err;

	if (_IOC_TYPE(cmd) != DRM_IOCTL_BASE)
		return -ENOTTY;
	err = opener_enter(o, tid);
	if (err)
		return err;
	if (in_bytes < needed_bytes(nr))
		return -EINVAL;

	switch (nr) {
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_CREATE:
		return answer_create(o, arg);
	case DRM_COMMAND_BASE + DRM_AMDGPU_GEM_USERPTR:
		return answer_userptr(o, arg);
	case _IOC_NR(DRM_IOCTL_GEM_CLOSE):
		return opener_close_gem(o, ((struct drm_gem_close *)arg)->handle);
	default:
		return -EINVAL; /* what is not about memory is answered in the workload */
	}
}
