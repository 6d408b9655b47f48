/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * What `cat` shows: a table of the address spaces that hold anything, one line per
 * process that owns one. Reads what the counters say; changes nothing.
 */
#ifndef PINCAP_ITERS_BPF_H
#define PINCAP_ITERS_BPF_H

#include "account.bpf.h"

SEC("iter/task")
int show_processes(struct bpf_iter__task *ctx)
{
	struct seq_file *seq = ctx->meta->seq;
	struct task_struct *task = ctx->task;
	struct pincap_process *rec;
	struct mm_struct *mm;
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
	if (rec->locked | rec->pinned | rec->gpu | rec->held)
		BPF_SEQ_PRINTF(seq, "%8d %-15s %14llu %14llu %14llu %14llu %14llu %10llu\n",
			       task->tgid, rec->comm, rec->locked, rec->pinned, rec->gpu, rec->svm,
			       rec->held, rec->cgroup_id);
	return 0;
}

#endif
