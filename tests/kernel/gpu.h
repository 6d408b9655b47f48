/* SPDX-License-Identifier: MIT */
/*
 * The emulated GPU driver beside a test, and its requests as bare ioctls: what the real
 * runtime sends, without the runtime. In a child (child.h), but for gpu_setup and
 * gpu_teardown; each ends the child if it fails.
 */
#ifndef TESTS_KERNEL_GPU_H
#define TESTS_KERNEL_GPU_H

#include <stddef.h>
#include <stdint.h>

#include "tests/kernel/child.h"
#include "tests/kernel/harness.h"

#define PAGE 4096UL

/* include/uapi/linux/kfd_ioctl.h */
#define SET_ATTR	0
#define GET_ATTR	1
#define ACCESS_IN_PLACE 3
#define NO_ACCESS	4
#define SET_FLAGS	5
#define FLAG_VRAM	1U
#define FLAG_GTT	2U
#define FLAG_USERPTR	4U
#define FLAG_AQL	(1U << 27)

/* Group fixtures: the driver runs and pincap is loaded with it (if nobody else's is). */
int gpu_setup(void **state);
int gpu_teardown(void **state);

const char *gpu_device(void); /* the KFD's file */
int gpu_open(void);	      /* the KFD; what follows goes to the last one opened */
int gpu_open_render(void);    /* a render node of its own */

/* 0 or -1 with errno. */
int gpu_svm(const void *at, size_t pages, uint32_t op, uint32_t type);
int gpu_alloc(uint64_t bytes, uint32_t flags, const void *at, uint64_t *ret_handle);
int gpu_free(uint64_t handle);

void gpu_allow(const void *at, size_t pages); /* SVM access in place */
uint64_t gpu_alloc_gtt(uint64_t bytes);
uint32_t gpu_create_gem(int render, size_t pages);
void gpu_close_gem(int render, uint32_t handle);

/* What the cgroup is charged with now, and what the driver says that it holds. */
int64_t current_of(const struct cg *cg);
uint64_t driver_holds(void);
void driver_wait(size_t pages); /* 2 s at most */
void pincap_sweep(void);

/* At once: the system call says it. */
#define NOW_PAGES(cg, pages)                                         \
	do {                                                         \
		CHILD_EQUAL(current_of(cg), (int64_t)(pages)*PAGE);  \
		CHILD_EQUAL(driver_holds(), (uint64_t)(pages)*PAGE); \
	} while (0)

/* Within one sweep, and exactly what the driver holds. */
#define SWEPT_PAGES(cg, pages)                                       \
	do {                                                         \
		CHILD_EQUAL(driver_holds(), (uint64_t)(pages)*PAGE); \
		pincap_sweep();                                      \
		NOW_PAGES(cg, pages);                                \
	} while (0)

#endif
