/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>

#include "userspace/common/hostmem.h"
#include "userspace/common/size.h"
#include "userspace/common/util.h"
#include "userspace/control/rules.h"

const struct rule rule_default = {
	.limit = { .bytes = SIZE_UNLIMITED },
	.high = { .bytes = SIZE_UNLIMITED },
	.on_over = { { .kind = RULE_RUNG_LOG }, { .kind = RULE_RUNG_EVENT } },
	.on_over_count = 2,
};

int rule_size_parse(const char *text, struct rule_size *ret)
{
	struct rule_size s = { .kind = RULE_SIZE_BYTES };
	size_t len = strlen(text);
	uint64_t bytes;
	int err;

	if (streq(text, "auto")) {
		s.kind = RULE_SIZE_AUTO;
		*ret = s;
		return 0;
	}
	err = size_parse(text, 0, &bytes);
	if (err)
		return err;
	if (text[len - 1] == '%') {
		if (len >= sizeof(s.percent))
			return -EINVAL;
		s.kind = RULE_SIZE_PERCENT;
		memcpy(s.percent, text, len + 1);
	} else {
		s.bytes = bytes;
	}
	*ret = s;
	return 0;
}

int rule_size_resolve(const struct rule_size *s, const struct rule_base *base, uint64_t *ret_bytes)
{
	if (s->kind == RULE_SIZE_BYTES) {
		*ret_bytes = s->bytes;
		return 0;
	}
	if (!base->ram_bytes)
		return -ENODATA;
	if (s->kind == RULE_SIZE_PERCENT)
		return size_parse(s->percent, base->ram_bytes, ret_bytes);
	*ret_bytes = hostmem_auto_limit(base->ram_bytes, base->swap_bytes);
	return 0;
}

bool rule_size_is_less(const struct rule_size *a, const struct rule_size *b)
{
	/* so large that percentages differ in bytes if they differ at all */
	static const struct rule_base whole = { .ram_bytes = UINT64_MAX };
	uint64_t a_bytes, b_bytes;

	return a->kind == b->kind && a->kind != RULE_SIZE_AUTO &&
	       !rule_size_resolve(a, &whole, &a_bytes) && !rule_size_resolve(b, &whole, &b_bytes) &&
	       a_bytes < b_bytes;
}

const char *rule_size_format(const struct rule_size *s, char buf[static RULE_PERCENT_BYTES])
{
	if (s->kind == RULE_SIZE_AUTO)
		return "auto";
	if (s->kind == RULE_SIZE_PERCENT)
		return s->percent;
	if (s->bytes == SIZE_UNLIMITED)
		return "infinity";
	snprintf(buf, RULE_PERCENT_BYTES, "%" PRIu64, s->bytes);
	return buf;
}

void rule_done(struct rule *rule)
{
	for (size_t i = 0; i < rule->glob_count; i++)
		glob_free(rule->globs[i]);
	free(rule->globs);
	free(rule->match);
	free(rule->source);
}

void rules_done(struct rules *rules)
{
	for (size_t i = 0; i < rules->count; i++)
		rule_done(&rules->list[i]);
	free(rules->list);
}

const struct rule *rules_find(const struct rules *rules, const char *cgpath)
{
	for (size_t i = rules->count; i--;) {
		const struct rule *rule = &rules->list[i];

		for (size_t j = 0; j < rule->glob_count; j++)
			if (glob_matches(rule->globs[j], cgpath))
				return rule;
	}
	return NULL;
}

int rule_resolve(const struct rule *rule, const struct rule_base *base, struct rule_sizes *ret)
{
	struct rule_sizes s;

	if (rule_size_resolve(&rule->limit, base, &s.limit_bytes) ||
	    rule_size_resolve(&rule->high, base, &s.high_bytes) ||
	    rule_size_resolve(&rule->min, base, &s.min_bytes))
		return -ENODATA;
	if (s.high_bytes != SIZE_UNLIMITED)
		s.high_bytes = MIN(s.high_bytes, s.limit_bytes);
	s.min_bytes = MIN(s.min_bytes, MIN(s.high_bytes, s.limit_bytes));
	*ret = s;
	return 0;
}
