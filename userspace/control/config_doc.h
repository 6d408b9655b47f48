/* SPDX-License-Identifier: MIT */
/*
 * Where each key of a YAML file stands. libcyaml 1.3.1 reads values into structs but
 * names the wrong line for an unknown or repeated key (that of the value before)
 * and none at all where the file is not YAML, or for what is wrong with a value that
 * it accepted. So libyaml, which libcyaml itself reads with, goes over the text once
 * before it, notes the line of every key, and refuses what no configuration needs:
 * anchors and aliases (which can be bombs), tags, deep nesting, several documents.
 *
 * A key is written as a path: "tick", "budgets[2].limit", "" for the whole.
 */
#ifndef PINCAP_CONFIG_DOC_H
#define PINCAP_CONFIG_DOC_H

#include "userspace/control/config.h"

struct config_mark;

struct config_doc {
	const char *file; /* not ours */
	const char *text;
	size_t len;
	struct config_mark *marks; /* sorted by path, then by line */
	size_t count;
	bool empty; /* no document, or one without content */
	struct config_error *error;
};

/* `text` and `file` must outlive the doc. -EINVAL: *error is set, doc is empty. */
int config_doc_init(struct config_doc *doc, const char *file, const char *text, size_t len,
		    struct config_error *error);
void config_doc_done(struct config_doc *doc);

/* The line (from 1) of the nth (from 0) key with this path; 0: there is none. */
unsigned int config_doc_line(const struct config_doc *doc, const char *path, unsigned int nth);

/* Whether the key is given, if with an empty value. */
bool config_doc_has(const struct config_doc *doc, const char *path);

/* Set the error and return `err`. `path` may name a key that is not there (a required
 * one): the line is then that of the nearest one above it. */
int config_fail(const struct config_doc *doc, const char *path, const char *fmt, ...)
	_printf_(3, 4);

/* The same with a line; 0: of the file as a whole, `path` is not shown. Any file. */
int config_fail_at(struct config_error *error, int err, const char *file, unsigned int line,
		   const char *path, const char *fmt, ...) _printf_(6, 7);

/* -ENOMEM, said of the file as a whole. */
int config_fail_memory(struct config_error *error, const char *file);

#endif
