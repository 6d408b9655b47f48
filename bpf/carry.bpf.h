/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * What a new kernel side takes over from an older one that it replaces (kernel_carry.c):
 * of each address space that still lives, what nobody can read again.
 */
#ifndef PINCAP_CARRY_BPF_H
#define PINCAP_CARRY_BPF_H

#include "gpu.bpf.h"

/* Empty but for an upgrade, hence not preallocated: the loader fills it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 65536);
	__type(key, u64); /* of `processes` */
	__type(value, struct pincap_carry);
} carried SEC(".maps");

static __always_inline struct pincap_process *
carry_record(struct mm_struct *mm, const struct pincap_carry *c, bool *is_new)
{
	struct pincap_config *cfg = config_get();
	u64 key = (u64)mm;
	struct pincap_process fresh = {
		.mm = key,
		.birth = c->birth,
		.cgroup_id = c->cgroup_id,
		.generation = cfg ? cfg->generation : 0,
	};

	*is_new = !bpf_map_update_elem(&processes, &key, &fresh, BPF_NOEXIST);
	return bpf_map_lookup_elem(&processes, &key);
}

/* A record that was made here meanwhile has counted what can be read. */
static __noinline int carry_over(struct mm_struct *mm, struct pincap_carry *c)
{
	struct amounts d = {};
	struct pincap_process *rec;
	bool is_new = false;
	u64 cgid;

	rec = carry_record(mm, c, &is_new);
	if (!rec)
		return 0;
	d.gpu = c->gpu;
	d.held = c->held;
	d.in_flight = c->in_flight;
	if (is_new) {
		d.locked = c->locked;
		d.pinned = c->pinned;
	}
	bpf_spin_lock(&rec->lock);
	rec->birth = c->birth;
	rec->locked += d.locked;
	rec->pinned += d.pinned;
	rec->gpu += d.gpu;
	rec->held += d.held;
	rec->in_flight += d.in_flight;
	rec->small += c->small;
	rec->svm += c->svm;
	if (c->svm_head)
		rec->svm_head = c->svm_head;
	cgid = rec->cgroup_id;
	bpf_spin_unlock(&rec->lock);
	name_owner(mm, rec);
	if (is_new)
		chain_records(cgid, 1);
	return chain_add(cgid, &d);
}

SEC("iter/task")
int carry(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct pincap_process *rec;
	struct pincap_carry *found, c;
	struct mm_struct *mm;
	u64 key;

	mm = task ? task->mm : NULL;
	key = (u64)mm;
	found = mm ? bpf_map_lookup_elem(&carried, &key) : NULL;
	if (!found)
		return 0;
	c = *found;
	bpf_map_delete_elem(&carried, &key);
	if (!c.gone)
		return carry_over(mm, &c);
	/* It ended while only the older side looked, and another has its address. */
	rec = bpf_map_lookup_elem(&processes, &key);
	if (rec && rec->birth == c.birth)
		release(key, rec, 0);
	return 0;
}

#endif
