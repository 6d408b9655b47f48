/* SPDX-License-Identifier: MIT */
/*
 * What the running kernel permits, found out by trying: each probe loads a tiny
 * program of its own and lets it go. Knows nothing of what is in use.
 */
#ifndef PINCAP_PROBE_H
#define PINCAP_PROBE_H

#include <stdbool.h>

/* 0: the kernel takes it; else the negative errno it answered. */
int probe_fexit_syscall(void);	/* a trampoline on a system call */
int probe_fexit(int btf_id);	/* ... on this function of vmlinux's BTF */
int probe_fmod_ret_mlock(void); /* one that may change its result */
int probe_lsm(void);
int probe_tracepoint(const char *name); /* tp_btf */
int probe_iter(const char *name);	/* iter/NAME */

/* The youngest of what nothing works without: false below Linux 5.17 (of those with
 * long support: below 6.1). */
bool probe_is_new_enough(void);

/* What the kernel calls its own: -ENOENT without BTF. */
int probe_btf(void);

#endif
