/* SPDX-License-Identifier: MIT */
/* libamdhip64.so.5 for the tests. See fakehip.h; versions in fakehip.map. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "tests/lib/fakehip.h"

static struct fakehip self;

struct fakehip *fakehip(void)
{
	return &self;
}

static int answer(const char *what)
{
	if (self.trace)
		self.trace(what);
	if (self.set_errno)
		errno = self.set_errno;
	return self.fail;
}

/* As a runtime does: locks its own memory, goes through its own exports. */
static void inner(void)
{
	static char page[4096] __attribute__((aligned(4096)));
	void *p;

	if (!self.nested)
		return;
	self.nested = 0;
	mlock(page, sizeof(page));
	munlock(page, sizeof(page));
	hipHostMalloc(&p, 4096, 0);
	hipHostFree(p);
	self.nested = 1;
}

static int pin(size_t size)
{
	self.pins++;
	self.last_size = size;
	inner();
	return answer("pin");
}

static int pin_new(void **ret, size_t size)
{
	int rc = pin(size);

	if (rc == 0)
		*ret = aligned_alloc(4096, (size + 4095) & ~(size_t)4095);
	return rc;
}

static int release(void *ptr)
{
	int rc;

	self.frees++;
	inner();
	rc = answer("free");
	if (rc == 0)
		free(ptr);
	return rc;
}

int hipHostRegister(void *ptr, size_t size, unsigned int flags)
{
	(void)ptr;
	(void)flags;
	return pin(size);
}

int hipHostUnregister(void *ptr)
{
	(void)ptr;
	return release(NULL);
}

int hipHostMalloc(void **ret, size_t size, unsigned int flags)
{
	(void)flags;
	return pin_new(ret, size);
}

int hipHostAlloc(void **ret, size_t size, unsigned int flags)
{
	(void)flags;
	return pin_new(ret, size);
}

int hipMallocHost(void **ret, size_t size)
{
	return pin_new(ret, size);
}

int hipMemAllocHost(void **ret, size_t size)
{
	return pin_new(ret, size);
}

int hipExtMallocWithFlags(void **ret, size_t size, unsigned int flags)
{
	(void)flags;
	return pin_new(ret, size);
}

int hipHostFree(void *ptr)
{
	return release(ptr);
}

int hipFreeHost(void *ptr)
{
	return release(ptr);
}

int hipFree(void *ptr)
{
	return release(ptr);
}
