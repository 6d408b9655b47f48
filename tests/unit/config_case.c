/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/unit/config_case.h"
#include "userspace/daemon/check.h"

static char dir[] = "/tmp/pincap-config-XXXXXX";

int config_case_enter(void **state)
{
	(void)state;
	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	return !mkdtemp(dir) || chdir(dir) ? -1 : 0;
}

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st;
	(void)flag;
	(void)ftw;
	return remove(path);
}

int config_case_leave(void **state)
{
	(void)state;
	return chdir("/") || nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS) ? -1 : 0;
}

void write_bytes(const char *name, const void *bytes, size_t len)
{
	FILE *f = fopen(name, "we");

	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	assert_int_equal(fclose(f), 0);
}

void write_text(const char *name, const char *text)
{
	write_bytes(name, text, strlen(text));
}

struct config *load(const char *name)
{
	struct config *c = NULL;
	struct config_error error;

	if (config_load(name, &c, &error))
		fail_msg("%s", error.text);
	assert_non_null(c);
	return c;
}

char *printed(const struct config *c)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	assert_non_null(f);
	config_print(c, f);
	assert_int_equal(fclose(f), 0);
	return text;
}

/* What check_config says on stderr; nothing on stdout. */
static void check_to(const char *name, char *buf, size_t size)
{
	int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO), fd, ret;
	ssize_t len;

	fd = memfd_create("said", 0);
	assert_true(fd >= 0);
	fflush(NULL);
	dup2(fd, STDERR_FILENO);
	dup2(fd, STDOUT_FILENO);
	ret = check_config(name, false);
	fflush(NULL);
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	close(out);
	close(err);
	len = pread(fd, buf, size - 1, 0);
	assert_true(len >= 0);
	buf[len] = '\0';
	close(fd);
	assert_int_equal(ret, 1);
}

void expect_fault(const char *name, const char *where, const char *what)
{
	static const char good[] = "tick: 500ms\nbudgets:\n- match: /kept\n  limit: 7G\n";
	struct config *c = NULL, *kept;
	struct config_error error;
	char said[sizeof(error.text) + 2], *before, *after;

	assert_int_equal(config_parse("good", good, strlen(good), &c, &error), 0);
	kept = c;
	before = printed(c);
	memset(&error, 0, sizeof(error));
	if (config_load(name, &c, &error) >= 0)
		fail_msg("%s was accepted; expected '%s...%s'", name, where, what);
	assert_ptr_equal(c, kept);
	after = printed(c);
	assert_string_equal(before, after);
	if (strncmp(error.text, where, strlen(where)) || !strstr(error.text, what))
		fail_msg("said '%s'\nnot  '%s...%s'", error.text, where, what);
	/* what is wrong, and the remedy */
	if (!strpbrk(error.text + strlen(where), ";,"))
		fail_msg("no remedy in '%s'", error.text);
	for (const char *p = error.text; *p; p++)
		assert_true((unsigned char)*p >= ' ' && *p != 0x7f);
	check_to(name, said, sizeof(said));
	strcat(error.text, "\n");
	assert_string_equal(said, error.text);
	free(before);
	free(after);
	config_free(c);
}
