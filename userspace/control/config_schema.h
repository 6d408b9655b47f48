/* SPDX-License-Identifier: MIT */
/*
 * The configuration's keys, as libcyaml reads them: structure, unknown and repeated
 * keys, required keys. Every value is still text: libcyaml takes "10x" for 10 and
 * any word but "false" and its kin for true, so words and figures are read by
 * config.c and config_rule.c.
 */
#ifndef PINCAP_CONFIG_SCHEMA_H
#define PINCAP_CONFIG_SCHEMA_H

#include "userspace/control/config_doc.h"

/* NULL: the key is not given. */
struct config_raw_rule {
	char *match;
	char *limit;
	char *high;
	char *min;
	char *mode;
	char *alloc;
	char *release;
	char **on_over;
	unsigned int on_over_count;
};

struct config_raw_devices {
	char *kfd;
	char *drm;
};

struct config_raw {
	struct config_raw_rule *budgets;
	unsigned int budgets_count;
	struct config_raw_devices *devices;
	char *reserve;
	char *tick;
	char *hysteresis;
	char *dwell;
	char *release_timeout;
	char *release_cooldown;
	char *notify_socket;
	char *control_socket;
	char *group;
	char *log;
	char *dry_run;
};

/* *ret is NULL where the doc has no keys. -EINVAL: doc->error is set. */
int config_schema_load(const struct config_doc *doc, struct config_raw **ret);
struct config_raw *config_schema_free(struct config_raw *raw);

#endif
