/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "userspace/common/cgroup.h"
#include "userspace/common/clock.h"
#include "userspace/common/log.h"
#include "userspace/common/size.h"
#include "userspace/control/release.h"
#include "userspace/daemon/apply.h"
#include "userspace/daemon/look.h"
#include "userspace/daemon/over.h"

/* systemd writes memory.max after it made the cgroup. */
#define SETTLES_MS 10000

/* Budgets whose percentages are looked at again with every scan. */
#define REFRESH_PER_SCAN 16

static struct decide_rules rules_of(const struct config *c)
{
	struct decide_rules rules = DECIDE_RULES_DEFAULT;

	rules.resume_percent = 100 - c->hysteresis_percent;
	rules.dwell_ms = c->dwell_ms;
	rules.cooldown_ms = c->release_cooldown_ms;
	return rules;
}

static void ask_back(struct daemon *d, struct budget *b, const struct decide_out *out)
{
	char a[SIZE_FORMAT_BYTES], c[SIZE_FORMAT_BYTES];
	uint64_t rest;
	int asked;

	if (b->rule && b->rule->release == RULE_RELEASE_NONE)
		return;
	asked = release_ask(d->kernel, d->notify, b->scope, out->bytes, &rest);
	pr_debug("'%s': RELEASE %s, down to %s, asked of %d", b->cgpath, size_format(out->bytes, a),
		 size_format(out->target_bytes, c), asked);
}

static void act(struct daemon *d, struct budget *b, const struct decide_out *out)
{
	switch (out->action) {
	case DECIDE_NOTHING:
		return;
	case DECIDE_STOP:
		notify_scope_stop(b->scope,
				  out->reason == DECIDE_RESERVE ? NOTIFY_UNPROTECTED : NOTIFY_ALL,
				  out->bytes);
		break;
	case DECIDE_RESUME:
		notify_scope_resume(b->scope);
		break;
	case DECIDE_RELEASE:
		ask_back(d, b, out);
		return;
	case DECIDE_WITHDRAW:
		notify_scope_withdraw(b->scope);
		b->told.deaf = false;
		b->deaf = 0;
		return;
	}
	d->budgets.signals++;
	pr_debug("'%s': %s", b->cgpath, out->action == DECIDE_STOP ? "STOP" : "RESUME");
}

/* Who only observes is stopped by nobody, and asked for nothing. */
static void decide_on(struct daemon *d, struct budget *b, const struct pincap_cgroup *cg,
		      bool observes, uint64_t now)
{
	const struct decide_rules rules = rules_of(d->config);
	struct decide_in in = {
		.current_bytes = (uint64_t)cg->current,
		.limit_bytes = observes ? PINCAP_UNLIMITED : cg->limit,
		.high_bytes = observes ? PINCAP_UNLIMITED : cg->high,
		.host_short = b == d->root && d->reserve.is_short && !daemon_is_dry(d),
	};
	struct decide_out out;

	do {
		decide_recall(&b->past, now, &in);
		out = decide(&rules, &in);
		act(d, b, &out);
		decide_remember(&b->past, &in, &out, now);
	} while (out.action != DECIDE_NOTHING);
}

/* Below its min the host's shortage is not its own. With play, as everywhere. */
static void protect(const struct daemon *d, struct budget *b, const struct pincap_cgroup *cg)
{
	const uint64_t current = (uint64_t)cg->current;

	if (current >= cg->min)
		notify_scope_protect(b->scope, false);
	else if (current <= cg->min - cg->min / 100 * d->config->hysteresis_percent)
		notify_scope_protect(b->scope, true);
}

static void look(struct daemon *d, struct budget *b, const struct pincap_cgroup *cg, uint64_t now)
{
	const bool observes = cg->observe;

	protect(d, b, cg);
	decide_on(d, b, cg, observes, now);
	if (b->past.releasing)
		report_deaf(d, b, now);
	over_look(d, b, cg, observes, now);
	report_refusals(d, b, cg, now);
	b->is_awake = b->past.stopped_for != DECIDE_FINE || b->past.releasing || b->over.since_ms ||
		      b == d->root;
}

void look_at(struct daemon *d, struct budget *b)
{
	struct pincap_cgroup cg;

	if (!kernel_get_cgroup(d->kernel, b->cgid, &cg))
		look(d, b, &cg, clock_ms());
}

void look_at_awake(struct daemon *d)
{
	for (struct list *l = d->budgets.all.next; l != &d->budgets.all; l = l->next)
		if (budgets_of(l)->is_awake)
			look_at(d, budgets_of(l));
}

static bool has_budget(const struct pincap_cgroup *cg)
{
	return cg->limit != PINCAP_UNLIMITED || cg->high != PINCAP_UNLIMITED || cg->min;
}

/* A budget of somebody unknown: set by hand, or by a rule that could not be applied. */
static struct budget *adopt(struct daemon *d, uint64_t cgid)
{
	_cleanup_free_ char *cgpath = NULL;
	uint64_t chain[PINCAP_MAX_DEPTH];
	struct place p = { .chain = chain };
	struct budget *b;

	if (cgroup_path_of_id(cgid, &cgpath) ||
	    cgroup_chain(cgpath, chain, PINCAP_MAX_DEPTH, &p.depth) || chain[0] != cgid)
		return NULL;
	p.cgpath = cgpath;
	apply_rule(d, &p, true);
	b = budgets_find(&d->budgets, cgid);
	if (!b && budget_new(&b, &d->budgets, d->notify, cgid, cgpath))
		return NULL;
	return b;
}

struct scan {
	struct daemon *daemon;
	uint64_t now;
	unsigned int asking;
};

static int on_entry(uint64_t cgid, const struct pincap_cgroup *cg, void *ctx)
{
	struct scan *s = ctx;
	struct daemon *d = s->daemon;
	struct budget *b;

	if (cg->flags & PINCAP_CGROUP_DEAD)
		return 0;
	if (cg->level == 1 && reserve_is_asking(&d->reserve, cg->taken))
		s->asking++;
	b = budgets_find(&d->budgets, cgid);
	if (!b && (has_budget(cg) || (cg->flags & PINCAP_CGROUP_FROZEN)))
		b = adopt(d, cgid);
	if (!b)
		return 0;
	if (!b->rule && !has_budget(cg) && b != d->root) {
		over_end(d, b);
		budget_free(&d->budgets, b);
		return 0;
	}
	b->scan = d->budgets.scan;
	look(d, b, cg, s->now);
	return 0;
}

/* Its entry is gone: with the cgroup, or it could not be made. */
static void look_for(struct daemon *d, struct budget *b)
{
	uint64_t chain[PINCAP_MAX_DEPTH];
	struct place p = { b->cgpath, chain, 0 };

	if (b->rule && !cgroup_chain(b->cgpath, chain, PINCAP_MAX_DEPTH, &p.depth) &&
	    chain[0] == b->cgid)
		apply_rule(d, &p, true);
	else
		budget_free(&d->budgets, b);
}

/* New ones, and some of the others in turn. */
static void refresh(struct daemon *d, uint64_t now)
{
	unsigned int left = REFRESH_PER_SCAN;
	size_t i = 0;

	for (struct list *l = d->budgets.all.next; l != &d->budgets.all; l = l->next, i++) {
		struct budget *b = budgets_of(l);
		bool is_turn = i >= d->budgets.refreshed && left;

		if (is_turn) {
			left--;
			d->budgets.refreshed++;
		}
		if (is_turn || now - b->made_ms < SETTLES_MS)
			apply_again(d, b);
	}
	if (left)
		d->budgets.refreshed = 0;
}

void look_at_all(struct daemon *d)
{
	struct scan s = { .daemon = d, .now = clock_ms() };
	struct list *next;
	int err;

	d->budgets.scan++;
	err = kernel_each_cgroup(d->kernel, on_entry, &s);
	if (err) {
		log_ret(err, "read the cgroups' counters, the next scan retries");
		return;
	}
	d->reserve.asking = s.asking;
	for (struct list *l = d->budgets.all.next; l != &d->budgets.all; l = next) {
		struct budget *b = budgets_of(l);

		next = l->next;
		if (b->scan != d->budgets.scan && b != d->root)
			look_for(d, b);
	}
	refresh(d, s.now);
}
