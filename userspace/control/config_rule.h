/* SPDX-License-Identifier: MIT */
/* One entry of `budgets:`, from text to a rule. Internal to config*.c. */
#ifndef PINCAP_CONFIG_RULE_H
#define PINCAP_CONFIG_RULE_H

#include "userspace/common/cgrules.h"
#include "userspace/control/config_schema.h"
#include "userspace/control/config_word.h"

/* The host's cgrules.conf, read when a rule first needs it. */
struct config_hosts {
	struct cgrules rules;
	bool known;
};

/* A size that is not `auto`, nor infinity unless `may_be_infinite`. */
int config_size_parse(const struct config_doc *doc, const char *path, const char *text,
		      bool may_be_auto, bool may_be_infinite, struct rule_size *ret);

/* One word of a set. NULL: the key is not given, *ret stays as it is. */
int config_choice_parse(const struct config_doc *doc, const char *path, const char *text,
			const struct config_word *words, int *ret);

/* -EINVAL: doc->error is set. *ret is untouched on failure. */
int config_rule_parse(const struct config_doc *doc, const struct config_raw_rule *raw,
		      unsigned int index, struct config_hosts *hosts, struct rule *ret);

#endif
