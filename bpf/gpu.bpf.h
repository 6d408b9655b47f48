/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * Host memory in the AMD GPU driver's hands, read at the boundary of its ioctls.
 * ROCm's pins move no counter of the kernel's, so that the driver's own words are
 * the only source: what it admitted is held until it was freed.
 *
 * Nothing here refuses an ioctl: queues and signals use the same calls, and the
 * runtime crashes without them.
 */
#ifndef PINCAP_GPU_BPF_H
#define PINCAP_GPU_BPF_H

#include "account.bpf.h"

/* include/uapi/linux/kfd_ioctl.h */
#define KFD_ALLOC_MEMORY_OF_GPU 0xc0284b16
#define KFD_FREE_MEMORY_OF_GPU	0x40084b17
#define KFD_FLAG_GTT		(1 << 1)
#define KFD_FLAG_USERPTR	(1 << 2)
#define KFD_FLAG_AQL_QUEUE_MEM	(1 << 27)

struct kfd_alloc {
	u64 va_addr;
	u64 size;
	u64 handle; /* out */
	u64 mmap_offset;
	u32 gpu_id;
	u32 flags;
};

#define SYS_IOCTL 16 /* x86-64 */

#define S_IFMT	00170000
#define S_IFCHR 0020000

/* What the driver allocates for a request: an AQL ring is mapped twice and exists
 * once (amdgpu_amdkfd_gpuvm_alloc_memory_of_gpu). */
static __always_inline u64 kfd_alloc_bytes(struct kfd_alloc *a)
{
	u64 page = 1ULL << page_shift;
	u64 size = a->flags & KFD_FLAG_AQL_QUEUE_MEM ? a->size >> 1 : a->size;

	return (size + page - 1) & ~(page - 1);
}

static __always_inline bool is_kfd_file(struct pincap_config *cfg, struct file *file)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	u16 mode = BPF_CORE_READ(inode, i_mode);
	u64 ino = BPF_CORE_READ(inode, i_ino);
	u32 dev = BPF_CORE_READ(inode, i_sb, s_dev);

	if ((mode & S_IFMT) == S_IFCHR && cfg->kfd_rdev)
		return BPF_CORE_READ(inode, i_rdev) == cfg->kfd_rdev;
	for (int i = 0; i < PINCAP_KFD_FILES; i++)
		if (dev && cfg->kfd_files[i].dev == dev && cfg->kfd_files[i].ino == ino)
			return true;
	return false;
}

static __always_inline bool is_kfd(struct task_struct *task, u32 fd)
{
	struct pincap_config *cfg = config_get();
	struct files_struct *files = task->files;
	struct fdtable *fdt = files ? files->fdt : NULL;
	struct file *file = NULL;

	if (!cfg || !fdt || fd >= fdt->max_fds)
		return false;
	bpf_probe_read_kernel(&file, sizeof(file), fdt->fd + fd);
	return file && is_kfd_file(cfg, file);
}

/* Change the gpu class of a record. A rise consumes what the asking thread was
 * admitted. */
static __noinline int gpu_add(struct pincap_process *rec, u64 mm, s64 bytes)
{
	struct pincap_thread *t = rec->in_flight ? thread_on(rec) : NULL;
	struct amounts d = { .gpu = bytes };
	u64 cgid;

	bpf_spin_lock(&rec->lock);
	if (rec->mm != mm) {
		bpf_spin_unlock(&rec->lock);
		return -ESRCH;
	}
	rec->gpu += bytes;
	if (t)
		d.held = -consume(rec, &t->driver, bytes);
	cgid = rec->cgroup_id;
	bpf_spin_unlock(&rec->lock);
	return chain_add(cgid, &d);
}

static __noinline int gpu_alloc(struct mm_struct *mm, struct kfd_alloc *a)
{
	struct pincap_process *rec = process_get(mm);
	struct pincap_buffer buf = { .mm = (u64)mm, .flags = a->flags };
	struct pincap_buffer_key key = { .handle = a->handle };
	long err;

	if (!rec)
		return -EAGAIN;
	if (!rec->cgroup_id && sync_record(mm, rec, 0))
		return -EAGAIN;
	buf.bytes = kfd_alloc_bytes(a);
	buf.tgid = bpf_get_current_pid_tgid() >> 32;
	key.birth = rec->birth;
	err = bpf_map_update_elem(&buffers, &key, &buf, BPF_NOEXIST);
	if (err) {
		STAT(buffers_full);
		return err;
	}
	return gpu_add(rec, (u64)mm, buf.bytes);
}

/*
 * FREE is read when it is entered, since the driver may hand the handle out again
 * to another thread before this one leaves the call. The buffer is taken out of
 * the map at once, its bytes are uncharged when the driver has said yes.
 */
static __noinline int gpu_free_enter(struct mm_struct *mm, u64 handle)
{
	u64 mm_key = (u64)mm;
	u32 tid = bpf_get_current_pid_tgid();
	struct pincap_process *rec = bpf_map_lookup_elem(&processes, &mm_key);
	struct pincap_buffer_key key = { .handle = handle };
	struct pincap_buffer *buf;
	struct pincap_thread *t;

	if (!rec)
		return 0;
	key.birth = rec->birth;
	buf = bpf_map_lookup_elem(&buffers, &key);
	if (!buf)
		return 0; /* device memory, or another driver's word for it */
	t = thread_get(tid, rec);
	if (!t)
		return -EAGAIN;
	t->free_handle = handle;
	t->free_bytes = buf->bytes;
	t->free_flags = buf->flags;
	return bpf_map_delete_elem(&buffers, &key);
}

static __noinline int gpu_free_exit(struct mm_struct *mm, bool freed)
{
	u64 mm_key = (u64)mm;
	struct pincap_process *rec = bpf_map_lookup_elem(&processes, &mm_key);
	struct pincap_thread *t = rec ? thread_on(rec) : NULL;
	struct pincap_buffer_key key = {};
	struct pincap_buffer buf = { .mm = mm_key };

	if (!t || !t->free_bytes)
		return 0;
	buf.bytes = t->free_bytes;
	t->free_bytes = 0;
	if (freed)
		return gpu_add(rec, mm_key, -buf.bytes);
	key.birth = rec->birth;
	key.handle = t->free_handle;
	buf.flags = t->free_flags;
	buf.tgid = bpf_get_current_pid_tgid() >> 32;
	return bpf_map_update_elem(&buffers, &key, &buf, BPF_NOEXIST);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(gpu_sys_enter, struct pt_regs *regs, long id)
{
	struct task_struct *task;
	struct mm_struct *mm;
	u64 handle;

	if (id != SYS_IOCTL || (u32)regs->si != KFD_FREE_MEMORY_OF_GPU)
		return 0;
	task = bpf_get_current_task_btf();
	mm = task->mm;
	if (!mm || !is_kfd(task, regs->di))
		return 0;
	if (bpf_probe_read_user(&handle, sizeof(handle), (void *)regs->dx)) {
		STAT(user_fault);
		return 0;
	}
	gpu_free_enter(mm, handle);
	return 0;
}

/* ALLOC is read when it returns: the driver has written its own copy of the
 * arguments back, the handle with them. */
SEC("tp_btf/sys_exit")
int BPF_PROG(gpu_sys_exit, struct pt_regs *regs, long ret)
{
	struct task_struct *task;
	struct mm_struct *mm;
	struct kfd_alloc a;
	u32 cmd;

	if (regs->orig_ax != SYS_IOCTL)
		return 0;
	cmd = regs->si;
	if (cmd != KFD_ALLOC_MEMORY_OF_GPU && cmd != KFD_FREE_MEMORY_OF_GPU)
		return 0;
	task = bpf_get_current_task_btf();
	mm = task->mm;
	if (!mm)
		return 0;
	if (cmd == KFD_FREE_MEMORY_OF_GPU) {
		gpu_free_exit(mm, ret == 0);
		return 0;
	}
	if (ret || !is_kfd(task, regs->di))
		return 0;
	if (bpf_probe_read_user(&a, sizeof(a), (void *)regs->dx)) {
		STAT(user_fault);
		return 0;
	}
	if (a.flags & (KFD_FLAG_GTT | KFD_FLAG_USERPTR))
		gpu_alloc(mm, &a);
	return 0;
}

#endif
