/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * What `cat` shows: a table of the address spaces that hold anything, one line per
 * process that owns one; and one of the cgroups. Reads what the counters say;
 * changes nothing.
 */
#ifndef PINCAP_ITERS_BPF_H
#define PINCAP_ITERS_BPF_H

#include "account.bpf.h"

#define NAME_BYTES 128 /* of a name that is shown; longer ones are cut */
#define ROW_BYTES  512 /* enough for the longest row */
#define INDENT_MAX 16

const char indent[] = "                                ";

/* Names are tenants' words: nothing in them may drive the terminal. */
static __always_inline void make_safe(char *name, int size)
{
	for (int i = 0; i < size && name[i]; i++)
		if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
			name[i] = '?';
}

SEC("iter/task")
int show_processes(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *task = ctx->task;
	struct pincap_process *rec;
	struct mm_struct *mm;
	char comm[16];
	u64 key;

	if (ctx->meta->seq_num == 0)
		BPF_SEQ_PRINTF(seq, "%8s %-15s %14s %14s %14s %14s %14s %10s\n", "PID", "COMMAND",
			       "LOCKED", "PINNED", "GPU", "SVM", "HELD", "CGROUP_ID");
	mm = task ? task->mm : NULL;
	if (!mm || mm->owner != task) /* of all that share it, one */
		return 0;
	key = (u64)mm;
	rec = bpf_map_lookup_elem(&processes, &key);
	if (!rec)
		return 0;
	if (!(rec->locked | rec->pinned | rec->gpu | rec->held))
		return 0;
	__builtin_memcpy(comm, rec->comm, sizeof(comm));
	make_safe(comm, sizeof(comm));
	BPF_SEQ_PRINTF(seq, "%8d %-15s %14llu %14llu %14llu %14llu %14llu %10llu\n", task->tgid,
		       comm, rec->locked, rec->pinned, rec->gpu, rec->svm, rec->held,
		       rec->cgroup_id);
	return 0;
}

static __always_inline void show_limit(struct seq_file *seq, u64 bytes)
{
	if (bytes == PINCAP_UNLIMITED)
		BPF_SEQ_PRINTF(seq, " %14s", "infinity");
	else
		BPF_SEQ_PRINTF(seq, " %14llu", bytes);
}

static __always_inline bool is_shown(const struct pincap_cgroup *cg)
{
	return cg->current > 0 || cg->limit != PINCAP_UNLIMITED || cg->high != PINCAP_UNLIMITED ||
	       cg->min;
}

/* A decrease may be seen before its increase; `pincap stat` shows 0 then too. */
static __always_inline s64 at_least_0(s64 v)
{
	return v > 0 ? v : 0;
}

static __always_inline void show_name(struct seq_file *seq, struct cgroup *cgrp)
{
	u32 level = cgrp->level;
	char name[NAME_BYTES];

	if (!level) {
		BPF_SEQ_PRINTF(seq, "  /\n");
		return;
	}
	if (level > INDENT_MAX)
		level = INDENT_MAX;
	if (bpf_probe_read_kernel_str(name, sizeof(name), BPF_CORE_READ(cgrp, kn, name)) < 0)
		name[0] = 0;
	make_safe(name, sizeof(name));
	BPF_SEQ_PRINTF(seq, "  %s%s\n", indent + 2 * (INDENT_MAX - level), name);
}

/*
 * Each cgroup before its children, so that level and name make a tree. The kernel
 * walks them in one go: it fails the second read of a table that did not fit into
 * the first (32 KiB, or what the reader offers), so a full one ends early, and says so.
 */
SEC("iter/cgroup")
int show_cgroups(struct bpf_iter__cgroup *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct cgroup *cgrp = ctx->cgroup;
	struct pincap_cgroup *cg;
	u64 cgid;

	if (ctx->meta->seq_num == 0)
		BPF_SEQ_PRINTF(seq, "%10s %5s %14s %14s %14s %14s %14s %14s %14s %14s %8s  %s\n",
			       "CGROUP_ID", "LEVEL", "CURRENT", "LOCKED", "PINNED", "GPU", "HELD",
			       "LIMIT", "HIGH", "PEAK", "REFUSED", "NAME");
	if (!cgrp)
		return 0;
	cgid = cgroup_id_of(cgrp);
	cg = bpf_map_lookup_elem(&cgroups, &cgid);
	if (!cg || !is_shown(cg))
		return 0;
	if (seq->count + ROW_BYTES > seq->size) {
		BPF_SEQ_PRINTF(seq, "... more than fit here: pincap stat\n");
		return 1;
	}
	BPF_SEQ_PRINTF(seq, "%10llu %5d %14lld %14lld %14lld %14lld %14lld", cgid, cgrp->level,
		       at_least_0(cg->current), at_least_0(cg->locked), at_least_0(cg->pinned),
		       at_least_0(cg->gpu), at_least_0(cg->held));
	show_limit(seq, cg->limit);
	show_limit(seq, cg->high);
	BPF_SEQ_PRINTF(seq, " %14lld %8llu", cg->peak, cg->refused);
	show_name(seq, cgrp);
	return 0;
}

#endif
