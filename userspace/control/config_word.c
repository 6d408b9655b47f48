/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>

#include "userspace/common/log.h"
#include "userspace/common/util.h"
#include "userspace/control/config_word.h"

#define SECOND_MS 1000U

/* An opt-in rung that came at once would strike a workload that is over for the
 * moment of a migration; one after days is a slip. */
#define AFTER_MS_MIN SECOND_MS
#define AFTER_MS_MAX (24 * 3600 * SECOND_MS)

const struct config_word config_modes[] = {
	{ "enforce", RULE_ENFORCE },
	{ "observe", RULE_OBSERVE },
	{ 0 },
};

const struct config_word config_allocs[] = {
	{ "refuse", RULE_ALLOC_REFUSE },
	{ "pageable", RULE_ALLOC_PAGEABLE },
	{ "pass", RULE_ALLOC_PASS },
	{ 0 },
};

const struct config_word config_releases[] = {
	{ "cooperative", RULE_RELEASE_COOPERATIVE },
	{ "transparent", RULE_RELEASE_TRANSPARENT },
	{ "none", RULE_RELEASE_NONE },
	{ 0 },
};

const struct config_word config_logs[] = {
	{ "error", LOG_LEVEL_ERROR },
	{ "warning", LOG_LEVEL_WARNING },
	{ "info", LOG_LEVEL_INFO },
	{ "debug", LOG_LEVEL_DEBUG },
	{ 0 },
};

const struct config_word config_bools[] = {
	{ "false", 0 },
	{ "true", 1 },
	{ 0 },
};

static const struct config_word units[] = {
	{ "ms", 1 }, { "s", SECOND_MS }, { "min", 60 * SECOND_MS }, { "h", 3600 * SECOND_MS },
	{ 0 },
};

static const struct config_word rungs[] = {
	{ "log", RULE_RUNG_LOG },	{ "event", RULE_RUNG_EVENT },
	{ "signal", RULE_RUNG_SIGNAL }, { "freeze", RULE_RUNG_FREEZE },
	{ "kill", RULE_RUNG_KILL },	{ 0 },
};

int config_word_parse(const struct config_word *words, const char *text, int *ret)
{
	for (; words->text; words++) {
		if (streq(words->text, text)) {
			*ret = words->value;
			return 0;
		}
	}
	return -EINVAL;
}

const char *config_word_str(const struct config_word *words, int value)
{
	while (words->text && words->value != value)
		words++;
	return words->text;
}

const char *config_word_list(const struct config_word *words, char *buf, size_t size)
{
	size_t len = 0;

	for (const struct config_word *w = words; w->text && len < size; w++)
		len += (size_t)snprintf(buf + len, size - len, "%s%s",
					w == words	? ""
					: (w + 1)->text ? ", "
							: " or ",
					w->text);
	return buf;
}

/* Reads digits and steps over them. */
static int number_parse(const char **text, uint32_t *ret)
{
	const char *p = *text;
	uint32_t n = 0;
	bool over = false;

	if (*p < '0' || *p > '9')
		return -EINVAL;
	for (; *p >= '0' && *p <= '9'; p++)
		over |= __builtin_mul_overflow(n, 10, &n) ||
			__builtin_add_overflow(n, *p - '0', &n);
	*text = p;
	*ret = n;
	return over ? -ERANGE : 0;
}

int config_duration_parse(const char *text, uint32_t *ret_ms)
{
	uint32_t n = 0;
	int unit, err;

	err = number_parse(&text, &n);
	if (err == -EINVAL || config_word_parse(units, text, &unit))
		return -EINVAL;
	if (err || __builtin_mul_overflow(n, unit, &n))
		return -ERANGE;
	*ret_ms = n;
	return 0;
}

const char *config_duration_format(uint32_t ms, char buf[static CONFIG_DURATION_BYTES])
{
	const struct config_word *unit = units;

	for (const struct config_word *u = units; u->text; u++)
		if (ms && ms % (uint32_t)u->value == 0)
			unit = u;
	snprintf(buf, CONFIG_DURATION_BYTES, "%" PRIu32 "%s", ms / (uint32_t)unit->value,
		 unit->text);
	return buf;
}

int config_percent_parse(const char *text, unsigned int *ret)
{
	uint32_t n = 0;
	int err = number_parse(&text, &n);

	if (err == -EINVAL || !streq(text, "%"))
		return -EINVAL;
	if (err || n > 100)
		return -ERANGE;
	*ret = n;
	return 0;
}

/* By name, with "SIG" or without. KILL and STOP have rungs of their own. */
static int signal_parse(const char *name)
{
	if (!strncmp(name, "SIG", 3))
		name += 3;
	for (int i = 1; i < NSIG; i++) {
		const char *known = sigabbrev_np(i);

		if (known && streq(known, name))
			return i == SIGKILL || i == SIGSTOP ? -EINVAL : i;
	}
	return -EINVAL;
}

static const char *rung_word(const char *word, struct rule_rung *rung)
{
	char name[16];
	int kind;
	size_t len = strcspn(word, ":");

	snprintf(name, sizeof(name), "%.*s", (int)len, word);
	if (len >= sizeof(name) || config_word_parse(rungs, name, &kind) ||
	    (word[len] == ':') != (kind == RULE_RUNG_SIGNAL))
		return "is not a rung; write log, event, 'signal:NAME after 60s', "
		       "'freeze after 60s' or 'kill after 60s'";
	rung->kind = kind;
	if (kind != RULE_RUNG_SIGNAL)
		return NULL;
	rung->signal = signal_parse(word + len + 1);
	return rung->signal > 0 ? NULL
				: "names no signal that can be caught; write one like "
				  "signal:TERM, or use freeze or kill";
}

static const char *rung_after(const char *text, struct rule_rung *rung)
{
	bool at_once = rung->kind == RULE_RUNG_LOG || rung->kind == RULE_RUNG_EVENT;
	int err;

	if (at_once)
		return text ? "happens at once; remove 'after'" : NULL;
	if (!text)
		return "needs 'after TIME', as in 'kill after 60s'";
	err = config_duration_parse(text, &rung->after_ms);
	if (err == -EINVAL)
		return "has no time after 'after'; write one like 60s, 5min, 1h";
	if (err || rung->after_ms < AFTER_MS_MIN || rung->after_ms > AFTER_MS_MAX)
		return "has a time out of range; write one from 1s to 24h";
	return NULL;
}

int config_rung_parse(const char *text, struct rule_rung *ret, const char **ret_why)
{
	static const char after[] = " after ";
	struct rule_rung rung = { 0 };
	const char *time = strstr(text, after);
	char word[32];
	size_t len = time ? (size_t)(time - text) : strlen(text);

	snprintf(word, sizeof(word), "%.*s", (int)MIN(len, sizeof(word)), text);
	*ret_why = rung_word(word, &rung);
	if (!*ret_why)
		*ret_why = rung_after(time ? time + strlen(after) : NULL, &rung);
	if (*ret_why)
		return -EINVAL;
	*ret = rung;
	return 0;
}

const char *config_rung_format(const struct rule_rung *rung, char buf[static CONFIG_RUNG_BYTES])
{
	char time[CONFIG_DURATION_BYTES];
	size_t len;

	len = (size_t)snprintf(buf, CONFIG_RUNG_BYTES, "%s", config_word_str(rungs, rung->kind));
	if (rung->signal)
		len += (size_t)snprintf(buf + len, CONFIG_RUNG_BYTES - len, ":%s",
					sigabbrev_np(rung->signal));
	if (rung->after_ms)
		snprintf(buf + len, CONFIG_RUNG_BYTES - len, " after %s",
			 config_duration_format(rung->after_ms, time));
	return buf;
}
