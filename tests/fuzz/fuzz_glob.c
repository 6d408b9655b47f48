/* SPDX-License-Identifier: MIT */
/* A pattern and a path, a newline between: against a matcher that is slow and plain. */
#include <stdint.h>

#include "userspace/common/util.h"
#include "userspace/control/glob.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Tries every way. `p` and `s` are within a component. */
static bool set_matches(const char **p, unsigned char c)
{
	const char *q = *p + 1;
	bool negated = *q == '!' || *q == '^', found = false, first = true;

	for (q += negated; first || *q != ']'; first = false) {
		unsigned char low = (unsigned char)*q, high = low;

		if (q[1] == '-' && q[2] != ']') {
			high = (unsigned char)q[2];
			q += 2;
		}
		found |= low <= c && c <= high;
		q++;
	}
	*p = q + 1;
	return found != negated;
}

static bool plain(const char *p, const char *s)
{
	if (!*p)
		return !*s;
	if (!strncmp(p, "/**", 3) && (!p[3] || p[3] == '/')) {
		if (!p[3])
			return *s == '/' && s[1];
		if (plain(p + 3, s))
			return true;
		if (*s != '/')
			return false;
		return plain(p, s + 1 + strcspn(s + 1, "/"));
	}
	if (*p == '*')
		return plain(p + 1, s) || (*s && *s != '/' && plain(p, s + 1));
	if (!*s)
		return false;
	if (*p == '?')
		return *s != '/' && plain(p + 1, s + 1);
	if (*p == '[')
		return *s != '/' && set_matches(&p, (unsigned char)*s) && plain(p, s + 1);
	return *p == *s && plain(p + 1, s + 1);
}

static bool is_cgpath(const char *s)
{
	if (*s != '/' || strchr(s, '\n') || strstr(s, "//"))
		return false;
	return streq(s, "/") || s[strlen(s) - 1] != '/';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[64], *path;
	const char *why;
	struct glob *g;
	bool fast, slow;

	if (size >= sizeof(text))
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	path = strchr(text, '\n');
	if (!path)
		return 0;
	*path++ = '\0';
	if (!is_cgpath(path) || glob_compile(text, &g, &why))
		return 0;
	fast = glob_matches(g, path);
	/* the root has no component */
	slow = streq(text, "/") || streq(path, "/")
		       ? plain(streq(text, "/") ? "" : text, streq(path, "/") ? "" : path)
		       : plain(text, path);
	if (fast != slow) {
		fprintf(stderr, "'%s' and '%s': %d\n", text, path, fast);
		abort();
	}
	glob_free(g);
	return 0;
}
