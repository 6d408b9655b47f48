/* SPDX-License-Identifier: MIT */
/* The only place of the library that prints. See note.h. */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "userspace/lib/note.h"
#include "userspace/lib/state.h"

enum { NOTE_UNKNOWN, NOTE_OFF, NOTE_ON };
static atomic_int wanted;

struct line {
	char text[192];
	size_t len;
};

static void add(struct line *line, const char *text)
{
	size_t len = strlen(text);
	size_t room = sizeof(line->text) - line->len;

	if (len > room)
		len = room;
	memcpy(line->text + line->len, text, len);
	line->len += len;
}

static void add_number(struct line *line, uint64_t number)
{
	char digits[21];
	char *p = digits + sizeof(digits) - 1;

	*p = '\0';
	do
		*--p = (char)('0' + number % 10);
	while (number /= 10);
	add(line, p);
}

static int is_wanted(void)
{
	const char *value;

	if (wanted == NOTE_UNKNOWN) {
		value = secure_getenv("PINCAP_LOG");
		wanted = value && strcmp(value, "1") == 0 ? NOTE_ON : NOTE_OFF;
	}
	return wanted == NOTE_ON;
}

void note(const char *function, const char *what, uint64_t bytes)
{
	struct line line = { .len = 0 };
	int saved = errno;
	int cancel;

	if (is_wanted()) {
		add(&line, "pincap[");
		add_number(&line, (uint64_t)getpid());
		add(&line, "]: ");
		add(&line, function);
		add(&line, ": ");
		add(&line, what);
		add(&line, ", ");
		add_number(&line, bytes);
		add(&line, " bytes\n");
		cancel = cancel_off();
		if (write(STDERR_FILENO, line.text, line.len) < 0)
			errno = saved;
		cancel_restore(cancel);
	}
	errno = saved;
}
