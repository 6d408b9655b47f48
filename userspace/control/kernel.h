/* SPDX-License-Identifier: MIT */
/*
 * The kernel side as user space sees it: load or adopt, read the counters,
 * set budgets, sweep. kernel.c and its neighbours alone touch libbpf. Knows
 * nothing of policy.
 *
 * All calls return 0 or a negative errno and stay silent unless said.
 */
#ifndef PINCAP_KERNEL_H
#define PINCAP_KERNEL_H

#include "bpf/intf.h"
#include "userspace/common/util.h"

struct kernel;

/*
 * Take hold of the kernel side: adopt what is pinned under bpffs, or load it.
 * Holds the lock file shared until kernel_close, so that nobody unloads it
 * meanwhile. `persistent`: mark it to stay. `kfd_path`: read the GPU driver's
 * ioctls on this file too (besides /dev/kfd); NULL for none. Ends with a sweep.
 * Logs the reason of a failure once.
 */
int kernel_open(struct kernel **ret, bool persistent, const char *kfd_path);

/* The same, but never loads: -ENOENT, silently, where nothing is pinned. */
int kernel_adopt(struct kernel **ret);

/* Lets go. Accepts NULL. Unloads nothing. */
struct kernel *kernel_close(struct kernel *k);
void kernel_closep(struct kernel **k);

/* kernel_close, then unload unless it is marked persistent or somebody else
 * holds it. */
void kernel_release(struct kernel *k);

/* Remove everything, budgets included. -ENOENT: nothing was loaded; -EBUSY: a
 * controller holds it. */
int kernel_unload(void);

/* Visit every task once, sync its address space, drop what is gone. */
int kernel_sweep(struct kernel *k);

/* -ENOENT: this cgroup never locked, pinned or asked, and has no budget. */
int kernel_get_cgroup(struct kernel *k, uint64_t cgid, struct pincap_cgroup *ret);

/* `chain`: ids from the cgroup up to the root (cgroup_chain). A limit or high of
 * PINCAP_UNLIMITED lifts it. */
int kernel_set_budget(struct kernel *k, const uint64_t *chain, unsigned int depth, uint64_t limit,
		      uint64_t high);

/* Calls fn for every entry; stops at and returns its first non-zero answer. */
typedef int (*kernel_cgroup_fn)(uint64_t cgid, const struct pincap_cgroup *cg, void *ctx);
int kernel_each_cgroup(struct kernel *k, kernel_cgroup_fn fn, void *ctx);

typedef int (*kernel_process_fn)(const struct pincap_process *p, void *ctx);
int kernel_each_process(struct kernel *k, kernel_process_fn fn, void *ctx);

int kernel_get_stats(struct kernel *k, struct pincap_stats *ret);
int kernel_get_config(struct kernel *k, struct pincap_config *ret);

/* Whether link `name` (a program's name in pincap.bpf.c) is pinned. */
bool kernel_has_link(const char *name);

#endif
