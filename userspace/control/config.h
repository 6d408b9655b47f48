/* SPDX-License-Identifier: MIT */
/*
 * The daemon's configuration: one YAML file and the drop-ins in the directory
 * FILE.d beside it (*.yaml, in the order of their names). Knows files and the
 * words in them; what is done with them is the daemon's business. configs/pincap.yaml
 * shows every key.
 *
 * All or nothing: a file with a fault anywhere gives one error and no
 * configuration. What is silently wrong elsewhere is an error here: unknown keys,
 * keys given twice, two rules of a file with the same match, more than one
 * document, aliases and tags.
 *
 * Of several files the later one wins, key by key; its rules come after the earlier
 * ones' (rules.h: the last that matches applies), and a rule with the same match as
 * one of an earlier file takes its place at the end.
 */
#ifndef PINCAP_CONFIG_H
#define PINCAP_CONFIG_H

#include <limits.h>
#include <stdio.h>
#include <sys/types.h>

#include "userspace/common/log.h"
#include "userspace/control/rules.h"

#define CONFIG_FILE_BYTES_MAX (1U << 20)
#define CONFIG_RULES_MAX      1024

struct config {
	struct rules rules;
	struct rule_size reserve; /* never `auto` or infinity */
	uint32_t tick_ms;
	unsigned int hysteresis_percent; /* RESUME this far below the limit */
	uint32_t dwell_ms;		 /* between two signals to one library */
	uint32_t release_timeout_ms;	 /* no acknowledgement for so long: deaf */
	uint32_t release_cooldown_ms;	 /* between two release requests to one library */
	char *notify_socket;
	char *control_socket;
	char *group; /* NULL: root alone reads the counters of everybody */
	gid_t gid;   /* of `group` */
	char *kfd;   /* NULL: nothing besides /dev/kfd */
	char *drm;   /* NULL: nothing besides the render nodes of amdgpu */
	enum log_level log;
	bool dry_run;
};

/* One line, without a newline, of printable bytes: "FILE:LINE: KEY: what is wrong;
 * remedy", without LINE and KEY where the file itself cannot be read. */
struct config_error {
	char text[PATH_MAX + 1024];
};

/* Reads a file and its drop-ins. On a failure (negative errno) *ret is untouched
 * and the error is set. Silent. */
int config_load(const char *path, struct config **ret, struct config_error *error);

/* The same of one text in memory, without drop-ins. `name` is for the error. */
int config_parse(const char *name, const char *text, size_t len, struct config **ret,
		 struct config_error *error);

/* Every default and no rules: what an empty file gives. */
int config_new(struct config **ret);

struct config *config_free(struct config *c);
void config_freep(struct config **c);

/* All that is in force, defaults included, as a file that config_load reads back
 * to the same. Names of users and groups are printed as numbers. */
void config_print(const struct config *c, FILE *f);

#endif
