/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "userspace/common/cgproc.h"

/* The fields of a line that matter here; pointers into the line. */
struct entry {
	char *root;
	char *dir;
	const char *type;
	char *options; /* of the super block: v1 controllers are among them */
};

static bool is_octal(char c)
{
	return c >= '0' && c <= '7';
}

void cgproc_unescape(char *text)
{
	char *to = text;

	for (const char *p = text; *p; to++) {
		if (p[0] == '\\' && is_octal(p[1]) && is_octal(p[2]) && is_octal(p[3])) {
			*to = (char)((p[1] - '0') << 6 | (p[2] - '0') << 3 | (p[3] - '0'));
			p += 4;
		} else {
			*to = *p++;
		}
	}
	*to = '\0';
}

/* "31 22 0:27 ROOT DIR opts [optional...] - TYPE SOURCE OPTIONS" */
static bool entry_parse(char *line, struct entry *ret)
{
	char *save = NULL, *fields[5], *word;

	for (unsigned int i = 0; i < ARRAY_SIZE(fields); i++) {
		fields[i] = strtok_r(i ? NULL : line, " \n", &save);
		if (!fields[i])
			return false;
	}
	do {
		word = strtok_r(NULL, " \n", &save);
	} while (word && !streq(word, "-"));
	if (!word)
		return false;
	ret->type = strtok_r(NULL, " \n", &save);
	if (!ret->type || !strtok_r(NULL, " \n", &save))
		return false;
	ret->options = strtok_r(NULL, " \n", &save);
	ret->root = fields[3];
	ret->dir = fields[4];
	cgproc_unescape(ret->root);
	cgproc_unescape(ret->dir);
	return true;
}

static bool has_option(char *options, const char *name)
{
	char *save = NULL;

	for (char *o = strtok_r(options, ",", &save); o; o = strtok_r(NULL, ",", &save))
		if (streq(o, name))
			return true;
	return false;
}

static int keep(const struct entry *e, struct cgproc_mount *ret)
{
	struct cgproc_mount m = { strdup(e->dir), strdup(e->root) };

	if (!m.dir || !m.root) {
		cgproc_mount_done(&m);
		return -ENOMEM;
	}
	cgproc_mount_done(ret);
	*ret = m;
	return 0;
}

int cgproc_find_mount(FILE *mountinfo, const char *controller, struct cgproc_mount *ret)
{
	_cleanup_(cgproc_mount_done) struct cgproc_mount found = { 0 };
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	struct entry e;
	int err;

	while (getline(&line, &size, mountinfo) >= 0) {
		if (!entry_parse(line, &e) || !streq(e.type, controller ? "cgroup" : "cgroup2"))
			continue;
		if (controller && (!e.options || !has_option(e.options, controller)))
			continue;
		if (found.dir && !streq(e.root, "/"))
			continue;
		err = keep(&e, &found);
		if (err)
			return err;
		if (streq(e.root, "/"))
			break;
	}
	if (!found.dir)
		return -ENOENT;
	*ret = found;
	found = (struct cgproc_mount){ 0 };
	return 0;
}

int cgproc_find_dir(FILE *mountinfo, const char *dir, struct cgproc_mount *ret)
{
	_cleanup_(cgproc_mount_done) struct cgproc_mount found = { 0 };
	_cleanup_free_ char *line = NULL;
	size_t size = 0;
	struct entry e;
	int err;

	while (getline(&line, &size, mountinfo) >= 0) {
		if (!entry_parse(line, &e) || !streq(e.dir, dir))
			continue;
		err = keep(&e, &found);
		if (err)
			return err;
	}
	if (!found.dir)
		return -ENOENT;
	*ret = found;
	found = (struct cgproc_mount){ 0 };
	return 0;
}

void cgproc_mount_done(struct cgproc_mount *m)
{
	free(m->dir);
	free(m->root);
	*m = (struct cgproc_mount){ 0 };
}

const char *cgproc_below(const char *path, const char *prefix)
{
	size_t len = strlen(prefix);

	if (streq(prefix, "/"))
		return path;
	if (strncmp(path, prefix, len) || (path[len] && path[len] != '/'))
		return NULL;
	return path + len;
}

int cgproc_path_in_mount(const char *path, const struct cgproc_mount *m, const char **ret)
{
	const char *rest = cgproc_below(path, m->root);

	if (!rest || cgproc_below(path, "/..") || cgproc_below(m->root, "/.."))
		return -EXDEV;
	*ret = *rest ? rest : "/";
	return 0;
}

/* Whether `list`, words between commas and ended by a colon, has `word`. */
static bool list_has(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (;;) {
		size_t n = strcspn(list, ",:");

		if (n == len && !strncmp(list, word, len))
			return true;
		if (list[n] != ',')
			return false;
		list += n + 1;
	}
}

/* Lines are "ID:CONTROLLERS:PATH"; v2 has id 0 and no controllers. */
int cgproc_find_path(FILE *f, const char *controller, char **ret)
{
	_cleanup_free_ char *line = NULL;
	size_t size = 0;

	while (getline(&line, &size, f) >= 0) {
		char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

		if (!path)
			continue;
		if (controller ? !list_has(list + 1, controller) : strncmp(line, "0::", 3))
			continue;
		path++;
		path[strcspn(path, "\n")] = '\0';
		*ret = strdup(path);
		return *ret ? 0 : -ENOMEM;
	}
	return ferror(f) ? -ESRCH : -ENOENT; /* a process that ends meanwhile reads ESRCH */
}
