/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdarg.h>

#include "log.h"

static enum log_level max_level = LOG_LEVEL_INFO;

void log_set_level(enum log_level level)
{
	max_level = level;
}

bool log_enabled(enum log_level level)
{
	return level <= max_level;
}

/* One write per line: several processes share the terminal. */
static void log_line(const char *fmt, va_list ap, const char *reason)
{
	char text[1024];

	vsnprintf(text, sizeof(text), fmt, ap);
	fprintf(stderr, "pincap: %s%s%s\n", text, reason ? ": " : "", reason ? reason : "");
}

void log_printf(enum log_level level, const char *fmt, ...)
{
	int saved = errno;
	va_list ap;

	if (!log_enabled(level))
		return;
	va_start(ap, fmt);
	log_line(fmt, ap, NULL);
	va_end(ap);
	errno = saved;
}

int log_ret(int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_line(fmt, ap, strerror(-err));
	va_end(ap);
	return err;
}
