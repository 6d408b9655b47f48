/* SPDX-License-Identifier: MIT */
/*
 * What a kernel side takes over from an older one: budgets, counters, holds, and the
 * GPU driver's buffers and ranges, which no sweep can find again. kernel_load.c says
 * when.
 */
#ifndef PINCAP_KERNEL_CARRY_H
#define PINCAP_KERNEL_CARRY_H

#include "bpf/intf.h"

struct carry;

/* Opens what is pinned in the older one's directory. -ESTALE: it is too old to be read. */
int carry_open(struct carry **ret, const char *old_dir);

/* What it had as `config`: flags, devices, generation. */
void carry_config(const struct carry *c, struct pincap_config *ret);

/* Into the maps and by the programs pinned in a directory: everything. The older side
 * must answer no requests any more; it may still count. */
int carry_all(struct carry *c, const char *new_dir);

/* Once more, when the new side counts: what ended or began in between. */
int carry_rest(struct carry *c, const char *new_dir);

/* Render nodes that it knew. */
uint32_t carry_files(const struct carry *c);

struct carry *carry_close(struct carry *c);

#endif
