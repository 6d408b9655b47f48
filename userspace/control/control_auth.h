/* SPDX-License-Identifier: MIT */
/*
 * Who may do what by the control socket. Pure: facts in, a verdict out.
 *
 * Root may do anything. Others set budgets of cgroups below one whose directory is theirs
 * (delegated to them), never above a limit further up, and not where a rule of the
 * configuration has its say. What protects from the host's needs (`min`), or
 * lets refused calls through, is root's.
 */
#ifndef PINCAP_CONTROL_AUTH_H
#define PINCAP_CONTROL_AUTH_H

#include <stdbool.h>
#include <sys/types.h>

#include "bpf/intf.h"

struct control_facts {
	uid_t uid;
	bool is_owned_above; /* a directory above the cgroup's is the caller's */
	bool has_rule;	     /* one of the configuration matches it */
	uint64_t bound;	     /* the tightest limit above; PINCAP_UNLIMITED: none */
};

/* 0; -EPERM; -ERANGE: above `bound`; -EINVAL: unknown, or nothing, to be set. *ret_why:
 * the reason of an error, static. `infinity` lifts, and passes. */
int control_may_set(const struct control_facts *f, const struct pincap_set_budget *b,
		    const char **ret_why);

struct control_reader {
	uid_t uid;
	bool is_of_group;   /* of those who may read everything */
	const char *cgpath; /* where the caller is */
};

/* What concerns his own cgroups: those he is in, the ones above, which bind him,
 * and what is at or below a directory of his. */
bool control_may_read(const struct control_reader *r, const char *cgpath, bool is_owned);

#endif
