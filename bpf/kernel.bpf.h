/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * The kernel's structures, as far as we read them. This is the whole list of
 * what pincap depends on; offsets are relocated at load (CO-RE).
 */
#ifndef PINCAP_KERNEL_BPF_H
#define PINCAP_KERNEL_BPF_H

#include "intf.h"

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

struct bpf_map; /* callbacks of bpf_for_each_map_elem are handed one */

#ifndef bool
#define bool _Bool
#define true 1
#define false 0
#endif

/* include/uapi/asm-generic/errno*.h; libc's header drags in too much */
#define ENOENT	    2
#define ESRCH	    3
#define EAGAIN	    11
#define ENOMEM	    12
#define EBUSY	    16
#define EEXIST	    17
#define EINVAL	    22
#define EINPROGRESS 115
#define EDQUOT	    122

#define READ_ONCE(x) (*(volatile typeof(x) *)&(x))

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	s64 counter;
} atomic64_t;

struct kernfs_node {
	u64 id;
	const char *name;
};

struct cgroup_root {
	int hierarchy_id; /* 0: the v2 hierarchy */
};

struct cgroup {
	int level;
	struct kernfs_node *kn;
	struct cgroup_root *root;
	struct cgroup *ancestors[]; /* since 6.1: [0] is the root, [level] itself */
};

struct css_set {
	struct cgroup *dfl_cgrp; /* the task's v2 cgroup */
};

struct rw_semaphore {
	atomic64_t count; /* absent in RT kernels; bit 0: held for writing */
};

struct mm_struct {
	atomic_t mm_users;
	struct rw_semaphore mmap_lock;
	unsigned long locked_vm; /* pages; written under mmap_lock */
	atomic64_t pinned_vm;	 /* pages */
	struct task_struct *owner;
	unsigned long brk; /* the end of the heap */
};

struct super_block {
	u32 s_dev;
};

struct inode {
	u16 i_mode;
	u32 i_rdev;
	unsigned long i_ino;
	struct super_block *i_sb;
};

typedef struct {
	atomic64_t refcnt;
} file_ref_t;

struct file {
	struct inode *f_inode;
	void *private_data;
	file_ref_t f_ref; /* since 6.13; f_count before */
};

struct file___count {
	atomic64_t f_count;
};

/* Known where the module is. */
struct drm_file {
	struct file *filp;
};

struct vm_area_struct {
	unsigned long vm_start;
	unsigned long vm_end;
	struct mm_struct *vm_mm;
	struct file *vm_file;
};

#define S_IFMT	00170000
#define S_IFCHR 0020000

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct files_struct {
	struct fdtable *fdt;
};

struct task_struct {
	struct mm_struct *mm;
	struct css_set *cgroups;
	struct files_struct *files;
	int pid;
	int tgid;
	char comm[16];
};

/* x86-64: the registers that carry a system call's number and arguments. They
 * keep their values until the call returns, so sys_exit can read them too. */
struct pt_regs {
	unsigned long bx; /* 32-bit callers: bx, cx, dx ... */
	unsigned long cx;
	unsigned long r10;
	unsigned long di;
	unsigned long si;
	unsigned long dx;
	unsigned long orig_ax;
};

struct seq_file {
	unsigned long size;  /* of its buffer ... */
	unsigned long count; /* ... and what is in it */
};

struct bpf_iter_meta {
	struct seq_file *seq;
	u64 session_id;
	u64 seq_num;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

struct bpf_iter__task_vma {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	struct vm_area_struct *vma;
};

struct bpf_iter__cgroup {
	struct bpf_iter_meta *meta;
	struct cgroup *cgroup;
};

#pragma clang attribute pop

/* The v2 cgroup that an address space is charged to: its owner's, never that of
 * whoever makes the call. NULL: the owner is gone. Loads only, so that it can
 * run inside a spin lock. */
static __always_inline struct cgroup *owner_cgroup(struct mm_struct *mm)
{
	struct task_struct *owner = mm->owner;
	struct css_set *cset;

	if (!owner)
		return NULL;
	cset = owner->cgroups;
	return cset ? cset->dfl_cgrp : NULL;
}

static __always_inline u64 cgroup_id_of(struct cgroup *cgrp)
{
	struct kernfs_node *kn = cgrp ? cgrp->kn : NULL;

	return kn ? kn->id : 0;
}

/* NULL: a kernel thread's. */
static __always_inline struct mm_struct *current_mm(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return task->mm;
}

/* RWSEM_WRITER_LOCKED, kernel/locking/rwsem.c */
static __always_inline bool mmap_write_locked(struct mm_struct *mm)
{
	if (!bpf_core_field_exists(mm->mmap_lock.count))
		return false;
	return READ_ONCE(mm->mmap_lock.count.counter) & 1;
}

static __always_inline bool is_v2(struct cgroup *cgrp)
{
	struct cgroup_root *root = cgrp->root;

	return root && root->hierarchy_id == 0;
}

#endif
