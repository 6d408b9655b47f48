/* SPDX-License-Identifier: MIT */
/*
 * What happens while a cgroup is above its limit: the rungs of its rule's `on_over`,
 * one after the other. By default that is words alone.
 */
#ifndef PINCAP_OVER_H
#define PINCAP_OVER_H

#include "bpf/intf.h"
#include "userspace/daemon/daemon.h"

/* `observes`: words alone, whatever the rule says. */
void over_look(struct daemon *d, struct budget *b, const struct pincap_cgroup *cg, bool observes,
	       uint64_t now);

/* Whatever was frozen here goes on: nobody would end it any more. */
void over_end(struct daemon *d, struct budget *b);

#endif
