/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "userspace/common/cgroup.h"
#include "userspace/common/hostmem.h"
#include "userspace/common/log.h"
#include "userspace/daemon/apply.h"

static uint32_t alloc_of(const struct rule *rule)
{
	static const uint32_t words[] = {
		[RULE_ALLOC_REFUSE] = PINCAP_ALLOC_REFUSE,
		[RULE_ALLOC_PAGEABLE] = PINCAP_ALLOC_PAGEABLE,
		[RULE_ALLOC_PASS] = PINCAP_ALLOC_PASS,
	};

	return words[rule->alloc];
}

static uint32_t release_of(const struct rule *rule)
{
	static const uint32_t words[] = {
		[RULE_RELEASE_COOPERATIVE] = PINCAP_RELEASE_COOPERATIVE,
		[RULE_RELEASE_TRANSPARENT] = PINCAP_RELEASE_TRANSPARENT,
		[RULE_RELEASE_NONE] = PINCAP_RELEASE_NONE,
	};

	return words[rule->release];
}

static bool is_relative(const struct rule *rule)
{
	return rule->limit.kind != RULE_SIZE_BYTES || rule->high.kind != RULE_SIZE_BYTES ||
	       rule->min.kind != RULE_SIZE_BYTES;
}

/* Read only where a percentage asks for it. */
static struct rule_base base_of(const struct daemon *d, const struct rule *rule, const char *cgpath)
{
	const struct rule_base *host = &d->reserve.host;
	uint64_t limit;

	if (!is_relative(rule) || cgroup_memory_limit_at(cgpath, &limit) ||
	    limit >= host->ram_bytes)
		return *host;
	return (struct rule_base){ .ram_bytes = limit };
}

static int set(struct daemon *d, const struct place *p, const struct rule *rule,
	       const struct rule_base *base)
{
	struct pincap_set_budget b = {
		.mask = PINCAP_SET_LIMIT | PINCAP_SET_HIGH | PINCAP_SET_MIN | PINCAP_SET_OBSERVE |
			PINCAP_SET_ALLOC | PINCAP_SET_RELEASE | PINCAP_SET_RULED,
		.observe = daemon_is_dry(d) || rule->mode == RULE_OBSERVE,
		.alloc = alloc_of(rule),
		.release = release_of(rule),
	};
	struct rule_sizes sizes;
	int err = rule_resolve(rule, base, &sizes);

	if (err)
		return err;
	b.limit = sizes.limit_bytes;
	b.high = sizes.high_bytes;
	b.min = sizes.min_bytes;
	return kernel_set_budget(d->kernel, p->chain, p->depth, &b);
}

/* Set with `pincap set` or by `pincap run`. */
static bool is_by_hand(struct daemon *d, uint64_t cgid)
{
	struct pincap_cgroup cg;

	return !kernel_get_cgroup(d->kernel, cgid, &cg) && !(cg.flags & PINCAP_CGROUP_RULED) &&
	       (cg.limit != PINCAP_UNLIMITED || cg.high != PINCAP_UNLIMITED || cg.min);
}

static void fail(struct daemon *d, const struct place *p, const char *what, int err)
{
	if (report_may(&d->report))
		log_ret(err, "%s '%s', the next scan retries", what, p->cgpath);
}

void apply_rule(struct daemon *d, const struct place *p, bool is_new)
{
	const struct rule *rule = rules_find(&d->config->rules, p->cgpath);
	struct budget *b = budgets_find(&d->budgets, p->chain[0]);
	int err = 0;

	if (b)
		b->rule = rule;
	if (!rule)
		return;
	if (!b)
		err = budget_new(&b, &d->budgets, d->notify, p->chain[0], p->cgpath);
	if (err) {
		fail(d, p, "remember the budget of", err);
		return;
	}
	b->rule = rule;
	b->pass = d->budgets.pass;
	b->base = base_of(d, rule, p->cgpath);
	b->told.is_known |= is_new; /* all that it is refused is news */
	b->is_kept = is_new && is_by_hand(d, p->chain[0]);
	if (b->is_kept)
		return;
	err = set(d, p, rule, &b->base);
	if (err)
		fail(d, p, "set the budget of", err);
}

void apply_again(struct daemon *d, struct budget *b)
{
	uint64_t chain[PINCAP_MAX_DEPTH];
	struct place p = { b->cgpath, chain, 0 };
	struct rule_base base;

	if (!b->rule || b->is_kept || !is_relative(b->rule))
		return;
	base = base_of(d, b->rule, b->cgpath);
	if (base.ram_bytes == b->base.ram_bytes || is_by_hand(d, b->cgid) ||
	    cgroup_chain(b->cgpath, chain, PINCAP_MAX_DEPTH, &p.depth) || chain[0] != b->cgid)
		return;
	if (!set(d, &p, b->rule, &base))
		b->base = base;
}

void apply_lift(struct daemon *d, uint64_t cgid)
{
	const struct pincap_set_budget b = {
		.limit = PINCAP_UNLIMITED,
		.high = PINCAP_UNLIMITED,
		.mask = PINCAP_SET_LIMIT | PINCAP_SET_HIGH | PINCAP_SET_MIN | PINCAP_SET_OBSERVE |
			PINCAP_SET_ALLOC | PINCAP_SET_RELEASE,
	};
	int err = kernel_change_budget(d->kernel, cgid, &b);

	if (err && err != -ENOENT)
		log_ret(err, "lift the budget of the cgroup with id %llu",
			(unsigned long long)cgid);
}

void apply_frozen(struct daemon *d, const struct budget *b, bool frozen)
{
	const struct pincap_set_budget set_frozen = {
		.mask = frozen ? PINCAP_SET_FROZEN : PINCAP_SET_THAWED,
	};

	kernel_change_budget(d->kernel, b->cgid, &set_frozen);
}
