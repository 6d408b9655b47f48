/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>

#include "userspace/common/util.h"
#include "userspace/control/glob.h"

/* One component of the pattern, in the glob's own text. */
struct part {
	const char *start;
	size_t len;
	bool deep; /* ** */
};

struct glob {
	char *text;
	size_t prefix_len; /* up to the component with the first special byte */
	bool literal;	   /* there is none */
	size_t count;
	struct part parts[];
};

/* The byte after a set that begins at `p`; NULL: it has no end, or is empty. */
static const char *set_end(const char *p, const char *end)
{
	p++;
	if (p < end && (*p == '!' || *p == '^'))
		p++;
	if (p < end && *p == ']') /* the first is a member */
		p++;
	while (p < end && *p != ']')
		p++;
	return p < end ? p + 1 : NULL;
}

/* `p` is at the '[' of a set that set_end accepts. */
static bool set_has(const char *p, const char *end, unsigned char c)
{
	bool negated = p[1] == '!' || p[1] == '^', found = false;

	p += negated ? 2 : 1;
	for (end--; p < end; p++) {
		unsigned char low = (unsigned char)*p, high = low;

		if (p + 2 < end && p[1] == '-') {
			high = (unsigned char)p[2];
			p += 2;
		}
		found |= low <= c && c <= high;
	}
	return found != negated;
}

static bool set_is_ordered(const char *p, const char *end)
{
	p += p[1] == '!' || p[1] == '^' ? 2 : 1;
	for (end--; p < end; p++) {
		if (p + 2 < end && p[1] == '-') {
			if ((unsigned char)p[0] > (unsigned char)p[2])
				return false;
			p += 2;
		}
	}
	return true;
}

static const char *part_fault(const struct part *part)
{
	const char *p = part->start, *end = p + part->len, *next;

	if (!part->len)
		return "has an empty component, '//' or a '/' at the end";
	if ((part->len == 1 && *p == '.') || (part->len == 2 && !strncmp(p, "..", 2)))
		return "must not have '.' or '..' as a component";
	if (!part->deep && memmem(p, part->len, "**", 2))
		return "has '**' beside something else; it must be a component of its own";
	for (; p < end; p++) {
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return "has a control character";
		if (*p != '[')
			continue;
		next = set_end(p, end);
		if (!next)
			return "has a '[' without its ']' in the same component";
		if (!set_is_ordered(p, next))
			return "has a range in '[...]' whose ends are in the wrong order";
		p = next - 1;
	}
	return NULL;
}

static const char *split(struct glob *g)
{
	const char *special, *why;

	special = strpbrk(g->text, "*?[");
	g->literal = !special;
	if (streq(g->text, "/"))
		return NULL;
	for (const char *p = g->text; *p;) {
		struct part *part = &g->parts[g->count++];

		part->start = p + 1;
		part->len = strcspn(part->start, "/");
		part->deep = part->len == 2 && !strncmp(part->start, "**", 2);
		why = part_fault(part);
		if (why)
			return why;
		p = part->start + part->len;
		if (special && p < special)
			g->prefix_len = (size_t)(p + 1 - g->text);
	}
	return NULL;
}

int glob_compile(const char *text, struct glob **ret, const char **ret_why)
{
	size_t slashes = 0;
	struct glob *g;
	const char *why;

	if (*text != '/' || strlen(text) >= PATH_MAX) {
		*ret_why = *text != '/' ? "must begin with '/'" : "is too long for a path";
		return -EINVAL;
	}
	for (const char *p = text; *p; p++)
		slashes += *p == '/';
	g = calloc(1, sizeof(*g) + slashes * sizeof(g->parts[0]));
	if (!g)
		return -ENOMEM;
	g->text = strdup(text);
	if (!g->text) {
		glob_free(g);
		return -ENOMEM;
	}
	why = split(g);
	if (why) {
		glob_free(g);
		*ret_why = why;
		return -EINVAL;
	}
	*ret = g;
	return 0;
}

struct glob *glob_free(struct glob *g)
{
	if (g) {
		free(g->text);
		free(g);
	}
	return NULL;
}

const char *glob_text(const struct glob *g)
{
	return g->text;
}

/* Whether the pattern's next element, whose end is *ret_next, takes byte `c`. */
static bool takes(const char *pattern, const char *end, char c, const char **ret_next)
{
	if (*pattern == '[') {
		*ret_next = set_end(pattern, end);
		return set_has(pattern, *ret_next, (unsigned char)c);
	}
	*ret_next = pattern + 1;
	return *pattern == '?' || *pattern == c;
}

/* Only the last '*' need ever be lengthened: linear in memory, n * m in time. */
static bool part_matches(const struct part *part, const char *s, size_t len)
{
	const char *p = part->start, *p_end = p + part->len, *s_end = s + len;
	const char *star = NULL, *star_s = NULL, *next;

	while (s < s_end) {
		if (p < p_end && *p == '*') {
			star = ++p;
			star_s = s;
		} else if (p < p_end && takes(p, p_end, *s, &next)) {
			p = next;
			s++;
		} else if (star) {
			p = star;
			s = ++star_s;
		} else {
			return false;
		}
	}
	while (p < p_end && *p == '*')
		p++;
	return p == p_end;
}

/* The same over components: `s` is at a '/' or at the end. */
static bool parts_match(const struct glob *g, const char *s)
{
	const struct part *p = g->parts, *end = p + g->count, *deep = NULL;
	const char *deep_s = NULL;

	while (*s) {
		size_t len = strcspn(s + 1, "/");

		if (p < end && p->deep) {
			if (p + 1 == end)
				return true;
			deep = ++p;
			deep_s = s;
		} else if (p < end && part_matches(p, s + 1, len)) {
			p++;
			s += 1 + len;
		} else if (deep) {
			p = deep;
			deep_s += 1 + strcspn(deep_s + 1, "/");
			s = deep_s;
		} else {
			return false;
		}
	}
	return p == end;
}

bool glob_matches(const struct glob *g, const char *cgpath)
{
	if (g->literal)
		return streq(g->text, cgpath);
	if (strncmp(g->text, cgpath, g->prefix_len))
		return false;
	return parts_match(g, streq(cgpath, "/") ? "" : cgpath);
}

char *glob_escape(const char *name)
{
	char *text = malloc(3 * strlen(name) + 1), *to = text;

	if (!text)
		return NULL;
	for (; *name; name++) {
		if (strchr("*?[", *name)) {
			*to++ = '[';
			*to++ = *name;
			*to++ = ']';
		} else {
			*to++ = *name;
		}
	}
	*to = '\0';
	return text;
}
