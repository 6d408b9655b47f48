/* SPDX-License-Identifier: MIT */
/*
 * The buffers that the driver has granted, and where their bytes are.
 *
 * User memory stays where it is. Everything else (GTT, the GPU's own memory,
 * doorbells) lives in one sparse memory file at the offset that the driver
 * named: the runtime maps parts of it, the emulated engines see it whole.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "tests/kfd/shim.h"
#include "userspace/common/util.h"

static pthread_mutex_t memory_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct buffer *buffers;
static size_t buffers_count, buffers_size;
static int memory_fd = -1;
static char *window; /* all of memory_fd; a child of fork does not have it */

static int open_window(void)
{
	void *p;

	memory_fd = syscall(SYS_memfd_create, "kfd-shim", MFD_CLOEXEC);
	if (memory_fd < 0 || ftruncate(memory_fd, KFD_EMU_END_OFFSET))
		return -errno;
	p = (void *)syscall(SYS_mmap, NULL, KFD_EMU_END_OFFSET, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_NORESERVE, memory_fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	madvise(p, KFD_EMU_END_OFFSET, MADV_DONTFORK);
	madvise(p, KFD_EMU_END_OFFSET, MADV_DONTDUMP);
	window = p;
	return 0;
}

static void close_window(void)
{
	if (window)
		munmap(window, KFD_EMU_END_OFFSET);
	if (memory_fd >= 0)
		syscall(SYS_close, memory_fd);
	window = NULL;
	memory_fd = -1;
}

int memory_open(void)
{
	int err = 0;

	pthread_mutex_lock(&memory_mutex);
	if (!window)
		err = open_window();
	if (err)
		close_window();
	pthread_mutex_unlock(&memory_mutex);
	return err;
}

/* By system call: the functions of that name may be another library's. */
static int lock_pages(const void *addr, size_t bytes)
{
	return syscall(SYS_mlock, addr, bytes) ? -errno : 0;
}

static void unlock_pages(const void *addr, size_t bytes)
{
	syscall(SYS_munlock, addr, bytes);
}

/* Locks do not nest: what another buffer covers as well must stay locked. */
static void unlock_buffer(const struct buffer *b)
{
	char *start = b->cpu, *end;
	size_t i;

	if (!shim_config()->is_locking || !start)
		return;
	end = start + b->cpu_bytes;
	unlock_pages(start, end - start);
	for (i = 0; i < buffers_count; i++) {
		char *other = buffers[i].cpu, *from, *to;

		if (!other)
			continue;
		from = MAX(start, other);
		to = MIN(end, other + buffers[i].cpu_bytes);
		if (from < to)
			lock_pages(from, to - from);
	}
}

/* The GPU's right to write decides, as with the driver. */
static int keep_pages(struct buffer *b)
{
	int err = 0;

	if (!b->cpu)
		return 0;
	if (shim_config()->is_locking)
		err = lock_pages(b->cpu, b->cpu_bytes);
	if (!err && shim_config()->is_holding)
		err = hold_new(&b->hold, b->cpu, b->cpu_bytes,
			       b->flags & KFD_IOC_ALLOC_MEM_FLAGS_WRITABLE);
	return err;
}

static int append(const struct buffer *b)
{
	size_t size = buffers_size ? buffers_size * 2 : 64;
	struct buffer *grown;

	if (buffers_count == buffers_size) {
		grown = reallocarray(buffers, size, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		buffers = grown;
		buffers_size = size;
	}
	buffers[buffers_count++] = *b;
	return 0;
}

static struct buffer from_args(const struct kfd_ioctl_alloc_memory_of_gpu_args *args,
			       void *user_cpu)
{
	struct buffer b = {
		.handle = args->handle,
		.gpu_addr = args->va_addr,
		.bytes = kfd_emu_real_bytes(args->size, args->flags),
		.flags = args->flags,
	};

	if (args->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR) {
		b.cpu = user_cpu;
		b.cpu_bytes = b.bytes;
	} else {
		b.offset = args->mmap_offset;
	}
	return b;
}

int memory_add(const struct kfd_ioctl_alloc_memory_of_gpu_args *args, void *user_cpu)
{
	struct buffer b = from_args(args, user_cpu);
	int err;

	pthread_mutex_lock(&memory_mutex);
	err = keep_pages(&b);
	if (!err)
		err = append(&b);
	if (err)
		hold_free(b.hold);
	pthread_mutex_unlock(&memory_mutex);
	return err;
}

bool memory_take(uint64_t handle, struct buffer *ret)
{
	bool is_found = false;
	size_t i;

	pthread_mutex_lock(&memory_mutex);
	for (i = 0; i < buffers_count && !is_found; i++) {
		if (buffers[i].handle != handle)
			continue;
		*ret = buffers[i];
		buffers[i] = buffers[--buffers_count];
		is_found = true;
	}
	pthread_mutex_unlock(&memory_mutex);
	return is_found;
}

/* There is room: the array never shrinks, and the worst is that another thread
 * has used the place, which makes it grow. */
void memory_put(const struct buffer *b)
{
	pthread_mutex_lock(&memory_mutex);
	if (append(b))
		shim_complain("lost buffer %#llx", (unsigned long long)b->handle);
	pthread_mutex_unlock(&memory_mutex);
}

static bool is_in_window(const struct buffer *b)
{
	return b->offset && !(b->flags & KFD_IOC_ALLOC_MEM_FLAGS_DOORBELL);
}

void memory_drop(const struct buffer *b)
{
	pthread_mutex_lock(&memory_mutex);
	unlock_buffer(b);
	hold_free(b->hold);
	if (is_in_window(b) && memory_fd >= 0)
		fallocate(memory_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, b->offset,
			  b->bytes);
	pthread_mutex_unlock(&memory_mutex);
}

void memory_forget(void)
{
	struct buffer b;

	pthread_mutex_lock(&memory_mutex);
	while (buffers_count) {
		b = buffers[--buffers_count];
		unlock_buffer(&b);
		hold_free(b.hold);
	}
	close_window();
	pthread_mutex_unlock(&memory_mutex);
}

static void note_mapping(off_t offset, void *addr, size_t bytes)
{
	size_t i;

	for (i = 0; i < buffers_count; i++) {
		struct buffer *b = &buffers[i];

		if (b->offset != (uint64_t)offset || !(b->flags & KFD_IOC_ALLOC_MEM_FLAGS_GTT))
			continue;
		b->cpu = addr;
		b->cpu_bytes = bytes;
		if (shim_config()->is_locking && lock_pages(addr, bytes))
			shim_complain("cannot lock %zu bytes of GTT", bytes);
	}
}

void *memory_map(void *addr, size_t bytes, int prot, int flags, off_t offset)
{
	void *p;

	pthread_mutex_lock(&memory_mutex);
	p = (void *)syscall(SYS_mmap, addr, bytes, prot, flags, memory_fd, offset);
	if (p != MAP_FAILED)
		note_mapping(offset, p, bytes);
	pthread_mutex_unlock(&memory_mutex);
	shim_log("mmap %zu bytes at offset %#llx -> %p", bytes, (unsigned long long)offset, p);
	return p;
}

static void *find_cpu(uint64_t gpu_addr, uint64_t bytes)
{
	size_t i;

	for (i = 0; i < buffers_count; i++) {
		const struct buffer *b = &buffers[i];
		uint64_t place = gpu_addr - b->gpu_addr;

		if (gpu_addr < b->gpu_addr || place >= b->bytes)
			continue;
		if (bytes > b->bytes - place)
			shim_complain("%llu bytes at %#llx leave their buffer",
				      (unsigned long long)bytes, (unsigned long long)gpu_addr);
		if (b->flags & KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)
			return (char *)b->cpu + place;
		return window + b->offset + place;
	}
	return (void *)(uintptr_t)gpu_addr;
}

void *memory_cpu(uint64_t gpu_addr, uint64_t bytes)
{
	void *p;

	pthread_mutex_lock(&memory_mutex);
	p = find_cpu(gpu_addr, bytes);
	pthread_mutex_unlock(&memory_mutex);
	return p;
}

void memory_lock(void)
{
	pthread_mutex_lock(&memory_mutex);
}

void memory_unlock(void)
{
	pthread_mutex_unlock(&memory_mutex);
}

/* Page locks do not pass to a child, nor does the window; the pipes of a hold do. */
void memory_forked(void)
{
	window = NULL;
	close_window();
	while (buffers_count)
		hold_free(buffers[--buffers_count].hold);
}
