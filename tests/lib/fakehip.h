/* SPDX-License-Identifier: MIT */
/*
 * A HIP runtime that pins nothing and remembers what reached it. The prototypes
 * are those of hip_runtime_api.h.
 */
#ifndef FAKEHIP_H
#define FAKEHIP_H

#include <stdatomic.h>
#include <stddef.h>

struct fakehip {
	atomic_uint pins;  /* calls that reached the runtime */
	atomic_uint frees; /* likewise */
	int fail;	   /* hipError_t that every call returns, 0 for success */
	int nested;	   /* pin and free call mlock() and exported hip functions too */
	int set_errno;	   /* errno that every call leaves behind, 0 for none */
	size_t last_size;
	void (*trace)(const char *what);
};

/* A function, not data: data would be copied into the program. */
struct fakehip *fakehip(void);

int hipHostRegister(void *ptr, size_t size, unsigned int flags);
int hipHostUnregister(void *ptr);
int hipHostMalloc(void **ret, size_t size, unsigned int flags);
int hipHostAlloc(void **ret, size_t size, unsigned int flags);
int hipMallocHost(void **ret, size_t size);
int hipMemAllocHost(void **ret, size_t size);
int hipExtMallocWithFlags(void **ret, size_t size, unsigned int flags);
int hipHostFree(void *ptr);
int hipFreeHost(void *ptr);
int hipFree(void *ptr);

#endif
