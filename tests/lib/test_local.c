/* SPDX-License-Identifier: MIT */
/*
 * A program that is not linked with HIP: first there is no runtime at all, then
 * one that came in by dlopen(RTLD_LOCAL) with a plugin. Argument: the plugin.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/lib/fakehip.h"
#include "tests/lib/fakekernel.h"

static const char *plugin_path;

static void *sym(void *handle, const char *name)
{
	void *found = dlsym(handle, name);

	assert_non_null(found);
	return found;
}

static void test_no_runtime(void **state)
{
	int (*reg)(void *, size_t, unsigned int) = sym(RTLD_DEFAULT, "hipHostRegister");
	int (*host_free)(void *) = sym(RTLD_DEFAULT, "hipHostFree");

	(void)state;
	fakekernel_reset(1 << 20);
	assert_int_equal(reg((void *)4096, 4096, 0), 3);
	assert_int_equal(host_free((void *)4096), 3);
	assert_int_equal(kernel.charges, 0);
}

static void test_local(void **state)
{
	void *handle = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);
	struct fakehip *(*runtime)(void);
	int (*reg)(void *, size_t);

	(void)state;
	assert_non_null(handle);
	runtime = sym(handle, "plugin_runtime");
	reg = sym(handle, "plugin_register");
	fakekernel_reset(1 << 20);
	assert_int_equal(reg((void *)4096, 4096), 0);
	assert_int_equal(runtime()->pins, 1);
	assert_int_equal(kernel.charges, 1);
	assert_int_equal(reg((void *)4096, 2 << 20), 2);
	assert_int_equal(runtime()->pins, 1);

	/* The plugin goes, the pointer to the runtime stays good. */
	dlclose(handle);
	handle = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(handle);
	runtime = sym(handle, "plugin_runtime");
	reg = sym(handle, "plugin_register");
	assert_int_equal(reg((void *)4096, 4096), 0);
	assert_int_equal(runtime()->pins, 2);
	dlclose(handle);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_runtime),
		cmocka_unit_test(test_local),
	};
	int rc = require_preload();

	plugin_path = argc > 1 ? argv[1] : "./plugin.so";
	return rc ? rc : cmocka_run_group_tests(tests, NULL, NULL);
}
