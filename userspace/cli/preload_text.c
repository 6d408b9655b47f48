/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "userspace/cli/preload_text.h"

#define SEPARATORS " \t:"

static bool is_ours(const char *name, size_t len)
{
	const size_t base = strlen(PRELOAD_LIBRARY);

	return len >= base && !strncmp(name + len - base, PRELOAD_LIBRARY, base) &&
	       (len == base || name[len - base - 1] == '/');
}

static bool equals(const char *name, size_t len, const char *entry)
{
	return entry && strlen(entry) == len && !strncmp(name, entry, len);
}

/* One line without its newline, edited, appended at `to`. *kept: the entry is
 * there already. True: this left nothing of the line. */
static bool edit_line(const char *line, size_t len, const char *entry, bool *kept, char **to)
{
	const char *end = line + len, *comment = memchr(line, '#', len);
	const char *code_end = comment ? comment : end;
	char *start = *to;
	bool cut = false, blank;

	while (line < code_end) {
		size_t n = strcspn(line, SEPARATORS "#\n");
		size_t gap;

		n = MIN(n, (size_t)(code_end - line));
		gap = strspn(line + n, SEPARATORS);
		if (n && is_ours(line, n) && (*kept || !equals(line, n, entry))) {
			cut = true;
		} else {
			*kept = *kept || (n && equals(line, n, entry));
			*to = mempcpy(*to, line, n + gap);
		}
		line += n + gap;
	}
	blank = strspn(start, SEPARATORS) >= (size_t)(*to - start);
	*to = mempcpy(*to, code_end, (size_t)(end - code_end));
	return cut && blank && !comment;
}

/* The lines of `text`, edited. Returns the end of what was written. */
static char *edit_lines(const char *text, const char *entry, bool *kept, char *to)
{
	while (*text) {
		size_t len = strcspn(text, "\n");
		bool newline = text[len] == '\n';
		char *start = to;

		if (edit_line(text, len, entry, kept, &to))
			to = start;
		else if (newline)
			*to++ = '\n';
		text += len + newline;
	}
	return to;
}

int preload_text_edit(const char *text, const char *entry, char **ret)
{
	_cleanup_free_ char *out = NULL;
	bool kept = false;
	char *to;

	out = malloc((text ? strlen(text) : 0) + (entry ? strlen(entry) : 0) + 3);
	if (!out)
		return -ENOMEM;
	to = edit_lines(text ? text : "", entry, &kept, out);
	if (entry && !kept) {
		if (to > out ? to[-1] != '\n' : text && !*text)
			*to++ = '\n';
		to = stpcpy(to, entry);
		*to++ = '\n';
	}
	*to = '\0';
	*ret = to == out ? NULL : TAKE_PTR(out);
	return 0;
}

int preload_text_find(const char *text, char **ret)
{
	_cleanup_free_ char *first = NULL;
	int n = 0;

	while (text && *text) {
		size_t len = strcspn(text, SEPARATORS "#\n");

		if (len && is_ours(text, len) && n++ == 0) {
			first = strndup(text, len);
			if (!first)
				return -ENOMEM;
		}
		text += len;
		text += *text == '#' ? strcspn(text, "\n") : strspn(text, SEPARATORS "\n");
	}
	if (n)
		*ret = TAKE_PTR(first);
	return n;
}
