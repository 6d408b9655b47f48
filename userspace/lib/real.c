/* SPDX-License-Identifier: MIT */
/*
 * RTLD_NEXT finds what is in the global scope. A runtime that came in by
 * dlopen(RTLD_LOCAL), as Python's extension modules do, is not; that one is
 * looked up among the loaded objects by its name. What is found in a runtime is
 * kept loaded: a pointer into an unloaded one would crash the program.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>

#include "userspace/lib/real.h"
#include "userspace/lib/state.h"

/* Also as renamed by wheels: libamdhip64-0a1b2c3d.so. */
#define RUNTIME_PREFIX "libamdhip64"

/* dlsym() may allocate, and an allocator may mlock(). */
static __thread bool finding __attribute__((tls_model("initial-exec")));

static int on_object(struct dl_phdr_info *info, size_t size, void *ctx)
{
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *base = slash ? slash + 1 : info->dlpi_name;
	char *path = ctx;

	(void)size;
	if (strncmp(base, RUNTIME_PREFIX, strlen(RUNTIME_PREFIX)) != 0)
		return 0;
	if (strlen(info->dlpi_name) >= PATH_MAX)
		return 0;
	strcpy(path, info->dlpi_name);
	return 1;
}

static void *find_in_runtime(const char *name)
{
	char path[PATH_MAX];
	void *handle;
	void *found;

	/* Not dlopen() in the callback: it holds a lock that dlopen() takes second. */
	if (!dl_iterate_phdr(on_object, path))
		return NULL;
	handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
	if (!handle)
		return NULL;
	found = dlsym(handle, name);
	if (!found)
		dlclose(handle);
	return found;
}

static void keep_loaded(void *function)
{
	Dl_info info;

	if (dladdr(function, &info) && info.dli_fname)
		dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

void *real_find(_Atomic(void *) *slot, const char *name)
{
	void *found = atomic_load_explicit(slot, memory_order_acquire);
	int saved = errno;
	int cancel;

	if (found || finding)
		return found;

	finding = true;
	cancel = cancel_off();
	found = dlsym(RTLD_NEXT, name);
	if (strncmp(name, "hip", 3) == 0) {
		if (found)
			keep_loaded(found);
		else
			found = find_in_runtime(name);
	}
	cancel_restore(cancel);
	finding = false;
	errno = saved;

	atomic_store_explicit(slot, found, memory_order_release);
	return found;
}
