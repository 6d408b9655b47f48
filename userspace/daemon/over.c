/* SPDX-License-Identifier: MIT */
#include <signal.h>

#include "userspace/common/log.h"
#include "userspace/common/size.h"
#include "userspace/daemon/apply.h"
#include "userspace/daemon/over.h"
#include "userspace/daemon/tenants.h"

static bool is_over(const struct pincap_cgroup *cg)
{
	return cg->limit != PINCAP_UNLIMITED && (uint64_t)cg->current > cg->limit;
}

/* Marked as long as it may be frozen: whoever comes after us must know. */
static void freeze(struct daemon *d, const struct budget *b, bool frozen)
{
	int err;

	if (frozen)
		apply_frozen(d, b, true);
	err = tenants_freeze(b->cgpath, frozen);
	if (err) {
		log_ret(err, "%s '%s'", frozen ? "freeze" : "thaw", b->cgpath);
		return;
	}
	pr_warn("'%s' is %s", b->cgpath, frozen ? "frozen: it is over its limit" : "thawed");
	if (!frozen)
		apply_frozen(d, b, false);
}

static void send(const struct budget *b, int sig)
{
	unsigned int deaf = 0;
	int n = tenants_signal(b->cgpath, sig, &deaf);

	if (n < 0)
		log_ret(n, "send SIG%s to '%s'", sigabbrev_np(sig), b->cgpath);
	else
		pr_warn("'%s' is over its limit: SIG%s sent to %d process%s, %u do not catch it",
			b->cgpath, sigabbrev_np(sig), n, n == 1 ? "" : "es", deaf);
}

static void kill_all(const struct budget *b)
{
	int err = tenants_kill(b->cgpath);

	if (err)
		log_ret(err, "kill '%s'", b->cgpath);
	else
		pr_warn("'%s' is over its limit: killed", b->cgpath);
}

static void climb(struct daemon *d, struct budget *b, const struct rule_rung *rung,
		  const struct pincap_cgroup *cg, bool observes)
{
	switch (rung->kind) {
	case RULE_RUNG_LOG:
		b->over.told = report_over(d, b, cg);
		break;
	case RULE_RUNG_EVENT:
		report_over_event(b, cg);
		break;
	case RULE_RUNG_SIGNAL:
		if (!observes)
			send(b, rung->signal);
		break;
	case RULE_RUNG_FREEZE:
		if (!observes)
			freeze(d, b, true);
		break;
	case RULE_RUNG_KILL:
		if (!observes)
			kill_all(b);
		break;
	}
}

/* Frozen, nobody gives anything back: a raised limit ends that. */
static void below(struct daemon *d, struct budget *b, const struct pincap_cgroup *cg, uint64_t now)
{
	if (b->over.told)
		report_below(d, b, cg, now - b->over.since_ms);
	if (cg->flags & PINCAP_CGROUP_FROZEN)
		freeze(d, b, false);
	b->over = (struct over){ 0 };
}

void over_look(struct daemon *d, struct budget *b, const struct pincap_cgroup *cg, bool observes,
	       uint64_t now)
{
	const struct rule *rule = b->rule ? b->rule : &rule_default;

	if (!is_over(cg)) {
		if (b->over.since_ms || (cg->flags & PINCAP_CGROUP_FROZEN))
			below(d, b, cg, now);
		return;
	}
	if (!b->over.since_ms)
		b->over.since_ms = now;
	while (b->over.rung < rule->on_over_count &&
	       now - b->over.since_ms >= rule->on_over[b->over.rung].after_ms)
		climb(d, b, &rule->on_over[b->over.rung++], cg, observes);
}

void over_end(struct daemon *d, struct budget *b)
{
	struct pincap_cgroup cg;

	if (!kernel_get_cgroup(d->kernel, b->cgid, &cg) && (cg.flags & PINCAP_CGROUP_FROZEN))
		freeze(d, b, false);
}
