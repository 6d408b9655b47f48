// SPDX-License-Identifier: (GPL-2.0-only OR MIT)
/*
 * The triggers: each says "look again", none adds what an event claims. The
 * counting is in account.bpf.h, the driver's ioctls in ioctl.bpf.h, admission in
 * admit.bpf.h, what people read in iters.bpf.h.
 */
#include "calls.bpf.h"
#include "gpu_calls.bpf.h"
#include "admit.bpf.h"
#include "iters.bpf.h"
#include "carry.bpf.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("tp_btf/exit_mmap")
int BPF_PROG(mm_exited, struct mm_struct *mm)
{
	release_mm((u64)mm);
	return 0;
}

/* A newborn address space owns nothing: a record under its address is a dead
 * one's. */
static __always_inline void newborn(struct mm_struct *mm)
{
	if (mm && release_mm((u64)mm))
		STAT(stale_record);
}

SEC("tp_btf/sched_process_fork")
int BPF_PROG(process_forked, struct task_struct *parent, struct task_struct *child)
{
	struct mm_struct *mm = child->mm;

	if (mm != parent->mm)
		newborn(mm);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(process_execed, struct task_struct *task, int old_pid)
{
	thread_drop(task->pid);
	thread_drop(old_pid); /* a thread's, which became the leader: no exit tells of it */
	newborn(task->mm);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(thread_exited, struct task_struct *task)
{
	thread_drop(task->pid);
	return 0;
}

SEC("tp_btf/cgroup_attach_task")
int BPF_PROG(task_attached, struct cgroup *dst, const char *path, struct task_struct *task)
{
	struct mm_struct *mm = task->mm;

	if (mm && is_v2(dst))
		observe(mm, 0);
	return 0;
}

SEC("tp_btf/cgroup_mkdir")
int BPF_PROG(cgroup_made, struct cgroup *cgrp, const char *path)
{
	return is_v2(cgrp) ? tell_mkdir(cgroup_id_of(cgrp), path) : 0;
}

static __always_inline bool is_in_use(struct pincap_cgroup *cg)
{
	return cg->locked | cg->pinned | cg->gpu | cg->held | cg->records;
}

/* Removal with residual charges leaves the entry, marked; the sweep drops it when
 * it is empty. */
SEC("tp_btf/cgroup_rmdir")
int BPF_PROG(cgroup_removed, struct cgroup *cgrp)
{
	u64 cgid = cgroup_id_of(cgrp);
	struct pincap_cgroup *cg;

	if (!is_v2(cgrp))
		return 0;
	tell_now(cgid, PINCAP_EVENT_RMDIR, 0);
	cg = bpf_map_lookup_elem(&cgroups, &cgid);
	if (!cg)
		return 0;
	if (is_in_use(cg))
		__sync_fetch_and_or(&cg->flags, PINCAP_CGROUP_DEAD);
	else
		bpf_map_delete_elem(&cgroups, &cgid);
	return 0;
}

SEC("tp_btf/io_uring_register")
int BPF_PROG(ring_registered)
{
	struct mm_struct *mm = current_mm();

	if (mm)
		observe(mm, 0);
	return 0;
}

static long reap_process(struct bpf_map *map, u64 *mm, struct pincap_process *rec, u64 *generation)
{
	u64 key = *mm;

	if (rec->generation + 2 > *generation)
		return 0;
	/* Kernel 6.1 lets a callback lock what it looked up, not what it was handed. */
	rec = bpf_map_lookup_elem(&processes, &key);
	if (rec)
		release(key, rec, *generation - 1);
	return 0;
}

#define BELOW_COUNTED 0xffffffffU

/* Below 0 for a moment is a decrease that came before its increase; in two complete
 * sweeps it is an error of ours, counted once. */
static __always_inline void check_signs(struct pincap_cgroup *cg, u32 generation)
{
	bool is_below = (cg->current | cg->locked | cg->pinned | cg->gpu | cg->held |
			 cg->in_flight | cg->records) < 0;

	if (!is_below) {
		cg->below_since = 0;
	} else if (!cg->below_since) {
		cg->below_since = generation;
	} else if (cg->below_since != generation && cg->below_since != BELOW_COUNTED) {
		cg->below_since = BELOW_COUNTED;
		STAT(below_zero);
	}
}

/* An entry that a complete sweep finds dead and empty, and the next one again:
 * whatever was being added when its directory went has arrived. */
static long reap_cgroup(struct bpf_map *map, u64 *cgid, struct pincap_cgroup *cg, u64 *generation)
{
	check_signs(cg, *generation);
	if (!(cg->flags & PINCAP_CGROUP_DEAD))
		return 0;
	if (is_in_use(cg))
		cg->dead_since = 0;
	else if (!cg->dead_since)
		cg->dead_since = *generation;
	else if (cg->dead_since < *generation)
		bpf_map_delete_elem(&cgroups, cgid);
	return 0;
}

/*
 * The sweep is the truth: every task's address space, whatever was missed. The
 * loader holds a lock file meanwhile and has raised config.generation, so that
 * one runs at a time. It prints, as u32, the ids of tasks whose mappings are to
 * be looked through (mapped.bpf.h). The last call, without a task, drops what two complete
 * sweeps have not seen.
 */
SEC("iter/task")
int sweep(struct bpf_iter__task *ctx)
{
	struct pincap_config *cfg = config_get();
	struct task_struct *task = ctx->task;
	struct pincap_process *rec;
	struct mm_struct *mm;
	u64 key, generation;
	u32 tid = 0;

	if (!cfg)
		return 0;
	generation = cfg->generation;
	if (!task) {
		reap_files();
		bpf_for_each_map_elem(&processes, reap_process, &generation, 0);
		bpf_for_each_map_elem(&cgroups, reap_cgroup, &generation, 0);
		return 0;
	}
	mm = task->mm;
	if (!mm)
		return 0;
	key = (u64)mm;
	rec = bpf_map_lookup_elem(&processes, &key);
	if (rec && rec->generation == generation)
		return 0; /* another thread of the same address space */
	observe(mm, 0);
	rec = bpf_map_lookup_elem(&processes, &key);
	if (!rec)
		return 0;
	if (rec->svm_head && has_hole(task, rec))
		tid = task->pid;
	/* Without room the iterator shows this task again. */
	if (!tid || !bpf_seq_write(ctx->meta->seq, &tid, sizeof(tid)))
		rec->generation = generation;
	return 0;
}

#define SET_BY_HAND (PINCAP_SET_LIMIT | PINCAP_SET_HIGH | PINCAP_SET_MIN)

/* The directory may be removed meanwhile, which is a flag too. */
static __always_inline void set_flags(struct pincap_cgroup *cg, u32 mask)
{
	if (mask & PINCAP_SET_RULED)
		__sync_fetch_and_or(&cg->flags, PINCAP_CGROUP_RULED);
	else if (mask & SET_BY_HAND)
		__sync_fetch_and_and(&cg->flags, ~PINCAP_CGROUP_RULED);
	if (mask & PINCAP_SET_FROZEN)
		__sync_fetch_and_or(&cg->flags, PINCAP_CGROUP_FROZEN);
	if (mask & PINCAP_SET_THAWED)
		__sync_fetch_and_and(&cg->flags, ~PINCAP_CGROUP_FROZEN);
}

/* Write a budget into the entry where it lies: an update from user space would
 * overwrite the counters beside it. */
SEC("syscall")
int set_budget(struct pincap_set_budget *b)
{
	u64 cgid = b->cgroup_id;
	struct pincap_cgroup *cg = bpf_map_lookup_elem(&cgroups, &cgid);

	if (!cg)
		return -ENOENT;
	if (b->mask & PINCAP_SET_HIGH)
		cg->high = b->high;
	if (b->mask & PINCAP_SET_LIMIT)
		cg->limit = b->limit;
	if (b->mask & PINCAP_SET_MIN)
		cg->min = b->min;
	if (b->mask & PINCAP_SET_ALLOC)
		cg->alloc = b->alloc;
	if (b->mask & PINCAP_SET_RELEASE)
		cg->release = b->release;
	if (b->mask & PINCAP_SET_OBSERVE)
		cg->observe = b->observe;
	set_flags(cg, b->mask);
	if (!(b->mask & PINCAP_SET_RULED)) /* else it is the controller's own doing */
		tell_now(cgid, PINCAP_EVENT_SET, cg->current);
	return 0;
}
