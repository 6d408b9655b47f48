/* SPDX-License-Identifier: MIT */
#include "userspace/control/config.h"
#include "userspace/control/config_word.h"

/* As YAML in single quotes, in which nothing but the quote itself is special. */
static void put_text(FILE *f, const char *text)
{
	fputc('\'', f);
	for (; *text; text++)
		fprintf(f, *text == '\'' ? "''" : "%c", *text);
	fputs("'\n", f);
}

static void put_key_text(FILE *f, const char *key, const char *text)
{
	if (!text)
		return;
	fprintf(f, "%s: ", key);
	put_text(f, text);
}

static void put_size(FILE *f, const char *key, const struct rule_size *s)
{
	char buf[RULE_PERCENT_BYTES];

	fprintf(f, "%s: %s\n", key, rule_size_format(s, buf));
}

static void put_duration(FILE *f, const char *key, uint32_t ms)
{
	char buf[CONFIG_DURATION_BYTES];

	fprintf(f, "%s: %s\n", key, config_duration_format(ms, buf));
}

static void put_rule(FILE *f, const struct rule *rule)
{
	char buf[CONFIG_RUNG_BYTES];

	put_key_text(f, "  - match", rule->match);
	put_size(f, "    limit", &rule->limit);
	put_size(f, "    high", &rule->high);
	put_size(f, "    min", &rule->min);
	fprintf(f, "    mode: %s\n", config_word_str(config_modes, rule->mode));
	fprintf(f, "    alloc: %s\n", config_word_str(config_allocs, rule->alloc));
	fprintf(f, "    release: %s\n", config_word_str(config_releases, rule->release));
	fputs("    on_over: [", f);
	for (size_t i = 0; i < rule->on_over_count; i++)
		fprintf(f, "%s%s", i ? ", " : "", config_rung_format(&rule->on_over[i], buf));
	fputs("]\n", f);
}

void config_print(const struct config *c, FILE *f)
{
	put_size(f, "reserve", &c->reserve);
	put_duration(f, "tick", c->tick_ms);
	fprintf(f, "hysteresis: %u%%\n", c->hysteresis_percent);
	put_duration(f, "dwell", c->dwell_ms);
	put_duration(f, "release_timeout", c->release_timeout_ms);
	put_duration(f, "release_cooldown", c->release_cooldown_ms);
	put_key_text(f, "notify_socket", c->notify_socket);
	put_key_text(f, "control_socket", c->control_socket);
	if (c->group)
		fprintf(f, "group: %u\n", c->gid);
	if (c->kfd || c->drm)
		fputs("devices:\n", f);
	put_key_text(f, "  kfd", c->kfd);
	put_key_text(f, "  drm", c->drm);
	fprintf(f, "log: %s\n", config_word_str(config_logs, c->log));
	fprintf(f, "dry_run: %s\n", config_word_str(config_bools, c->dry_run));
	fputs("budgets:\n", f);
	for (size_t i = 0; i < c->rules.count; i++)
		put_rule(f, &c->rules.list[i]);
}
