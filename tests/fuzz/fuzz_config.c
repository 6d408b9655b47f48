/* SPDX-License-Identifier: MIT */
/* Any bytes as a configuration: a fault is one line of printable text and leaves the
 * result alone; what is accepted prints as a configuration that is accepted again and
 * prints the same. */
#include <stdint.h>

#include "userspace/common/util.h"
#include "userspace/control/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *print(const struct config *c, size_t *ret_len)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, ret_len);

	if (!f)
		abort();
	config_print(c, f);
	fclose(f);
	return text;
}

static void check_error(const struct config *c, const struct config_error *error)
{
	if (c || strncmp(error->text, "fuzz:", 5))
		abort();
	for (const char *p = error->text; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(config_freep) struct config *a = NULL, *b = NULL;
	_cleanup_free_ char *first = NULL, *second = NULL;
	struct config_error error;
	size_t len;

	memset(&error, 0, sizeof(error));
	if (config_parse("fuzz", (const char *)data, size, &a, &error)) {
		check_error(a, &error);
		return 0;
	}
	first = print(a, &len);
	if (config_parse("printed", first, len, &b, &error)) {
		fprintf(stderr, "%s\n%s", error.text, first);
		abort();
	}
	second = print(b, &len);
	if (!streq(first, second))
		abort();
	return 0;
}
