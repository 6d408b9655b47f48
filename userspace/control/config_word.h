/* SPDX-License-Identifier: MIT */
/*
 * Single words of the configuration and what they stand for. Pure; -EINVAL for what
 * is not one, *ret is then untouched.
 */
#ifndef PINCAP_CONFIG_WORD_H
#define PINCAP_CONFIG_WORD_H

#include "userspace/control/rules.h"

/* One of a fixed set. The last one has no text. */
struct config_word {
	const char *text;
	int value;
};

extern const struct config_word config_modes[];	   /* enum rule_mode */
extern const struct config_word config_allocs[];   /* enum rule_alloc */
extern const struct config_word config_releases[]; /* enum rule_release */
extern const struct config_word config_logs[];	   /* enum log_level */
extern const struct config_word config_bools[];	   /* 0, 1 */

int config_word_parse(const struct config_word *words, const char *text, int *ret);
const char *config_word_str(const struct config_word *words, int value);

/* "a, b or c" */
const char *config_word_list(const struct config_word *words, char *buf, size_t size);

/* "250ms", "2s", "5min", "1h": a whole number and its unit. -ERANGE: above 2^32 ms. */
int config_duration_parse(const char *text, uint32_t *ret_ms);

/* In the largest unit that gives a whole number. */
#define CONFIG_DURATION_BYTES 16
const char *config_duration_format(uint32_t ms, char buf[static CONFIG_DURATION_BYTES]);

/* "10%", whole. -ERANGE: above 100. */
int config_percent_parse(const char *text, unsigned int *ret);

/*
 * One rung of on_over: "log", "event", "signal:TERM after 60s", "freeze after 5min",
 * "kill after 10min". *ret_why says what is wrong, with the remedy.
 */
int config_rung_parse(const char *text, struct rule_rung *ret, const char **ret_why);

#define CONFIG_RUNG_BYTES 48
const char *config_rung_format(const struct rule_rung *rung, char buf[static CONFIG_RUNG_BYTES]);

#endif
