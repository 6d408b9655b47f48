/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * What changes locked_vm, and the end of an address space. One of two triggers is
 * loaded: `fexit` on the calls that do it, which costs everything else nothing; or,
 * where the kernel lets no trampolines load, the release of every mmap lock.
 *
 * The loader leaves out what a kernel does not have (kernel_trigger.c).
 */
#ifndef PINCAP_CALLS_BPF_H
#define PINCAP_CALLS_BPF_H

#include "account.bpf.h"

/* ---- mmap_lock ---- */

/*
 * locked_vm is written under the mmap lock alone. The tracepoint fires before the
 * lock is free, so that these syncs come in the order of the changes. munmap and
 * a shrinking mremap lower it, downgrade their lock, and release it as readers
 * do; page faults are readers too, and lower nothing.
 *
 * An address space without users is being torn down; its last unlock comes after
 * exit_mmap, which does not fire at all for one without mappings.
 */
static __always_inline bool was_lowered(struct mm_struct *mm)
{
	u64 key = (u64)mm;
	struct pincap_process *rec = bpf_map_lookup_elem(&processes, &key);

	return rec && rec->locked != mm->locked_vm << page_shift;
}

SEC("tp_btf/mmap_lock_released")
int BPF_PROG(mm_unlocked, struct mm_struct *mm, bool write)
{
	if (!READ_ONCE(mm->mm_users.counter))
#ifndef MUTANT_EXIT_ONLY
		release_mm((u64)mm);
#else
		return 0;
#endif
	else if (write || was_lowered(mm))
		observe(mm, SYNC_LOCK_HELD);
	return 0;
}

/* ---- fexit: when a call ends, whatever it answers ---- */

static __noinline int look_again(void)
{
	struct mm_struct *mm = current_mm();

	if (mm)
		observe(mm, 0);
	return 0;
}

#define CALL(program, function) \
	SEC("fexit/" #function) \
	int program(void *ctx)  \
	{                       \
		look_again();   \
		return 0;       \
	}

CALL(call_mlock, __x64_sys_mlock)
CALL(call_mlock2, __x64_sys_mlock2)
CALL(call_munlock, __x64_sys_munlock)
CALL(call_mlockall, __x64_sys_mlockall)
CALL(call_munlockall, __x64_sys_munlockall)
CALL(call_mmap, __x64_sys_mmap)
CALL(call_munmap, __x64_sys_munmap)
CALL(call_mremap, __x64_sys_mremap)
CALL(call_brk, __x64_sys_brk)
CALL(call_shmat, __x64_sys_shmat)
CALL(call_shmdt, __x64_sys_shmdt)
CALL(call_remap, __x64_sys_remap_file_pages)
CALL(call_shstk, __x64_sys_map_shadow_stack)

/*
 * The kernel skips a program that another task was preempted in on this processor
 * (bpftool shows recursion_misses). Preemptible kernels, the default since 6.13, do
 * that once in some hundred calls under load; hence each call is seen by two, of which
 * the second mostly finds nothing to do. What both miss is found by the next call of
 * that address space, or the sweep. mlock and its kin have inlock_mlock beside them.
 */
CALL(twice_mmap, __x64_sys_mmap)
CALL(twice_munmap, __x64_sys_munmap)
CALL(twice_mremap, __x64_sys_mremap)
CALL(twice_brk, __x64_sys_brk)
CALL(twice_shmat, __x64_sys_shmat)
CALL(twice_shmdt, __x64_sys_shmdt)

/* The same by int 0x80 and from 32-bit programs. A call without arguments, such as
 * munlockall, is one function for both. */
CALL(ia32_mlock, __ia32_sys_mlock)
CALL(ia32_mlock2, __ia32_sys_mlock2)
CALL(ia32_munlock, __ia32_sys_munlock)
CALL(ia32_mlockall, __ia32_sys_mlockall)
CALL(ia32_mmap, __ia32_compat_sys_ia32_mmap)
CALL(ia32_mmap2, __ia32_sys_mmap_pgoff)
CALL(ia32_munmap, __ia32_sys_munmap)
CALL(ia32_mremap, __ia32_sys_mremap)
CALL(ia32_brk, __ia32_sys_brk)
CALL(ia32_shmat, __ia32_compat_sys_shmat)
CALL(ia32_shmdt, __ia32_sys_shmdt)
CALL(ia32_ipc, __ia32_compat_sys_ipc)
CALL(ia32_remap, __ia32_sys_remap_file_pages)

/*
 * Every change by the mlock family, while its mmap lock is held. A call may take
 * long between the change and its end, filling pages: others who look meanwhile
 * find the hold consumed that the rise was promised by.
 */
SEC("fexit/mlock_fixup")
int inlock_mlock(void *ctx)
{
	struct mm_struct *mm = current_mm();

	if (mm)
		observe(mm, SYNC_LOCK_HELD);
	return 0;
}

/* A locked stack grows in page faults, also of those who read it from outside. */
SEC("fexit/expand_downwards")
int BPF_PROG(inlock_stack, struct vm_area_struct *vma)
{
	struct mm_struct *mm = vma->vm_mm;

	if (mm)
		observe(mm, SYNC_LOCK_HELD);
	return 0;
}

/* Drivers that account what they pin as locked (VFIO), to whomever they like. */
SEC("fexit/__account_locked_vm")
int BPF_PROG(inlock_driver, struct mm_struct *mm)
{
	if (mm)
		observe(mm, SYNC_LOCK_HELD);
	return 0;
}

SEC("fexit/account_locked_vm")
int BPF_PROG(call_driver, struct mm_struct *mm)
{
	if (mm)
		observe(mm, 0);
	return 0;
}

/* The last user is gone. The tracepoint of this name does not fire for an address
 * space without mappings. */
SEC("fentry/exit_mmap")
int BPF_PROG(mm_ending, struct mm_struct *mm)
{
	release_mm((u64)mm);
	return 0;
}

#endif
