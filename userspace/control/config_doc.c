/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <yaml.h>

#include "userspace/common/util.h"
#include "userspace/control/config_doc.h"

/* Four levels are in use. libyaml's time is quadratic in the depth of brackets. */
#define DEPTH_MAX 8

/* Longer than any key; a path is at most DEPTH_MAX of them. */
#define KEY_BYTES_MAX 64
#define PATH_BYTES    (DEPTH_MAX * (KEY_BYTES_MAX + 16))

/* CONFIG_RULES_MAX rules with every key and a few rungs. */
#define MARKS_MAX 100000

struct config_mark {
	char *path;
	unsigned int line;
};

/* A mapping or a list that is open. */
struct frame {
	size_t path_len; /* of its own path */
	size_t index;	 /* list: of the next entry */
	bool mapping;
	bool at_value; /* mapping: a key was read */
};

struct walk {
	struct config_doc *doc;
	yaml_parser_t parser;
	struct frame stack[DEPTH_MAX];
	size_t depth;
	char path[PATH_BYTES]; /* of the key or entry that is being read */
	size_t marks_size;
	unsigned int documents;
};

int config_fail_at(struct config_error *error, int err, const char *file, unsigned int line,
		   const char *path, const char *fmt, ...)
{
	size_t size = sizeof(error->text);
	int len;
	va_list ap;

	if (line)
		len = snprintf(error->text, size, "%s:%u: %s: ", file, line, path);
	else
		len = snprintf(error->text, size, "%s: ", file);
	if (len >= 0 && (size_t)len < size) {
		va_start(ap, fmt);
		vsnprintf(error->text + len, size - (size_t)len, fmt, ap);
		va_end(ap);
	}
	for (char *p = error->text; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = '?';
	return err;
}

int config_fail_memory(struct config_error *error, const char *file)
{
	return config_fail_at(error, -ENOMEM, file, 0, "", "out of memory; try again");
}

/* What an error with this path is called in the message. */
static const char *shown(const char *path)
{
	return *path ? path : "top level";
}

static int fail_here(struct walk *w, const yaml_event_t *event, const char *text)
{
	return config_fail_at(w->doc->error, -EINVAL, w->doc->file,
			      (unsigned int)event->start_mark.line + 1, shown(w->path), "%s", text);
}

static int add_mark(struct walk *w, const yaml_event_t *event)
{
	struct config_doc *doc = w->doc;
	struct config_mark *m;

	if (doc->count == MARKS_MAX)
		return fail_here(w, event, "is one key too many; make the file smaller");
	if (doc->count == w->marks_size) {
		w->marks_size = w->marks_size ? 2 * w->marks_size : 64;
		m = reallocarray(doc->marks, w->marks_size, sizeof(*m));
		if (!m)
			return -ENOMEM;
		doc->marks = m;
	}
	m = &doc->marks[doc->count];
	m->line = (unsigned int)event->start_mark.line + 1;
	m->path = strdup(w->path);
	if (!m->path)
		return -ENOMEM;
	doc->count++;
	return 0;
}

static struct frame *top(struct walk *w)
{
	return w->depth ? &w->stack[w->depth - 1] : NULL;
}

static int on_key(struct walk *w, const yaml_event_t *event)
{
	struct frame *f = top(w);
	const char *key;
	size_t len;

	w->path[f->path_len] = '\0';
	if (event->type != YAML_SCALAR_EVENT)
		return fail_here(w, event, "has a key that is not a word; write 'key: value'");
	key = (const char *)event->data.scalar.value;
	len = event->data.scalar.length;
	if (len > KEY_BYTES_MAX || strlen(key) != len)
		return fail_here(w, event, "has a key that is too long or not text; remove it");
	snprintf(w->path + f->path_len, sizeof(w->path) - f->path_len, "%s%s",
		 f->path_len ? "." : "", key);
	f->at_value = true;
	return add_mark(w, event);
}

static int open_frame(struct walk *w, const yaml_event_t *event)
{
	if (w->depth == DEPTH_MAX)
		return fail_here(w, event, "is nested too deeply; no key needs that");
	w->stack[w->depth++] = (struct frame){
		.path_len = strlen(w->path),
		.mapping = event->type == YAML_MAPPING_START_EVENT,
	};
	return 0;
}

static int on_value(struct walk *w, const yaml_event_t *event)
{
	struct frame *f = top(w);
	bool scalar = event->type == YAML_SCALAR_EVENT;
	int err;

	if (!f) {
		w->doc->empty = scalar && !event->data.scalar.length;
	} else if (f->mapping) {
		f->at_value = false;
	} else {
		snprintf(w->path + f->path_len, sizeof(w->path) - f->path_len, "[%zu]", f->index++);
		err = add_mark(w, event);
		if (err)
			return err;
	}
	if (!scalar)
		return open_frame(w, event);
	if (strlen((const char *)event->data.scalar.value) != event->data.scalar.length)
		return fail_here(w, event, "has a NUL character in its value; remove it");
	return 0;
}

static const char *node_fault(const yaml_event_t *event)
{
	const yaml_char_t *anchor = NULL, *tag = NULL;

	switch (event->type) {
	case YAML_ALIAS_EVENT:
		return "is an alias ('*name'), which is not accepted; write the value itself";
	case YAML_SCALAR_EVENT:
		anchor = event->data.scalar.anchor;
		tag = event->data.scalar.tag;
		break;
	case YAML_SEQUENCE_START_EVENT:
		anchor = event->data.sequence_start.anchor;
		tag = event->data.sequence_start.tag;
		break;
	case YAML_MAPPING_START_EVENT:
		anchor = event->data.mapping_start.anchor;
		tag = event->data.mapping_start.tag;
		break;
	default:
		break;
	}
	if (anchor)
		return "has an anchor ('&name'), which is not accepted; remove it";
	return tag ? "has a tag ('!name'), which is not accepted; remove it" : NULL;
}

/* A key, a value, or the start of one. */
static int on_node(struct walk *w, const yaml_event_t *event)
{
	const char *fault = node_fault(event);

	if (fault)
		return fail_here(w, event, fault);
	if (w->depth && top(w)->mapping && !top(w)->at_value)
		return on_key(w, event);
	return on_value(w, event);
}

static int on_event(struct walk *w, const yaml_event_t *event)
{
	switch (event->type) {
	case YAML_DOCUMENT_START_EVENT:
		w->path[0] = '\0';
		if (w->documents++)
			return fail_here(w, event,
					 "a second document begins; put it into a file of its own");
		return 0;
	case YAML_ALIAS_EVENT:
	case YAML_SCALAR_EVENT:
	case YAML_SEQUENCE_START_EVENT:
	case YAML_MAPPING_START_EVENT:
		return on_node(w, event);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		w->path[w->stack[--w->depth].path_len] = '\0';
		return 0;
	default:
		return 0;
	}
}

/* The line of a byte of the text, from 1. */
static unsigned int line_of(const struct config_doc *doc, size_t offset)
{
	unsigned int line = 1;

	for (size_t i = 0; i < MIN(offset, doc->len); i++)
		line += doc->text[i] == '\n';
	return line;
}

static bool line_has_tab(const struct config_doc *doc, unsigned int line)
{
	const char *p = doc->text, *end = p + doc->len;

	for (; line > 1 && p < end; p++)
		line -= *p == '\n';
	for (; p < end && *p != '\n'; p++)
		if (*p == '\t')
			return true;
	return false;
}

static int fail_parser(struct walk *w)
{
	const yaml_parser_t *p = &w->parser;
	unsigned int line = (unsigned int)p->problem_mark.line + 1;
	unsigned int since = (unsigned int)p->context_mark.line + 1;
	char context[128] = "";

	if (p->error == YAML_MEMORY_ERROR)
		return -ENOMEM;
	if (p->error == YAML_READER_ERROR) /* it reads ahead of the keys */
		return config_fail_at(w->doc->error, -EINVAL, w->doc->file,
				      line_of(w->doc, p->problem_offset), shown(""),
				      "not text: %s; give a YAML file in UTF-8", p->problem);
	if (p->context && since != line)
		snprintf(context, sizeof(context), " (%s that began in line %u)", p->context,
			 since);
	return config_fail_at(w->doc->error, -EINVAL, w->doc->file, line, shown(w->path),
			      "not YAML: %s%s; %s", p->problem, context,
			      line_has_tab(w->doc, line)
				      ? "indent with spaces, not with tabs"
				      : "check the indentation, quotes, brackets and colons above");
}

static int walk(struct walk *w)
{
	yaml_event_t event;
	yaml_event_type_t type = YAML_NO_EVENT;
	int err = 0;

	while (!err && type != YAML_STREAM_END_EVENT) {
		if (!yaml_parser_parse(&w->parser, &event))
			return fail_parser(w);
		type = event.type;
		err = on_event(w, &event);
		yaml_event_delete(&event);
	}
	return err;
}

static int by_path(const void *a, const void *b)
{
	const struct config_mark *x = a, *y = b;
	int order = strcmp(x->path, y->path);

	return order ? order : (x->line > y->line) - (x->line < y->line);
}

int config_doc_init(struct config_doc *doc, const char *file, const char *text, size_t len,
		    struct config_error *error)
{
	struct walk w = { .doc = doc };
	int err;

	*doc = (struct config_doc){ .file = file, .text = text, .len = len, .error = error };
	if (!yaml_parser_initialize(&w.parser))
		return config_fail_memory(error, file);
	yaml_parser_set_input_string(&w.parser, (const unsigned char *)text, len);
	err = walk(&w);
	yaml_parser_delete(&w.parser);
	if (err == -ENOMEM)
		config_fail_memory(error, file);
	if (err) {
		config_doc_done(doc);
		return err;
	}
	doc->empty |= !w.documents;
	if (doc->count)
		qsort(doc->marks, doc->count, sizeof(doc->marks[0]), by_path);
	return 0;
}

void config_doc_done(struct config_doc *doc)
{
	for (size_t i = 0; i < doc->count; i++)
		free(doc->marks[i].path);
	free(doc->marks);
	doc->marks = NULL;
	doc->count = 0;
}

unsigned int config_doc_line(const struct config_doc *doc, const char *path, unsigned int nth)
{
	size_t low = 0, high = doc->count;

	if (!*path) /* the whole begins at the top */
		return nth ? 0 : 1;
	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(doc->marks[middle].path, path) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	low += nth;
	return low < doc->count && streq(doc->marks[low].path, path) ? doc->marks[low].line : 0;
}

bool config_doc_has(const struct config_doc *doc, const char *path)
{
	return config_doc_line(doc, path, 0) != 0;
}

/* The line of the path, or of the nearest path above it. */
static unsigned int nearest_line(const struct config_doc *doc, const char *path)
{
	char above[PATH_BYTES];
	unsigned int line;

	snprintf(above, sizeof(above), "%s", path);
	for (;;) {
		char *dot = strrchr(above, '.'), *bracket = strrchr(above, '[');

		line = config_doc_line(doc, above, 0);
		if (line)
			return line;
		*(dot > bracket ? dot : bracket ? bracket : above) = '\0';
	}
}

int config_fail(const struct config_doc *doc, const char *path, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return config_fail_at(doc->error, -EINVAL, doc->file, nearest_line(doc, path), shown(path),
			      "%s", text);
}
