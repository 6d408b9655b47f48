/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/un.h>

#include "userspace/common/size.h"
#include "userspace/control/config_rule.h"
#include "userspace/control/config_file.h"
#include "userspace/control/owner.h"

/* A configuration in the making: nobody else sees it until all is read. */
struct loader {
	struct config *config;
	struct config_hosts hosts;
	struct config_error *error;
};

static const struct config config_default = {
	.tick_ms = 250,
	.hysteresis_percent = 10,
	.dwell_ms = 250,
	.release_timeout_ms = 1000,
	.release_cooldown_ms = 5000,
	.log = LOG_LEVEL_INFO,
};

int config_new(struct config **ret)
{
	_cleanup_(config_freep) struct config *c = malloc(sizeof(*c));

	if (!c)
		return -ENOMEM;
	*c = config_default;
	c->notify_socket = strdup("/run/pincap/notify.sock");
	c->control_socket = strdup("/run/pincap/control.sock");
	if (!c->notify_socket || !c->control_socket)
		return -ENOMEM;
	*ret = TAKE_PTR(c);
	return 0;
}

struct config *config_free(struct config *c)
{
	if (!c)
		return NULL;
	rules_done(&c->rules);
	free(c->notify_socket);
	free(c->control_socket);
	free(c->group);
	free(c->kfd);
	free(c->drm);
	free(c);
	return NULL;
}

void config_freep(struct config **c)
{
	config_free(*c);
}

static int replace(const struct config_doc *doc, char **to, const char *text)
{
	char *copy = strdup(text);

	if (!copy)
		return config_fail_memory(doc->error, doc->file);
	free(*to);
	*to = copy;
	return 0;
}

static int read_duration(const struct config_doc *doc, const char *key, const char *text,
			 uint32_t min_ms, uint32_t max_ms, uint32_t *ret)
{
	char min_text[CONFIG_DURATION_BYTES], max_text[CONFIG_DURATION_BYTES];
	uint32_t ms = 0;
	int err;

	if (!text)
		return 0;
	err = config_duration_parse(text, &ms);
	if (err == -EINVAL)
		return config_fail(
			doc, key,
			"'%.40s' is not a time; write a number and ms, s, min or h, like "
			"250ms",
			text);
	if (err || ms < min_ms || ms > max_ms)
		return config_fail(doc, key, "'%.40s' is out of range; write a time from %s to %s",
				   text, config_duration_format(min_ms, min_text),
				   config_duration_format(max_ms, max_text));
	*ret = ms;
	return 0;
}

static int read_durations(const struct config_doc *doc, const struct config_raw *raw,
			  struct config *c)
{
	int err;

	/* A headroom older than 5 s is ignored; an SVM range must be gone within 1 s. */
	err = read_duration(doc, "tick", raw->tick, 50, 1000, &c->tick_ms);
	if (!err)
		err = read_duration(doc, "dwell", raw->dwell, 0, 60000, &c->dwell_ms);
	if (!err)
		err = read_duration(doc, "release_timeout", raw->release_timeout, 100, 60000,
				    &c->release_timeout_ms);
	if (!err)
		err = read_duration(doc, "release_cooldown", raw->release_cooldown, 100, 3600000,
				    &c->release_cooldown_ms);
	return err;
}

static int read_hysteresis(const struct config_doc *doc, const char *text, struct config *c)
{
	unsigned int percent = 0;
	int err;

	if (!text)
		return 0;
	err = config_percent_parse(text, &percent);
	if (err == -EINVAL)
		return config_fail(doc, "hysteresis",
				   "'%.40s' is not a percentage; write one like 10%%", text);
	if (err || percent < 1 || percent > 50)
		return config_fail(doc, "hysteresis",
				   "'%.40s' is out of range; write one from 1%% to 50%%", text);
	c->hysteresis_percent = percent;
	return 0;
}

static int read_words(const struct config_doc *doc, const struct config_raw *raw, struct config *c)
{
	int level = c->log, dry_run = c->dry_run, err;

	err = config_choice_parse(doc, "log", raw->log, config_logs, &level);
	if (!err)
		err = config_choice_parse(doc, "dry_run", raw->dry_run, config_bools, &dry_run);
	c->log = level;
	c->dry_run = dry_run;
	return err;
}

static bool has_control(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			return true;
	return false;
}

static int read_path(const struct config_doc *doc, const char *key, const char *text, char **to)
{
	if (!text)
		return 0;
	if (*text != '/' || text[strlen(text) - 1] == '/' || has_control(text))
		return config_fail(doc, key,
				   "'%.40s' is not the path of a file; write one that "
				   "begins with '/'",
				   text);
	return replace(doc, to, text);
}

static int read_socket(const struct config_doc *doc, const char *key, const char *text, char **to)
{
	const struct sockaddr_un *address = NULL;

	if (text && strlen(text) >= sizeof(address->sun_path))
		return config_fail(doc, key, "is too long for a socket; write at most %zu bytes",
				   sizeof(address->sun_path) - 1);
	return read_path(doc, key, text, to);
}

static int read_sockets(const struct config_doc *doc, const struct config_raw *raw,
			struct config *c)
{
	int err;

	err = read_socket(doc, "notify_socket", raw->notify_socket, &c->notify_socket);
	if (!err)
		err = read_socket(doc, "control_socket", raw->control_socket, &c->control_socket);
	if (!err && streq(c->notify_socket, c->control_socket))
		err = config_fail(doc, raw->control_socket ? "control_socket" : "notify_socket",
				  "is the path of the other socket too; give each its own");
	return err;
}

static int read_devices(const struct config_doc *doc, const struct config_raw *raw,
			struct config *c)
{
	int err;

	if (!raw->devices)
		return 0;
	err = read_path(doc, "devices.kfd", raw->devices->kfd, &c->kfd);
	if (!err)
		err = read_path(doc, "devices.drm", raw->devices->drm, &c->drm);
	return err;
}

static int read_group(const struct config_doc *doc, const char *text, struct config *c)
{
	if (!text)
		return 0;
	if (owner_group_parse(text, &c->gid))
		return config_fail(doc, "group",
				   "there is no group '%.40s'; write the name or number of one",
				   text);
	return replace(doc, &c->group, text);
}

static int read_settings(const struct config_doc *doc, const struct config_raw *raw,
			 struct config *c)
{
	int err = 0;

	if (raw->reserve)
		err = config_size_parse(doc, "reserve", raw->reserve, false, false, &c->reserve);
	if (!err)
		err = read_durations(doc, raw, c);
	if (!err)
		err = read_hysteresis(doc, raw->hysteresis, c);
	if (!err)
		err = read_sockets(doc, raw, c);
	if (!err)
		err = read_group(doc, raw->group, c);
	if (!err)
		err = read_devices(doc, raw, c);
	if (!err)
		err = read_words(doc, raw, c);
	return err;
}

static void forget_rule(struct rules *rules, size_t i)
{
	rule_done(&rules->list[i]);
	rules->count--;
	memmove(&rules->list[i], &rules->list[i + 1], (rules->count - i) * sizeof(rules->list[0]));
}

/* `first`: of this file's own. An earlier file's rule of the same match has had its day. */
static int check_match(const struct config_doc *doc, struct rules *rules, size_t *first,
		       const struct rule *rule, unsigned int index)
{
	char path[32];

	for (size_t i = 0; i < rules->count; i++) {
		if (!streq(rules->list[i].match, rule->match))
			continue;
		if (i < *first) {
			forget_rule(rules, i);
			(*first)--;
			return 0;
		}
		snprintf(path, sizeof(path), "budgets[%u].match", index);
		return config_fail(doc, path,
				   "the rule at %.500s has the same match; merge the two",
				   rules->list[i].source);
	}
	return 0;
}

static int add_rule(struct loader *l, const struct config_doc *doc,
		    const struct config_raw_rule *raw, unsigned int index, size_t *first)
{
	struct rules *rules = &l->config->rules;
	struct rule rule, *list;
	char path[32];
	int err;

	err = config_rule_parse(doc, raw, index, &l->hosts, &rule);
	if (err)
		return err;
	err = check_match(doc, rules, first, &rule, index);
	if (!err && rules->count == CONFIG_RULES_MAX) {
		snprintf(path, sizeof(path), "budgets[%u]", index);
		err = config_fail(doc, path, "is more than %u rules in all files; remove some",
				  CONFIG_RULES_MAX);
	}
	if (!err) {
		list = reallocarray(rules->list, rules->count + 1, sizeof(*list));
		if (list) {
			rules->list = list;
			list[rules->count++] = rule;
			return 0;
		}
		err = config_fail_memory(doc->error, doc->file);
	}
	rule_done(&rule);
	return err;
}

static int add_text(struct loader *l, const char *name, const char *text, size_t len)
{
	struct config_doc doc;
	struct config_raw *raw = NULL;
	size_t first = l->config->rules.count;
	int err;

	err = config_doc_init(&doc, name, text, len, l->error);
	if (err)
		return err;
	err = config_schema_load(&doc, &raw);
	if (!err && raw)
		err = read_settings(&doc, raw, l->config);
	for (unsigned int i = 0; !err && raw && i < raw->budgets_count; i++)
		err = add_rule(l, &doc, &raw->budgets[i], i, &first);
	config_schema_free(raw);
	config_doc_done(&doc);
	return err;
}

static int add_file(const char *path, void *ctx)
{
	struct loader *l = ctx;
	_cleanup_free_ char *text = NULL;
	size_t len;
	int err = config_file_read(path, &text, &len, l->error);

	return err ? err : add_text(l, path, text, len);
}

static int begin(struct loader *l, const char *name, struct config_error *error)
{
	*l = (struct loader){ .error = error };
	return config_new(&l->config) ? config_fail_memory(error, name) : 0;
}

static int end(struct loader *l, int err, struct config **ret)
{
	cgrules_done(&l->hosts.rules);
	if (err)
		config_free(l->config);
	else
		*ret = l->config;
	return err;
}

int config_load(const char *path, struct config **ret, struct config_error *error)
{
	struct loader l;
	int err = begin(&l, path, error);

	if (!err)
		err = add_file(path, &l);
	if (!err)
		err = config_file_each_drop_in(path, add_file, &l, error);
	return end(&l, err, ret);
}

int config_parse(const char *name, const char *text, size_t len, struct config **ret,
		 struct config_error *error)
{
	struct loader l;
	int err = begin(&l, name, error);

	if (!err)
		err = add_text(&l, name, text, len);
	return end(&l, err, ret);
}
