/* SPDX-License-Identifier: MIT */
/* A rule's budget into the kernel side, and out of it again. */
#ifndef PINCAP_APPLY_H
#define PINCAP_APPLY_H

#include "userspace/daemon/daemon.h"

/* A cgroup, with the ids from it up to the root. */
struct place {
	const char *cgpath;
	const uint64_t *chain;
	unsigned int depth;
};

/*
 * Give the cgroup what its rule says, or do nothing where none matches. `is_new`: a
 * budget that was set by hand in the moment since it was made stays. Failures are
 * logged; what failed is tried again with the next scan.
 */
void apply_rule(struct daemon *d, const struct place *p, bool is_new);

/* Again, with what percentages are of now. */
void apply_again(struct daemon *d, struct budget *b);

/* No rule matches any more: lift the budget that one gave. */
void apply_lift(struct daemon *d, uint64_t cgid);

/* Mark in the kernel's entry that it was frozen here, or thawed. */
void apply_frozen(struct daemon *d, const struct budget *b, bool frozen);

#endif
