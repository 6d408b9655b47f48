/* SPDX-License-Identifier: MIT */
/*
 * libkfd-shim.so: the workload's side of the emulated AMD GPU driver.
 *
 * Preloaded, it leads /dev/kfd to the file of kfd-driver, whose ioctls are the
 * real ones, and does in the process what the hardware and the kernel would do
 * besides: the topology in sysfs, mappings, events, and the engines that
 * execute packets. Without KFD_SHIM_DEVICE in the environment it does nothing.
 *
 *	KFD_SHIM_DEVICE	the file that kfd-driver has mounted
 *	KFD_SHIM_GFX	900 (default) or 1030
 *	KFD_SHIM_RENDER	the file that kfd-driver --render has mounted; without it the
 *			render node has no buffers
 *	KFD_SHIM_SVM=1	the GPU has the SVM API, which newer runtimes use to register
 *	KFD_SHIM_LOCK=1	page-lock what the driver holds; it locks nothing itself
 *	KFD_SHIM_HOLD=1	hold user memory that the driver has, so that it can not be
 *			reclaimed, without a counter of the kernel's moving; needs root, a
 *			descriptor per MiB, and is not for SVM
 *	KFD_SHIM_LOG	file to append a log to, - for stderr
 *
 * Each file has one lock at most; two are held at once only by fork, and by the
 * first open of the device, in the order of the sections below.
 */
#ifndef SHIM_H
#define SHIM_H

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "tests/kfd/kfd_emu.h"

#define SHIM_EXPORT __attribute__((visibility("default")))

/* shim.c: the environment, the log, fork and exit */

struct shim_config {
	const char *device; /* NULL: the library is idle */
	const char *render; /* NULL: a render node without buffers */
	int gfx;
	bool is_locking;
	bool is_holding;
	bool has_svm;
};

const struct shim_config *shim_config(void);
void shim_log(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* What makes the emulation wrong is said in any case, on stderr if need be. */
void shim_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* shim_fd.c: which descriptors are the emulated devices */

enum shim_fd_kind {
	SHIM_FD_NONE,
	SHIM_FD_KFD,
	SHIM_FD_RENDER,
	SHIM_FD_STALE, /* the KFD of the process that this one was forked from */
};

enum shim_fd_kind shim_fd_kind(int fd);
int shim_fd_kfd(void);				     /* any descriptor of the KFD, or -1 */
int shim_fd_open(enum shim_fd_kind kind, int flags); /* fd or negative errno */
void shim_fd_copied(int from, int to);
void shim_fd_closing(int fd);
void shim_fd_lock(void);
void shim_fd_unlock(void);
void shim_fd_forked(void);

/* shim_topology.c: the tree that stands for sysfs */

/* path itself, or where it is found in the tree (in buf). */
const char *topology_path(const char *path, char *buf, size_t size);
void topology_drop(void);
void topology_lock(void);
void topology_unlock(void);
void topology_forked(void);

/* shim_topology_text.c: what the files in it say */

struct topology_file {
	const char *path; /* a trailing slash: an empty directory */
	int (*format)(char *buf, size_t size, int gfx);
};
extern const struct topology_file topology_files[]; /* ends with path NULL */

/* shim_hold.c: what keeps pages in memory */

struct hold;
int hold_new(struct hold **ret, void *addr, size_t bytes, bool is_written);
struct hold *hold_free(struct hold *h);

/* shim_memory.c: the buffers that the driver has granted */

struct buffer {
	uint64_t handle;
	uint64_t gpu_addr;
	uint64_t bytes;
	uint64_t offset; /* for mmap; 0 for user memory */
	void *cpu;	 /* user memory, or where GTT was mapped last */
	size_t cpu_bytes;
	struct hold *hold; /* or NULL */
	uint32_t flags;
};

int memory_open(void);
void memory_forget(void);
int memory_add(const struct kfd_ioctl_alloc_memory_of_gpu_args *args, void *user_cpu);
/* The driver gives a freed handle to the next buffer at once. So a buffer is
 * taken out before the driver frees it, and dropped or put back after. */
bool memory_take(uint64_t handle, struct buffer *ret);
void memory_put(const struct buffer *b);
void memory_drop(const struct buffer *b);
void *memory_map(void *addr, size_t bytes, int prot, int flags, off_t offset);
/* Where this process finds the bytes that the GPU has at gpu_addr. */
void *memory_cpu(uint64_t gpu_addr, uint64_t bytes);
void memory_lock(void);
void memory_unlock(void);
void memory_forked(void);

/* shim_svm.c: ranges that the GPU has access to */

int svm_ioctl(int fd, unsigned long cmd, void *arg);
/* Called before these addresses lose their mapping. */
void svm_unmapping(const void *addr, size_t bytes);
void svm_forget(void);

/* shim_event.c: events as the KFD has them */

int event_create(struct kfd_ioctl_create_event_args *args);
int event_destroy(uint32_t id);
int event_set(uint32_t id);
int event_reset(uint32_t id);
int event_wait(struct kfd_ioctl_wait_events_args *args);
void event_forget(void);
void event_lock(void);
void event_unlock(void);
void event_forked(void);

/* shim_queue.c: one thread per queue plays the engine */

struct queue {
	uint32_t id; /* slot number plus one */
	uint32_t type;
	uint64_t ring;
	uint64_t ring_bytes;
	uint64_t *read_index;
	uint64_t *write_index;
	pthread_t thread;
	bool is_used;
	bool is_stopping;
	unsigned idle;	/* naps since the last packet */
	uint64_t kicks; /* of those given, how many were seen */
};

int queue_create(struct kfd_ioctl_create_queue_args *args);
int queue_destroy(uint32_t id);
/* Stop the queues whose ring is in this memory: it is about to go. */
void queue_stop_within(uint64_t addr, uint64_t bytes);
void queue_stop_all(void);
/* Something has happened that a queue may wait for. */
void queue_kick(void);
void queue_lock(void);
void queue_unlock(void);
void queue_forked(void);

/* shim_aql.c, shim_sdma.c: execute the next packet, if there is one. False:
 * there is none, or it waits for something. */
bool aql_step(struct queue *q);
bool sdma_step(struct queue *q);

/* shim_ioctl.c, shim_drm.c: 0 or negative errno */

int kfd_ioctl(int fd, unsigned long cmd, void *arg);
int drm_ioctl(int fd, unsigned long cmd, void *arg);

static inline uint64_t shim_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* The GPU's clock runs at 100 MHz. */
static inline uint64_t shim_gpu_clock(void)
{
	return shim_now_ns() / 10;
}

static inline struct timespec shim_deadline(uint64_t delay_ns)
{
	uint64_t ns = shim_now_ns() + delay_ns;

	return (struct timespec){ .tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000 };
}

#endif
