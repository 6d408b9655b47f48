/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "userspace/common/cgroup.h"
#include "userspace/common/size.h"
#include "userspace/control/config_rule.h"
#include "userspace/control/owner.h"

#define PATH_BYTES 64

/* An entry that is being read. */
struct reader {
	const struct config_doc *doc;
	const struct config_raw_rule *raw;
	unsigned int index;
	struct config_hosts *hosts;
	struct rule rule;
	char path[PATH_BYTES];
};

static const char *path_of(struct reader *r, const char *key)
{
	snprintf(r->path, sizeof(r->path), "budgets[%u].%s", r->index, key);
	return r->path;
}

static int no_memory(const struct reader *r)
{
	return config_fail_memory(r->doc->error, r->doc->file);
}

int config_size_parse(const struct config_doc *doc, const char *path, const char *text,
		      bool may_be_auto, bool may_be_infinite, struct rule_size *ret)
{
	struct rule_size s;
	int err = rule_size_parse(text, &s);

	if (err == -ERANGE)
		return config_fail(doc, path,
				   "'%.40s' is out of range; write at most 100%% or 16383P", text);
	if (!err && s.kind == RULE_SIZE_AUTO && !may_be_auto)
		err = -EINVAL;
	if (!err && s.kind == RULE_SIZE_BYTES && s.bytes == SIZE_UNLIMITED && !may_be_infinite)
		err = -EINVAL;
	if (err)
		return config_fail(doc, path,
				   "'%.40s' is not a size for this; write one like 8G, 512M, "
				   "1.5GiB, 40%%%s%s",
				   text, may_be_infinite ? ", infinity" : "",
				   may_be_auto ? ", auto" : "");
	*ret = s;
	return 0;
}

static int read_size(struct reader *r, const char *key, const char *text, bool may_be_auto,
		     bool may_be_infinite, struct rule_size *ret)
{
	if (!text)
		return 0;
	return config_size_parse(r->doc, path_of(r, key), text, may_be_auto, may_be_infinite, ret);
}

static int fail_order(struct reader *r, const char *key, const char *text, const char *other,
		      const char *other_text)
{
	return config_fail(r->doc, path_of(r, key),
			   "'%.40s' is above %s '%.40s'; keep min <= high <= limit", text, other,
			   other_text);
}

static int read_sizes(struct reader *r)
{
	const struct config_raw_rule *raw = r->raw;
	struct rule *rule = &r->rule;
	int err;

	err = read_size(r, "limit", raw->limit, true, true, &rule->limit);
	if (!err)
		err = read_size(r, "high", raw->high, false, true, &rule->high);
	if (!err)
		err = read_size(r, "min", raw->min, false, false, &rule->min);
	if (err)
		return err;
	/* "high: infinity" is none at all */
	if (rule_size_is_less(&rule->limit, &rule->high) &&
	    !(rule->high.kind == RULE_SIZE_BYTES && rule->high.bytes == SIZE_UNLIMITED))
		return fail_order(r, "high", raw->high, "limit", raw->limit);
	if (rule_size_is_less(&rule->limit, &rule->min))
		return fail_order(r, "min", raw->min, "limit", raw->limit);
	if (rule_size_is_less(&rule->high, &rule->min))
		return fail_order(r, "min", raw->min, "high", raw->high);
	return 0;
}

int config_choice_parse(const struct config_doc *doc, const char *path, const char *text,
			const struct config_word *words, int *ret)
{
	char list[128];

	if (!text || !config_word_parse(words, text, ret))
		return 0;
	return config_fail(doc, path, "'%.40s' is not known here; write %s", text,
			   config_word_list(words, list, sizeof(list)));
}

static int read_word(struct reader *r, const char *key, const char *text,
		     const struct config_word *words, int *ret)
{
	return config_choice_parse(r->doc, path_of(r, key), text, words, ret);
}

static int read_words(struct reader *r)
{
	int mode = r->rule.mode, alloc = r->rule.alloc, release = r->rule.release, err;

	err = read_word(r, "mode", r->raw->mode, config_modes, &mode);
	if (!err)
		err = read_word(r, "alloc", r->raw->alloc, config_allocs, &alloc);
	if (!err)
		err = read_word(r, "release", r->raw->release, config_releases, &release);
	r->rule.mode = mode;
	r->rule.alloc = alloc;
	r->rule.release = release;
	return err;
}

static int add_rung(struct reader *r, unsigned int i)
{
	const char *text = r->raw->on_over[i], *why;
	struct rule *rule = &r->rule;
	struct rule_rung rung;
	char key[32];

	snprintf(key, sizeof(key), "on_over[%u]", i);
	path_of(r, key);
	if (config_rung_parse(text, &rung, &why))
		return config_fail(r->doc, r->path, "'%.40s' %s", text, why);
	for (size_t j = 0; j < rule->on_over_count; j++)
		if (rule->on_over[j].kind == rung.kind && rule->on_over[j].signal == rung.signal)
			return config_fail(r->doc, r->path, "'%.40s' is there twice; keep one",
					   text);
	if (i && rung.after_ms < rule->on_over[i - 1].after_ms)
		return config_fail(r->doc, r->path,
				   "'%.40s' comes before the rung above it; put the rungs in the "
				   "order of their times",
				   text);
	if (rung.after_ms && rule->mode == RULE_OBSERVE)
		return config_fail(r->doc, r->path,
				   "'%.40s' does more than observe; remove it or write 'mode: "
				   "enforce'",
				   text);
	rule->on_over[rule->on_over_count++] = rung;
	return 0;
}

static int read_rungs(struct reader *r)
{
	int err = 0;

	if (!config_doc_has(r->doc, path_of(r, "on_over")))
		return 0;
	memset(r->rule.on_over, 0, sizeof(r->rule.on_over));
	r->rule.on_over_count = 0;
	for (unsigned int i = 0; i < r->raw->on_over_count && !err; i++)
		err = add_rung(r, i);
	return err;
}

static int add_glob(struct reader *r, const char *pattern)
{
	struct rule *rule = &r->rule;
	struct glob **globs;
	const char *why;
	int err;

	globs = reallocarray(rule->globs, rule->glob_count + 1, sizeof(struct glob *));
	if (!globs)
		return no_memory(r);
	rule->globs = globs;
	err = glob_compile(pattern, &globs[rule->glob_count], &why);
	if (err == -ENOMEM)
		return no_memory(r);
	if (err)
		return config_fail(r->doc, path_of(r, "match"), "'%.100s' %s; correct the pattern",
				   pattern, why);
	rule->glob_count++;
	return 0;
}

static int read_cgrules(struct cgrules *ret)
{
	_cleanup_free_ char *text = NULL;
	FILE *f;
	size_t len = 0;
	int err;

	f = open_memstream(&text, &len);
	if (!f)
		return -errno;
	err = cgroup_print_rules(f);
	if (fclose(f) && !err)
		err = -ENOMEM;
	if (err || !len)
		return err;
	f = fmemopen(text, len, "r");
	if (!f)
		return -errno;
	err = cgrules_parse(f, ret);
	fclose(f);
	return err;
}

static int want_cgrules(struct reader *r)
{
	int err = r->hosts->known ? 0 : read_cgrules(&r->hosts->rules);

	if (err == -ENOMEM)
		return no_memory(r);
	if (err && err != -ENOENT)
		return config_fail(r->doc, path_of(r, "match"),
				   "needs /etc/cgrules.conf, which libcgroup cannot read; correct "
				   "or remove that file");
	r->hosts->known = true;
	return 0;
}

static int read_owner(struct reader *r, bool is_group, const char *name)
{
	struct owner_patterns p = { 0 };
	id_t id;
	int err = is_group ? owner_group_parse(name, &id) : owner_user_parse(name, &id);

	if (err)
		return config_fail(r->doc, path_of(r, "match"),
				   "there is no %s '%.40s'; write the name or number of one",
				   is_group ? "group" : "user", name);
	if (asprintf(&r->rule.match, "%s:%u", is_group ? "group" : "user", id) < 0) {
		r->rule.match = NULL;
		return no_memory(r);
	}
	err = want_cgrules(r);
	if (err)
		return err;
	err = is_group ? owner_group_patterns(&r->hosts->rules, id, &p)
		       : owner_user_patterns(&r->hosts->rules, id, &p);
	if (err == -E2BIG)
		return config_fail(r->doc, path_of(r, "match"),
				   "'%.40s' has too many cgroups; write patterns instead", name);
	if (err)
		return no_memory(r);
	for (size_t i = 0; i < p.count && !err; i++)
		err = add_glob(r, p.list[i]);
	owner_patterns_done(&p);
	return err;
}

static int read_match(struct reader *r)
{
	const char *text = r->raw->match;

	if (!strncmp(text, "user:", 5))
		return read_owner(r, false, text + 5);
	if (!strncmp(text, "group:", 6))
		return read_owner(r, true, text + 6);
	if (*text != '/')
		return config_fail(r->doc, path_of(r, "match"),
				   "'%.40s' is no pattern; write a cgroup path that begins with "
				   "'/', user:NAME or group:NAME",
				   text);
	r->rule.match = strdup(text);
	return r->rule.match ? add_glob(r, text) : no_memory(r);
}

int config_rule_parse(const struct config_doc *doc, const struct config_raw_rule *raw,
		      unsigned int index, struct config_hosts *hosts, struct rule *ret)
{
	struct reader r = {
		.doc = doc,
		.raw = raw,
		.index = index,
		.hosts = hosts,
		.rule = rule_default,
	};
	int err;

	err = read_match(&r);
	if (!err)
		err = read_sizes(&r);
	if (!err)
		err = read_words(&r);
	if (!err)
		err = read_rungs(&r);
	if (!err && asprintf(&r.rule.source, "%s:%u", doc->file,
			     config_doc_line(doc, path_of(&r, "match"), 0)) < 0) {
		r.rule.source = NULL;
		err = no_memory(&r);
	}
	if (err)
		rule_done(&r.rule);
	else
		*ret = r.rule;
	return err;
}
