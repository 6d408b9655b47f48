/* SPDX-License-Identifier: MIT */
/*
 * Who has a budget: one record for each cgroup that a rule matches or for which one
 * was set by hand, found by the cgroup's id. What the budget is, the kernel side
 * knows; here is what must be remembered between two looks at it.
 */
#ifndef PINCAP_BUDGETS_H
#define PINCAP_BUDGETS_H

#include "userspace/common/list.h"
#include "userspace/common/util.h"
#include "userspace/control/decide.h"
#include "userspace/control/notify.h"
#include "userspace/control/rules.h"

#define BUDGETS_BUCKETS 1024

/* How far up the on_over ladder it is. */
struct over {
	uint64_t since_ms; /* over without a break; 0: it is not */
	size_t rung;	   /* the next one */
	bool told;	   /* in the log, so that the end will be too */
};

/* What the log said last, and when. */
struct told {
	bool is_known; /* the figures below are of a look at the entry */
	uint64_t ms;   /* of the last line; 0: none yet */
	uint64_t limit_hits;
	uint64_t reserve_hits;
	uint64_t would_refuse;
	uint32_t pid; /* who was refused last; 0: nobody yet */
	char comm[16];
	uint64_t release_ms; /* of the request whose answers were looked for */
	bool deaf;	     /* since memory began to be asked for */
};

struct budget {
	struct list in_all;
	struct list in_ids;
	uint64_t cgid;
	char *cgpath;
	const struct rule *rule; /* NULL: set by hand */
	struct notify_scope *scope;
	struct decide_past past;
	struct over over;
	struct told told;
	unsigned int deaf;     /* libraries */
	unsigned int pass;     /* budgets.pass when a walk last met it */
	unsigned int scan;     /* budgets.scan likewise */
	bool is_awake;	       /* looked at with every tick */
	bool is_kept;	       /* a rule matches, but it was set by hand before that was seen */
	uint64_t made_ms;      /* memory.max of a new cgroup may come after it */
	struct rule_base base; /* that its sizes were resolved for */
};

struct budgets {
	struct list all;
	struct list ids[BUDGETS_BUCKETS];
	size_t count;
	unsigned int pass;
	unsigned int scan;
	size_t refreshed; /* in this round, whose percentages were looked at again */
	uint64_t signals; /* STOP and RESUME */
};

void budgets_init(struct budgets *bs);
void budgets_done(struct budgets *bs);

struct budget *budgets_find(struct budgets *bs, uint64_t cgid);
struct budget *budgets_of(struct list *in_all);

/* A record of another cgroup that had this path is freed: that one is gone. */
int budget_new(struct budget **ret, struct budgets *bs, struct notify *n, uint64_t cgid,
	       const char *cgpath);
void budget_free(struct budgets *bs, struct budget *b);

#endif
