/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "userspace/cli/preload_entry.h"
#include "userspace/cli/preload_text.h"

/* What $LIB is to ld.so of 64 bit, by distribution. */
static const char *const lib64[] = { "/lib/x86_64-linux-gnu/", "/lib64/" };

/* To one of 32 bit, by where that lies. */
static const struct {
	const char *loader_dir;
	const char *lib;
} lib32[] = {
	{ "/lib/i386-linux-gnu/", "/lib/i386-linux-gnu/" },
	{ "/usr/lib/i386-linux-gnu/", "/lib/i386-linux-gnu/" },
	{ "/lib32/", "/lib32/" },
	{ "/usr/lib32/", "/lib32/" },
	{ "/lib/", "/lib/" },
	{ "/usr/lib/", "/lib/" },
};

static const char *const loader32 = "/lib/ld-linux.so.2";

static char *format(const char *fmt, ...) _printf_(1, 2);
static char *format(const char *fmt, ...)
{
	va_list ap;
	char *text;
	int n;

	va_start(ap, fmt);
	n = vasprintf(&text, fmt, ap);
	va_end(ap);
	return n < 0 ? strdup("out of memory") : text;
}

/* One file or directory on the way. */
static char *part_fault(const char *path)
{
	struct stat st;
	mode_t others;

	if (lstat(path, &st))
		return format("'%s': %m", path);
	others = S_ISDIR(st.st_mode) ? S_IXOTH : S_IROTH;
	if (st.st_uid)
		return format("'%s' belongs to user %u, not to root", path, st.st_uid);
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return format("'%s' can be written by others than root", path);
	if (!(st.st_mode & others))
		return format("'%s' cannot be %s by every user", path,
			      S_ISDIR(st.st_mode) ? "entered" : "read");
	return NULL;
}

char *preload_entry_fault(const char *path)
{
	_cleanup_free_ char *part = strdup(path);
	struct stat st;
	char *fault;

	if (!part)
		return format("out of memory");
	if (path[strcspn(path, " \t\n:#$")])
		return format("'%s': " PRELOAD_LIBRARY
			      " must not lie on a path with a blank or one "
			      "of : # $",
			      path);
	if (!stat(path, &st) && !S_ISREG(st.st_mode))
		return format("'%s' is not a file", path);
	for (;;) {
		char *slash;

		fault = part_fault(*part ? part : "/");
		slash = strrchr(part, '/');
		if (fault || !slash)
			return fault;
		*slash = '\0';
	}
}

/* `path` with its first `from` replaced; NULL where it has none. */
static char *replaced(const char *path, const char *from, const char *to)
{
	const char *at = strstr(path, from);

	if (!at)
		return NULL;
	return format("%.*s%s%s", (int)(at - path), path, to, at + strlen(from));
}

/* The name of the same library for all kinds, as far as its place has one. */
static char *general_name(const char *path, const char **ret_lib)
{
	char *name = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(lib64) && !name; i++) {
		name = replaced(path, lib64[i], "/$LIB/");
		*ret_lib = lib64[i];
	}
	return name;
}

/* What a program of 32 bit will load: checked like the library itself. */
static char *stand_in_fault(const char *path, const char *lib)
{
	char real[PATH_MAX];
	const char *lib_of_32 = NULL;
	_cleanup_free_ char *stand_in = NULL;

	if (!realpath(loader32, real))
		return NULL;
	for (size_t i = 0; i < ARRAY_SIZE(lib32) && !lib_of_32; i++)
		if (!strncmp(real, lib32[i].loader_dir, strlen(lib32[i].loader_dir)))
			lib_of_32 = lib32[i].lib;
	stand_in = lib && lib_of_32 ? replaced(path, lib, lib_of_32) : NULL;
	if (stand_in && !access(stand_in, F_OK))
		return preload_entry_fault(stand_in);
	return format("32-bit programs (%s) would print an error at every start: no stand-in '%s'",
		      real, stand_in ? stand_in : "in a directory of theirs");
}

char *preload_entry_of(const char *path, char **ret)
{
	_cleanup_free_ char *name = NULL;
	const char *lib = NULL, *base = strrchr(path, '/');
	char *fault = preload_entry_fault(path);

	if (fault)
		return fault;
	if (!base || !streq(base + 1, PRELOAD_LIBRARY))
		return format("'%s' is not called " PRELOAD_LIBRARY, path);
	name = general_name(path, &lib);
	fault = stand_in_fault(path, name ? lib : NULL);
	if (fault)
		return fault;
	*ret = name ? TAKE_PTR(name) : strdup(path);
	return *ret ? NULL : format("out of memory");
}

char *preload_entry_path(const char *entry)
{
	const size_t last = ARRAY_SIZE(lib64) - 1;
	size_t i = 0;
	char *path;

	while (i < last && access(lib64[i], F_OK))
		i++;
	path = replaced(entry, "/$LIB/", lib64[i]);
	return path ? path : strdup(entry);
}
