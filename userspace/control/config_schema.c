/* SPDX-License-Identifier: MIT */
#include <cyaml/cyaml.h>
#include <errno.h>
#include <stdarg.h>

#include "userspace/common/util.h"
#include "userspace/control/config_schema.h"

#define VALUE_BYTES_MAX PATH_MAX

#define TEXT(type, name)                                                                           \
	CYAML_FIELD_STRING_PTR(#name, CYAML_FLAG_POINTER | CYAML_FLAG_OPTIONAL, struct type, name, \
			       0, VALUE_BYTES_MAX)

static const cyaml_schema_value_t rung_schema = { CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char, 0,
								     VALUE_BYTES_MAX) };

static const cyaml_schema_field_t rule_fields[] = {
	CYAML_FIELD_STRING_PTR("match", CYAML_FLAG_POINTER, struct config_raw_rule, match, 0,
			       VALUE_BYTES_MAX),
	TEXT(config_raw_rule, limit),
	TEXT(config_raw_rule, high),
	TEXT(config_raw_rule, min),
	TEXT(config_raw_rule, mode),
	TEXT(config_raw_rule, alloc),
	TEXT(config_raw_rule, release),
	CYAML_FIELD_SEQUENCE("on_over", CYAML_FLAG_POINTER_NULL | CYAML_FLAG_OPTIONAL,
			     struct config_raw_rule, on_over, &rung_schema, 0, RULE_RUNGS_MAX),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t rule_schema = { CYAML_VALUE_MAPPING(
	CYAML_FLAG_DEFAULT, struct config_raw_rule, rule_fields) };

static const cyaml_schema_field_t devices_fields[] = {
	TEXT(config_raw_devices, kfd),
	TEXT(config_raw_devices, drm),
	CYAML_FIELD_END,
};

static const cyaml_schema_field_t top_fields[] = {
	CYAML_FIELD_SEQUENCE("budgets", CYAML_FLAG_POINTER_NULL | CYAML_FLAG_OPTIONAL,
			     struct config_raw, budgets, &rule_schema, 0, CONFIG_RULES_MAX),
	CYAML_FIELD_MAPPING_PTR("devices", CYAML_FLAG_POINTER_NULL | CYAML_FLAG_OPTIONAL,
				struct config_raw, devices, devices_fields),
	TEXT(config_raw, reserve),
	TEXT(config_raw, tick),
	TEXT(config_raw, hysteresis),
	TEXT(config_raw, dwell),
	TEXT(config_raw, release_timeout),
	TEXT(config_raw, release_cooldown),
	TEXT(config_raw, notify_socket),
	TEXT(config_raw, control_socket),
	TEXT(config_raw, group),
	TEXT(config_raw, log),
	TEXT(config_raw, dry_run),
	CYAML_FIELD_END,
};

static const cyaml_schema_value_t top_schema = { CYAML_VALUE_MAPPING(
	CYAML_FLAG_POINTER, struct config_raw, top_fields) };

/*
 * What libcyaml logs about its first fault: one line that says what, then where, from
 * the inside out:
 *   Load: Unexpected key: limti
 *   Load: Backtrace:
 *     in mapping (line: 3, column: 5)
 *     in sequence entry '1' (line: 2, column: 3)
 *     in mapping field 'budgets' (line: 1, column: 1)
 */
struct trace {
	char what[256];
	char path[256];
	bool inner_is_field; /* the innermost place is a key, not a mapping as a whole */
	unsigned int places;
};

static void prepend(struct trace *t, const char *step)
{
	char path[sizeof(t->path)];
	bool joined = !*t->path || *t->path == '[';

	snprintf(path, sizeof(path), "%s%s%.*s", step, joined ? "" : ".",
		 (int)(sizeof(path) - strlen(step) - 2), t->path);
	memcpy(t->path, path, sizeof(path));
}

static void on_log(cyaml_log_t level, void *ctx, const char *fmt, va_list ap)
{
	struct trace *t = ctx;
	char line[sizeof(t->what)], step[100];
	unsigned int entry;

	(void)level;
	vsnprintf(line, sizeof(line), fmt, ap);
	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, " in mapping field '%99[^']'", step) == 1) {
		t->inner_is_field |= !t->places++;
		prepend(t, step);
	} else if (sscanf(line, " in sequence entry '%u'", &entry) == 1) {
		/* counted before it is read: from 1 */
		snprintf(step, sizeof(step), "[%u]", entry - 1);
		t->places++;
		prepend(t, step);
	} else if (!strncmp(line, "  in mapping", strlen("  in mapping"))) {
		t->places++;
	} else if (!*t->what) {
		snprintf(t->what, sizeof(t->what), "%s", line);
	}
}

/* Steps back from a key to what it is in. */
static void cut_key(char *path)
{
	char *dot = strrchr(path, '.');

	*(dot ? dot : path) = '\0';
}

static void append_key(struct trace *t, const char *key)
{
	size_t len = strlen(t->path);

	snprintf(t->path + len, sizeof(t->path) - len, "%s%s", len ? "." : "", key);
}

static const cyaml_schema_field_t *fields_at(const char *path)
{
	if (!strncmp(path, "budgets[", strlen("budgets[")))
		return rule_fields;
	return !strncmp(path, "devices", strlen("devices")) ? devices_fields : top_fields;
}

static int fail_unknown(const struct config_doc *doc, struct trace *t, const char *key)
{
	char known[512] = "";
	size_t len = 0;

	for (const cyaml_schema_field_t *f = fields_at(t->path); f->key; f++)
		len += (size_t)snprintf(known + len, sizeof(known) - len, "%s%s", len ? ", " : "",
					f->key);
	append_key(t, key);
	return config_fail(doc, t->path, "there is no such key; there are %s", known);
}

static int fail_twice(const struct config_doc *doc, const struct trace *t)
{
	return config_fail_at(doc->error, -EINVAL, doc->file, config_doc_line(doc, t->path, 1),
			      t->path, "is given for the second time; first in line %u, keep one",
			      config_doc_line(doc, t->path, 0));
}

static int fail_kind(const struct config_doc *doc, const struct trace *t, const char *expected)
{
	if (!strncmp(expected, "STRING", strlen("STRING")))
		return config_fail(doc, t->path, "must be one value, as in 'key: value'");
	if (!strncmp(expected, "SEQUENCE", strlen("SEQUENCE")))
		return config_fail(doc, t->path,
				   "must be a list, each entry in a line that begins with '- '");
	return config_fail(doc, t->path, "must have keys, as in 'key: value'");
}

/* Said of the last entry there may be. */
static int fail_many(const struct config_doc *doc, struct trace *t, const char *what)
{
	char *bracket = strrchr(t->path, '[');

	if (bracket)
		*bracket = '\0';
	return config_fail(doc, t->path, "has more than %u entries; remove some",
			   (unsigned int)strtoul(what, NULL, 10));
}

/* What follows `text` in libcyaml's words, or NULL. */
static const char *after(const struct trace *t, const char *text)
{
	size_t len = strlen(text);

	return strncmp(t->what, text, len) ? NULL : t->what + len;
}

static int translate(const struct config_doc *doc, struct trace *t, cyaml_err_t err)
{
	const char *rest;

	if (err == CYAML_ERR_OOM)
		return config_fail_memory(doc->error, doc->file);
	rest = after(t, "Load: Unexpected key: ");
	if (rest)
		return fail_unknown(doc, t, rest);
	if (after(t, "Load: Mapping field already seen: "))
		return fail_twice(doc, t);
	rest = after(t, "Load: Expecting ");
	if (rest)
		return fail_kind(doc, t, rest);
	rest = after(t, "Load: Missing required mapping field: ");
	if (rest) {
		if (t->inner_is_field) /* the last key that is there */
			cut_key(t->path);
		append_key(t, rest);
		return config_fail(doc, t->path, "is missing; every rule needs it");
	}
	rest = after(t, "Load: Excessive entries (");
	if (rest) {
		return fail_many(doc, t, rest);
	}
	if (after(t, "Load: STRING length > "))
		return config_fail(doc, t->path, "is longer than %u bytes; shorten it",
				   VALUE_BYTES_MAX);
	return config_fail(doc, t->path, "%s: %s; correct it", cyaml_strerror(err), t->what);
}

static cyaml_config_t config_for(struct trace *t)
{
	return (cyaml_config_t){
		.log_fn = on_log,
		.log_ctx = t,
		.log_level = CYAML_LOG_WARNING,
		.mem_fn = cyaml_mem,
		.flags = CYAML_CFG_NO_ALIAS,
	};
}

int config_schema_load(const struct config_doc *doc, struct config_raw **ret)
{
	struct trace t = { 0 };
	cyaml_config_t config = config_for(&t);
	cyaml_data_t *data = NULL;
	cyaml_err_t err;

	if (!doc->empty) {
		err = cyaml_load_data((const uint8_t *)doc->text, doc->len, &config, &top_schema,
				      &data, NULL);
		if (err != CYAML_OK)
			return translate(doc, &t, err);
	}
	*ret = data;
	return 0;
}

struct config_raw *config_schema_free(struct config_raw *raw)
{
	struct trace t = { 0 };
	cyaml_config_t config = config_for(&t);

	cyaml_free(&config, &top_schema, raw, 0);
	return NULL;
}
