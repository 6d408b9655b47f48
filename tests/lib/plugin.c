/* SPDX-License-Identifier: MIT */
/* Linked with the HIP runtime and loaded by dlopen(RTLD_LOCAL), as a Python
 * extension module is. */
#include "tests/lib/fakehip.h"

struct fakehip *plugin_runtime(void);
int plugin_register(void *ptr, size_t size);

struct fakehip *plugin_runtime(void)
{
	return fakehip();
}

int plugin_register(void *ptr, size_t size)
{
	return hipHostRegister(ptr, size, 0);
}
