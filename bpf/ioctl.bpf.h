/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * The AMD GPU driver's words at the boundary of its ioctls. ROCm's pins move no
 * counter of the kernel's, so that these are the only source.
 *
 * Nothing here refuses an ioctl: queues and signals use the same calls, and the
 * runtime crashes without them.
 */
#ifndef PINCAP_IOCTL_BPF_H
#define PINCAP_IOCTL_BPF_H

#include "file.bpf.h"
#include "mapped.bpf.h"

/* arch/x86/entry/syscalls/syscall_64.tbl */
#define SYS_OPEN	     2
#define SYS_MMAP	     9
#define SYS_MUNMAP	     11
#define SYS_BRK		     12
#define SYS_IOCTL	     16
#define SYS_MREMAP	     25
#define SYS_SHMAT	     30
#define SYS_SHMDT	     67
#define SYS_CREAT	     85
#define SYS_REMAP_FILE_PAGES 216
#define SYS_OPENAT	     257
#define SYS_OPENAT2	     437

#define MAP_FIXED	  0x10
#define IS_ERR_VALUE(ret) ((u64)(ret) >= (u64)-4095)

/* include/uapi/linux/kfd_ioctl.h. The number of SVM's attributes is part of its
 * command: compare type and number alone. */
#define KFD_ALLOC_MEMORY_OF_GPU 0xc0284b16
#define KFD_FREE_MEMORY_OF_GPU	0x40084b17
#define KFD_SVM			0x4b20
#define CMD_NR(cmd)		((cmd)&0xffff)

#define KFD_FLAG_GTT	       (1 << 1)
#define KFD_FLAG_USERPTR       (1 << 2)
#define KFD_FLAG_AQL_QUEUE_MEM (1 << 27)

#define KFD_SVM_SET_ATTR	0
#define KFD_SVM_ACCESS		2
#define KFD_SVM_ACCESS_IN_PLACE 3
#define KFD_SVM_NO_ACCESS	4
#define KFD_SVM_ATTRS_MAX	64

/* include/uapi/drm/drm.h, amdgpu_drm.h */
#define DRM_GEM_CLOSE	   0x40086409
#define AMDGPU_GEM_CREATE  0xc0206440
#define AMDGPU_GEM_USERPTR 0xc0186451
#define AMDGPU_DOMAIN_GTT  2

#define KFD_ALLOC_SKIPPED 8 /* u64 va_addr; kernel 6.1 has no stack for it */

struct kfd_alloc {
	u64 size;
	u64 handle;	 /* out */
	u64 mmap_offset; /* in: the address, for USERPTR */
	u32 gpu_id;
	u32 flags;
};

struct kfd_svm {
	u64 start;
	u64 size;
	u32 op;
	u32 nattr;
};

struct kfd_svm_attr {
	u32 type;
	u32 value;
};

struct amdgpu_userptr {
	u64 addr;
	u64 size;
	u32 flags;
	u32 handle; /* out */
};

struct amdgpu_create {
	u64 size; /* out: u32 handle */
	u64 alignment;
	u64 domains;
	u64 flags;
};

static __always_inline u64 page_up(u64 bytes)
{
	u64 page = 1ULL << page_shift;

	return (bytes + page - 1) & ~(page - 1);
}

static __always_inline bool read_args(void *to, u32 size, u64 from, u32 how)
{
	long err = how & FROM_DRIVER ? bpf_probe_read_kernel(to, size, (void *)from)
				     : bpf_probe_read_user(to, size, (void *)from);

	if (!err)
		return true;
	STAT(user_fault);
	return false;
}

/* What the driver allocates for a request: an AQL ring is mapped twice and exists
 * once (amdgpu_amdkfd_gpuvm_alloc_memory_of_gpu). */
static __noinline int kfd_alloc_done(struct mm_struct *mm, u64 arg, u32 how)
{
	struct pincap_buffer_key key = {};
	struct pincap_buffer buf = {};
	struct kfd_alloc a;

	if (!read_args(&a, sizeof(a), arg + KFD_ALLOC_SKIPPED, how) ||
	    !(a.flags & (KFD_FLAG_GTT | KFD_FLAG_USERPTR)))
		return 0;
	key.handle = a.handle;
	buf.bytes = page_up(a.flags & KFD_FLAG_AQL_QUEUE_MEM ? a.size >> 1 : a.size);
	buf.kind = a.flags & KFD_FLAG_USERPTR ? PINCAP_BUFFER_USERPTR : PINCAP_BUFFER_GTT;
	buf.addr = a.flags & KFD_FLAG_USERPTR ? a.mmap_offset : 0;
	return buffer_alloc(mm, &key, &buf, how);
}

struct attr_walk {
	u64 at;
	u32 left;
	u32 how;
	bool allows;
	bool withdraws;
};

static long attr_step(u32 i, struct attr_walk *w)
{
	struct kfd_svm_attr attr;

	if (!w->left || !read_args(&attr, sizeof(attr), w->at, w->how))
		return 1;
	w->allows |= attr.type == KFD_SVM_ACCESS || attr.type == KFD_SVM_ACCESS_IN_PLACE;
	w->withdraws |= attr.type == KFD_SVM_NO_ACCESS;
	w->left--;
	w->at += sizeof(attr);
	return 0;
}

static __noinline int kfd_svm_done(struct mm_struct *mm, u64 arg, u32 how)
{
	struct attr_walk w = { .at = arg + sizeof(struct kfd_svm), .how = how };
	struct kfd_svm a;
	u64 end;

	if (!read_args(&a, sizeof(a), arg, how) || a.op != KFD_SVM_SET_ATTR || !a.start)
		return 0;
	w.left = a.nattr;
	bpf_loop(KFD_SVM_ATTRS_MAX, attr_step, &w, 0);
	end = page_up(a.start + a.size);
	if (w.allows)
		return range_allow(mm, a.start, end, how);
	return w.withdraws ? range_withdraw(mm, a.start, end) : 0;
}

/* The handle overwrites the size: the size is what was asked at the start. */
static __noinline int gem_create_done(struct mm_struct *mm, struct file *file, u64 arg, u32 how)
{
	struct pincap_buffer_key key = {};
	struct pincap_buffer buf = { .kind = PINCAP_BUFFER_GTT };
	u64 mm_key = (u64)mm;
	struct pincap_process *rec = bpf_map_lookup_elem(&processes, &mm_key);
	struct pincap_thread *t = rec ? thread_on(rec) : NULL;
	u32 handle;

	if (!t || !t->create_bytes)
		return 0;
	buf.bytes = t->create_bytes;
	t->create_bytes = 0;
	if (!read_args(&handle, sizeof(handle), arg, how))
		return 0;
	key.handle = handle;
	file_used(file);
	key.file = file_id(file);
	return key.file ? buffer_alloc(mm, &key, &buf, how) : -EAGAIN;
}

static __noinline int gem_create_enter(struct mm_struct *mm, u64 arg, u32 how)
{
	u32 tid = bpf_get_current_pid_tgid();
	struct pincap_process *rec;
	struct pincap_thread *t;
	struct amdgpu_create a;

	if (!read_args(&a, sizeof(a), arg, how))
		return 0;
	rec = gpu_record(mm);
	t = rec ? thread_get(tid, rec) : NULL;
	if (t)
		t->create_bytes = a.domains & AMDGPU_DOMAIN_GTT ? page_up(a.size) : 0;
	return 0;
}

static __noinline int gem_userptr_done(struct mm_struct *mm, struct file *file, u64 arg, u32 how)
{
	struct pincap_buffer_key key = {};
	struct pincap_buffer buf = { .kind = PINCAP_BUFFER_USERPTR };
	struct amdgpu_userptr a;

	if (!read_args(&a, sizeof(a), arg, how))
		return 0;
	key.handle = a.handle;
	buf.addr = a.addr;
	buf.bytes = page_up(a.size);
	file_used(file);
	key.file = file_id(file);
	return key.file ? buffer_alloc(mm, &key, &buf, how) : -EAGAIN;
}

static __always_inline bool is_ours(u32 cmd)
{
	return cmd == KFD_ALLOC_MEMORY_OF_GPU || cmd == KFD_FREE_MEMORY_OF_GPU ||
	       CMD_NR(cmd) == KFD_SVM || cmd == AMDGPU_GEM_CREATE || cmd == AMDGPU_GEM_USERPTR ||
	       cmd == DRM_GEM_CLOSE;
}

static __noinline int kfd_free_enter(struct mm_struct *mm, u64 arg, u32 how)
{
	struct pincap_buffer_key key = {};

	return read_args(&key.handle, sizeof(key.handle), arg, how) ? buffer_free_enter(mm, &key)
								    : 0;
}

static __noinline int gem_close_enter(struct mm_struct *mm, struct file *file, u64 arg, u32 how)
{
	struct pincap_buffer_key key = { .file = file_known(file) };

	if (!key.file || !read_args(&key.handle, sizeof(u32), arg, how))
		return 0;
	return buffer_free_enter(mm, &key);
}

static __noinline int ioctl_enter(struct mm_struct *mm, struct file *file, u32 cmd, u64 arg,
				  u32 how)
{
	u32 kind = file ? device_kind(file) : 0;

	if (kind == PINCAP_DEVICE_DRM && cmd == AMDGPU_GEM_CREATE)
		return gem_create_enter(mm, arg, how);
	if (kind == PINCAP_DEVICE_KFD && cmd == KFD_FREE_MEMORY_OF_GPU)
		return kfd_free_enter(mm, arg, how);
	if (kind == PINCAP_DEVICE_DRM && cmd == DRM_GEM_CLOSE)
		return gem_close_enter(mm, file, arg, how);
	return 0;
}

/* What is told by results is read when the call returns: the driver has written
 * its own copy of the arguments back, handles with them. */
static __noinline int ioctl_exit(struct mm_struct *mm, struct file *file, u32 cmd, u64 arg, u32 how)
{
	u32 kind = file ? device_kind(file) : 0;

	if (kind == PINCAP_DEVICE_KFD && cmd == KFD_ALLOC_MEMORY_OF_GPU)
		return kfd_alloc_done(mm, arg, how);
	if (kind == PINCAP_DEVICE_KFD && CMD_NR(cmd) == KFD_SVM)
		return kfd_svm_done(mm, arg, how);
	if (kind == PINCAP_DEVICE_DRM && cmd == AMDGPU_GEM_CREATE)
		return gem_create_done(mm, file, arg, how);
	if (kind == PINCAP_DEVICE_DRM && cmd == AMDGPU_GEM_USERPTR)
		return gem_userptr_done(mm, file, arg, how);
	return 0;
}

/* The thread's own entry, if its address space has ranges. */
static __always_inline struct pincap_thread *thread_with_ranges(struct mm_struct *mm)
{
	u64 key = (u64)mm;
	u32 tid = bpf_get_current_pid_tgid();
	struct pincap_process *rec = bpf_map_lookup_elem(&processes, &key);

	return rec && rec->svm_head ? thread_get(tid, rec) : NULL;
}

/* brk and shmdt do not say where that ends which they unmap: it is seen before. */
static __noinline int unmap_enter(struct task_struct *task, struct mm_struct *mm, u64 nr, u64 start)
{
	struct pincap_thread *t = thread_with_ranges(mm);

	if (t)
		t->unmap_end = nr == SYS_BRK ? page_up(mm->brk) : segment_end(task, start);
	return 0;
}

/* Returns where it ended, or 0. */
static __noinline u64 unmap_exit(struct mm_struct *mm)
{
	struct pincap_thread *t = thread_with_ranges(mm);
	u64 end;

	if (!t)
		return 0;
	end = t->unmap_end;
	t->unmap_end = 0;
	return end;
}

/* A call that put other memory, or none, where an SVM range was: it has ended. */
static __always_inline void mapping_changed(struct task_struct *task, struct mm_struct *mm,
					    struct pt_regs *regs, u64 nr, long ret)
{
	u64 start = regs->di, end = page_up(start + regs->si);

	switch (nr) {
	case SYS_MMAP:
		if (!(regs->r10 & MAP_FIXED))
			return;
		break;
	case SYS_MREMAP:
		/* Moved, onto what was there; or the old end cut off. */
		if ((u64)ret == start)
			start += page_up(regs->dx);
		else
			range_withdraw(mm, ret, ret + page_up(regs->dx));
		break;
	case SYS_BRK:
		start = page_up(ret);
		end = unmap_exit(mm);
		break;
	case SYS_SHMAT: /* over something; or its detaching went unseen */
		start = ret;
		end = thread_with_ranges(mm) ? segment_end(task, ret) : 0;
		break;
	case SYS_SHMDT:
		end = unmap_exit(mm);
		break;
	}
	if (start < end)
		range_withdraw(mm, start, end);
}

static __always_inline bool is_mapping(u64 nr)
{
	return nr == SYS_MMAP || nr == SYS_MUNMAP || nr == SYS_MREMAP || nr == SYS_BRK ||
	       nr == SYS_SHMAT || nr == SYS_SHMDT || nr == SYS_REMAP_FILE_PAGES;
}

static __always_inline bool is_opening(u64 nr)
{
	return nr == SYS_OPENAT || nr == SYS_OPEN || nr == SYS_OPENAT2 || nr == SYS_CREAT;
}

static __always_inline bool is_told_by_entry(u32 cmd)
{
	return cmd == KFD_FREE_MEMORY_OF_GPU || cmd == DRM_GEM_CLOSE || cmd == AMDGPU_GEM_CREATE;
}

/* ---- the system calls, whatever tells of them ---- */

static __always_inline int ioctl_entered(u32 fd, u32 cmd, u64 arg, u32 how)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct mm_struct *mm = task->mm;

	if (mm && is_told_by_entry(cmd))
		ioctl_enter(mm, file_of(task, fd), cmd, arg, how);
	return 0;
}

static __always_inline int ioctl_left(u32 fd, u32 cmd, u64 arg, long ret, u32 how)
{
	struct task_struct *task;
	struct mm_struct *mm;

	if (!is_ours(cmd))
		return 0;
	task = bpf_get_current_task_btf();
	mm = task->mm;
	if (!mm)
		return 0;
	if (cmd == KFD_FREE_MEMORY_OF_GPU || cmd == DRM_GEM_CLOSE)
		buffer_free_exit(mm, ret == 0);
	else if (!ret)
		ioctl_exit(mm, file_of(task, fd), cmd, arg, how);
	return 0;
}

static __always_inline int call_entered(struct pt_regs *regs, u64 nr, u32 how)
{
	struct task_struct *task;
	struct mm_struct *mm;

	if (nr == SYS_IOCTL)
		return ioctl_entered(regs->di, regs->si, regs->dx, how);
	if (nr != SYS_BRK && nr != SYS_SHMDT)
		return 0;
	task = bpf_get_current_task_btf();
	mm = task->mm;
	if (mm)
		unmap_enter(task, mm, nr, regs->di);
	return 0;
}

static __always_inline int call_left(struct pt_regs *regs, u64 nr, long ret, u32 how)
{
	struct task_struct *task;
	struct mm_struct *mm;

	if (nr == SYS_IOCTL)
		return ioctl_left(regs->di, regs->si, regs->dx, ret, how);
	if (IS_ERR_VALUE(ret) || (!is_mapping(nr) && !(is_opening(nr) && files_known)))
		return 0;
	task = bpf_get_current_task_btf();
	mm = task->mm;
	if (is_opening(nr))
		file_opened(file_of(task, ret));
	else if (mm)
		mapping_changed(task, mm, regs, nr, ret);
	return 0;
}

#endif
