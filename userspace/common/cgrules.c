/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>

#include "userspace/common/cgrules.h"

/* What follows `key` at the start of the line, or NULL. */
static const char *after(const char *line, const char *key)
{
	size_t len = strlen(key);

	return strncmp(line, key, len) ? NULL : line + len;
}

static int add(struct cgrules *rules, const char *who)
{
	struct cgrules_line *lines;

	lines = reallocarray(rules->lines, rules->count + 1, sizeof(*lines));
	if (!lines)
		return -ENOMEM;
	rules->lines = lines;
	lines[rules->count++] = (struct cgrules_line){
		.uid = CGRULES_NOBODY,
		.gid = CGRULES_NOBODY,
		.process = strchr(who, ':'),
		.continues = *who == '%',
	};
	return 0;
}

static int id_parse(const char *text, uid_t *ret, bool *ret_any)
{
	char *end;
	unsigned long id;

	if (streq(text, "any")) {
		*ret_any = true;
		return 0;
	}
	if (streq(text, "N/A"))
		return 0;
	errno = 0;
	id = strtoul(text, &end, 10);
	if (end == text || *end || errno || id > UINT32_MAX)
		return -EBADMSG;
	*ret = (uid_t)id;
	return 0;
}

static int parse_line(struct cgrules *rules, const char *line)
{
	struct cgrules_line *last = rules->count ? &rules->lines[rules->count - 1] : NULL;
	const char *value = after(line, "Rule: ");

	if (value)
		return add(rules, value);
	if (!last) /* "The rules table is empty." */
		return 0;
	value = after(line, "  UID: ");
	if (value)
		return id_parse(value, &last->uid, &last->everybody);
	value = after(line, "  GID: ");
	if (value)
		return id_parse(value, &last->gid, &last->everybody);
	if (after(line, "    IS_IGNORE: True"))
		last->ignore = true;
	value = after(line, "  DEST: ");
	if (!value || last->dest)
		return 0;
	last->dest = strdup(value);
	return last->dest ? 0 : -ENOMEM;
}

int cgrules_parse(FILE *f, struct cgrules *ret)
{
	struct cgrules rules = { 0 };
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	ssize_t len;
	int err = 0;

	while (!err && (len = getline(&line, &size, f)) >= 0) {
		if (len && line[len - 1] == '\n')
			line[len - 1] = '\0';
		err = parse_line(&rules, line);
	}
	for (size_t i = 0; i < rules.count && !err; i++)
		if (!rules.lines[i].dest)
			err = -EBADMSG;
	if (err) {
		cgrules_done(&rules);
		return err;
	}
	*ret = rules;
	return 0;
}

void cgrules_done(struct cgrules *rules)
{
	for (size_t i = 0; i < rules->count; i++)
		free(rules->lines[i].dest);
	free(rules->lines);
	*rules = (struct cgrules){ 0 };
}

static void put_literal(FILE *f, const char *text, size_t len)
{
	for (; len--; text++)
		fprintf(f, strchr("*?[", *text) ? "[%c]" : "%c", *text);
}

static void put_name(FILE *f, const char *name)
{
	if (name)
		put_literal(f, name, strlen(name));
	else
		fputc('*', f);
}

/* Steps over one "%x", as cgroup_change_cgroup_flags reads it. */
static void put_escape(FILE *f, char which, const struct cgrules_names *names)
{
	switch (which) {
	case 'u':
		return put_name(f, names->user);
	case 'U':
		return put_name(f, names->uid);
	case 'g':
		return put_name(f, names->group);
	case 'G':
		return put_name(f, names->gid);
	case 'p':
	case 'P':
		return put_name(f, NULL);
	default:
		fputc('%', f);
		if (which)
			put_literal(f, &which, 1);
	}
}

char *cgrules_pattern(const char *dest, const struct cgrules_names *names)
{
	char *text = NULL;
	size_t size = 0, len = strlen(dest);
	FILE *f = open_memstream(&text, &size);
	bool failed;

	if (!f)
		return NULL;
	while (len && dest[len - 1] == '/')
		len--;
	for (size_t i = 0; i < len; i++) {
		if (dest[i] != '/' && (!i || dest[i - 1] == '/'))
			fputc('/', f);
		if (dest[i] == '%') {
			i++;
			put_escape(f, i < len ? dest[i] : '\0', names);
		} else if (dest[i] != '/') {
			put_literal(f, dest + i, 1);
		}
	}
	if (!len)
		fputc('/', f);
	failed = ferror(f);
	if (fclose(f) || failed) {
		free(text);
		return NULL;
	}
	return text;
}

bool cgrules_is_per_user(const char *dest)
{
	return strstr(dest, "%u") || strstr(dest, "%U");
}
