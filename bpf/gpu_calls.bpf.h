/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * What tells of the GPU driver's ioctls, in three kinds; each device is read by one
 * of them (kernel_gpu.c). All say the same to ioctl.bpf.h.
 */
#ifndef PINCAP_GPU_CALLS_BPF_H
#define PINCAP_GPU_CALLS_BPF_H

#include "ioctl.bpf.h"

/* ---- tracepoint: every system call on the machine, where no trampolines load ---- */

SEC("tp_btf/sys_enter")
int BPF_PROG(gpu_sys_enter, struct pt_regs *regs, long id)
{
	return call_entered(regs, id, FROM_CALLER);
}

SEC("tp_btf/sys_exit")
int BPF_PROG(gpu_sys_exit, struct pt_regs *regs, long ret)
{
	return call_left(regs, regs->orig_ax, ret, FROM_CALLER);
}

/* ---- syscall: those that matter ---- */

#define ENTER_(program, function, nr, how)                \
	SEC("fentry/" #function)                          \
	int BPF_PROG(program, struct pt_regs *regs)       \
	{                                                 \
		return call_entered(regs, SYS_##nr, how); \
	}

#define EXIT_(program, function, nr, how)                     \
	SEC("fexit/" #function)                               \
	int BPF_PROG(program, struct pt_regs *regs, long ret) \
	{                                                     \
		return call_left(regs, SYS_##nr, ret, how);   \
	}

#define ENTER(program, function, nr) ENTER_(program, function, nr, FROM_CALLER)
#define EXIT(program, function, nr)  EXIT_(program, function, nr, FROM_CALLER)

/*
 * Twice, since a preemptible kernel skips one now and then (calls.bpf.h), and nothing
 * else tells of a buffer. What unmaps needs no second: the sweep finds it.
 */
ENTER(gpu_call_enter, __x64_sys_ioctl, IOCTL)
EXIT(gpu_call_exit, __x64_sys_ioctl, IOCTL)
ENTER_(gpu_call_enter2, __x64_sys_ioctl, IOCTL, AGAIN)
EXIT_(gpu_call_exit2, __x64_sys_ioctl, IOCTL, AGAIN)

/* 32-bit programs have render nodes, and no KFD. Only ioctl's registers differ. */
SEC("fentry/__ia32_compat_sys_ioctl")
int BPF_PROG(gpu_call_enter32, struct pt_regs *regs)
{
	return ioctl_entered(regs->bx, regs->cx, (u32)regs->dx, FROM_CALLER);
}

SEC("fexit/__ia32_compat_sys_ioctl")
int BPF_PROG(gpu_call_exit32, struct pt_regs *regs, long ret)
{
	return ioctl_left(regs->bx, regs->cx, (u32)regs->dx, ret, FROM_CALLER);
}

/* What ends SVM ranges, and render nodes whose address another file gets. */
EXIT(gpu_map_mmap, __x64_sys_mmap, MMAP)
EXIT(gpu_map_munmap, __x64_sys_munmap, MUNMAP)
EXIT(gpu_map_mremap, __x64_sys_mremap, MREMAP)
ENTER(gpu_map_brk_in, __x64_sys_brk, BRK)
EXIT(gpu_map_brk, __x64_sys_brk, BRK)
EXIT(gpu_map_shmat, __x64_sys_shmat, SHMAT)
ENTER(gpu_map_shmdt_in, __x64_sys_shmdt, SHMDT)
EXIT(gpu_map_shmdt, __x64_sys_shmdt, SHMDT)
EXIT(gpu_map_remap, __x64_sys_remap_file_pages, REMAP_FILE_PAGES)
EXIT(gpu_map_open, __x64_sys_open, OPEN)
EXIT(gpu_map_creat, __x64_sys_creat, CREAT)
EXIT(gpu_map_openat, __x64_sys_openat, OPENAT)
EXIT(gpu_map_openat2, __x64_sys_openat2, OPENAT2)

/* ---- driver: its own functions, which have their own copy of the arguments ---- */

#define DRIVER_PROGRAMS(suffix, how)                                                               \
	SEC("fexit/kfd_ioctl_alloc_memory_of_gpu")                                                 \
	int BPF_PROG(gpu_drv_alloc##suffix, struct file *file, void *process, void *data, int ret) \
	{                                                                                          \
		struct mm_struct *mm = current_mm();                                               \
                                                                                                   \
		if (mm && !ret)                                                                    \
			kfd_alloc_done(mm, (u64)data, how);                                        \
		return 0;                                                                          \
	}                                                                                          \
                                                                                                   \
	SEC("fentry/kfd_ioctl_free_memory_of_gpu")                                                 \
	int BPF_PROG(gpu_drv_free_in##suffix, struct file *file, void *process, void *data)        \
	{                                                                                          \
		struct mm_struct *mm = current_mm();                                               \
                                                                                                   \
		if (mm)                                                                            \
			kfd_free_enter(mm, (u64)data, how);                                        \
		return 0;                                                                          \
	}                                                                                          \
                                                                                                   \
	SEC("fexit/kfd_ioctl_free_memory_of_gpu")                                                  \
	int BPF_PROG(gpu_drv_free##suffix, struct file *file, void *process, void *data, int ret)  \
	{                                                                                          \
		struct mm_struct *mm = current_mm();                                               \
                                                                                                   \
		if (mm)                                                                            \
			buffer_free_exit(mm, ret == 0);                                            \
		return 0;                                                                          \
	}                                                                                          \
                                                                                                   \
	SEC("fexit/kfd_ioctl_svm")                                                                 \
	int BPF_PROG(gpu_drv_svm##suffix, struct file *file, void *process, void *data, int ret)   \
	{                                                                                          \
		struct mm_struct *mm = current_mm();                                               \
                                                                                                   \
		if (mm && !ret)                                                                    \
			kfd_svm_done(mm, (u64)data, how);                                          \
		return 0;                                                                          \
	}                                                                                          \
                                                                                                   \
	SEC("fentry/amdgpu_gem_create_ioctl")                                                      \
	int BPF_PROG(gpu_drv_new_in##suffix, void *dev, void *data, struct drm_file *drm)          \
	{                                                                                          \
		struct mm_struct *mm = current_mm();                                               \
                                                                                                   \
		if (mm)                                                                            \
			gem_create_enter(mm, (u64)data, how);                                      \
		return 0;                                                                          \
	}                                                                                          \
                                                                                                   \
	SEC("fexit/amdgpu_gem_create_ioctl")                                                       \
	int BPF_PROG(gpu_drv_new##suffix, void *dev, void *data, struct drm_file *drm, int ret)    \
	{                                                                                          \
		struct mm_struct *mm = current_mm();                                               \
                                                                                                   \
		if (mm && !ret)                                                                    \
			gem_create_done(mm, BPF_CORE_READ(drm, filp), (u64)data, how);             \
		return 0;                                                                          \
	}                                                                                          \
                                                                                                   \
	SEC("fexit/amdgpu_gem_userptr_ioctl")                                                      \
	int BPF_PROG(gpu_drv_userptr##suffix, void *dev, void *data, struct drm_file *drm,         \
		     int ret)                                                                      \
	{                                                                                          \
		struct mm_struct *mm = current_mm();                                               \
                                                                                                   \
		if (mm && !ret)                                                                    \
			gem_userptr_done(mm, BPF_CORE_READ(drm, filp), (u64)data, how);            \
		return 0;                                                                          \
	}                                                                                          \
                                                                                                   \
	SEC("fentry/drm_gem_close_ioctl")                                                          \
	int BPF_PROG(gpu_drv_close_in##suffix, void *dev, void *data, struct drm_file *drm)        \
	{                                                                                          \
		struct mm_struct *mm = current_mm();                                               \
                                                                                                   \
		if (mm)                                                                            \
			gem_close_enter(mm, BPF_CORE_READ(drm, filp), (u64)data, how);             \
		return 0;                                                                          \
	}                                                                                          \
                                                                                                   \
	SEC("fexit/drm_gem_close_ioctl")                                                           \
	int BPF_PROG(gpu_drv_close##suffix, void *dev, void *data, struct drm_file *drm, int ret)  \
	{                                                                                          \
		struct mm_struct *mm = current_mm();                                               \
                                                                                                   \
		if (mm)                                                                            \
			buffer_free_exit(mm, ret == 0);                                            \
		return 0;                                                                          \
	}

DRIVER_PROGRAMS(, FROM_DRIVER)
DRIVER_PROGRAMS(2, FROM_DRIVER | AGAIN)

#endif
