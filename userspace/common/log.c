/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "log.h"

static enum log_level max_level = LOG_LEVEL_INFO;
static const char *name = "pincap";

void log_set_level(enum log_level level)
{
	max_level = level;
}

void log_set_name(const char *text)
{
	name = text;
}

bool log_enabled(enum log_level level)
{
	return level <= max_level;
}

/* Whether stderr is what JOURNAL_STREAM names: it may have been redirected since. */
static bool is_journal(void)
{
	const char *text = getenv("JOURNAL_STREAM");
	unsigned long long dev, ino;
	struct stat st;

	return text && sscanf(text, "%llu:%llu", &dev, &ino) == 2 && !fstat(STDERR_FILENO, &st) &&
	       st.st_dev == dev && st.st_ino == ino;
}

static void head(enum log_level level, char *buf, size_t size)
{
	/* of syslog: error, warning, informational, debug */
	static const char priorities[] = { '3', '4', '6', '7' };

	if (is_journal())
		snprintf(buf, size, "<%c>", priorities[level]);
	else
		snprintf(buf, size, "%s: ", name);
}

void log_escape(const char *text, char *buf, size_t size)
{
	size_t used = 0;

	for (; *text && used + sizeof("\\x00") <= size; text++) {
		unsigned char c = (unsigned char)*text;

		if (c < ' ' || c == 0x7f)
			used += (size_t)snprintf(buf + used, size - used, "\\x%02x", c);
		else
			buf[used++] = (char)c;
	}
	buf[used] = '\0';
}

/* One write per line: several processes share the terminal. */
static void log_line(enum log_level level, const char *fmt, va_list ap, const char *reason)
{
	char text[1024], line[2048], prefix[32];

	vsnprintf(text, sizeof(text), fmt, ap);
	log_escape(text, line, sizeof(line));
	head(level, prefix, sizeof(prefix));
	fprintf(stderr, "%s%s%s%s\n", prefix, line, reason ? ": " : "", reason ? reason : "");
}

void log_printf(enum log_level level, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	if (!log_enabled(level))
		return;
	va_start(ap, fmt);
	log_line(level, fmt, ap, NULL);
	va_end(ap);
	errno = saved;
}

int log_ret(int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_line(LOG_LEVEL_ERROR, fmt, ap, strerror(-err));
	va_end(ap);
	return err;
}
