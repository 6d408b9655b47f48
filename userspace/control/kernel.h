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

#include <sys/types.h>

#include "bpf/intf.h"
#include "userspace/common/util.h"

struct kernel;

/* Files whose ioctls are read besides the GPU's own: stand-ins for /dev/kfd and a
 * render node. NULL: none. */
struct kernel_devices {
	const char *kfd;
	const char *drm;
};

/*
 * Take hold of the kernel side: adopt what is pinned under bpffs, or load it.
 * Holds the lock file shared until kernel_close, so that nobody unloads it
 * meanwhile. `persistent`: mark it to stay. Ends with a sweep. Logs the reason of a
 * failure once.
 */
int kernel_open(struct kernel **ret, bool persistent, const struct kernel_devices *extra);

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

/* Read the ioctls of every AMD GPU there is, and of the devices named, as kernel_open
 * does. Logs the reason of a failure. */
int kernel_watch_gpu(struct kernel *k, const struct kernel_devices *extra);

/* Let a group read iters/processes. Logs the reason of a failure. */
int kernel_share(gid_t gid);

/* Visit every task once, sync its address space, drop what is gone. */
int kernel_sweep(struct kernel *k);

/* -ENOENT: this cgroup never locked, pinned or asked, and has no budget. */
int kernel_get_cgroup(struct kernel *k, uint64_t cgid, struct pincap_cgroup *ret);

/* `chain`: ids from the cgroup up to the root (cgroup_chain). Sets what b->mask
 * names; b->cgroup_id is filled in. */
int kernel_set_budget(struct kernel *k, const uint64_t *chain, unsigned int depth,
		      const struct pincap_set_budget *b);

/* The same where there is an entry; -ENOENT where not. */
int kernel_change_budget(struct kernel *k, uint64_t cgid, const struct pincap_set_budget *b);

/* Calls fn for every entry; stops at and returns its first non-zero answer. */
typedef int (*kernel_cgroup_fn)(uint64_t cgid, const struct pincap_cgroup *cg, void *ctx);
int kernel_each_cgroup(struct kernel *k, kernel_cgroup_fn fn, void *ctx);

typedef int (*kernel_process_fn)(const struct pincap_process *p, void *ctx);
int kernel_each_process(struct kernel *k, kernel_process_fn fn, void *ctx);

typedef int (*kernel_buffer_fn)(const struct pincap_buffer *b, void *ctx);
int kernel_each_buffer(struct kernel *k, kernel_buffer_fn fn, void *ctx);

/* What threads have had in flight without a break since before `since_ns`
 * (CLOCK_MONOTONIC), in bytes. */
int kernel_get_overdue(struct kernel *k, uint64_t since_ns, uint64_t *ret_bytes);

/* SVM ranges, in no order. */
typedef int (*kernel_range_fn)(uint64_t birth, uint64_t start, uint64_t end, void *ctx);
int kernel_each_range(struct kernel *k, kernel_range_fn fn, void *ctx);

int kernel_get_stats(struct kernel *k, struct pincap_stats *ret);
int kernel_get_config(struct kernel *k, struct pincap_config *ret);

/*
 * What counting wakes up on. These variables force it (see `pincap load --help`),
 * so that every command that loads, loads alike; kernel_open fails with -EBUSY
 * where another is in force already.
 */
#define KERNEL_TRIGGER_ENV     "PINCAP_TRIGGER"
#define KERNEL_GPU_TRIGGER_ENV "PINCAP_GPU_TRIGGER"

/* In force: "fexit" or "mmap_lock"; and for the GPU driver "driver", "syscall",
 * "driver, syscall", "tracepoint", or "off" where there is no device to read. */
const char *kernel_trigger(void);
const char *kernel_gpu_trigger(void);
const char *kernel_gpu_trigger_loaded(void); /* the best that would be used */

/* Whether link `name` (a program's name in pincap.bpf.c) is pinned. */
bool kernel_has_link(const char *name);

#endif
