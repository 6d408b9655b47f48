/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <libdrm/amdgpu_drm.h>
#include <cmocka.h>

#include "tests/kernel/gpu.h"

struct svm {
	uint64_t start;
	uint64_t size;
	uint32_t op;
	uint32_t nattr;
	uint32_t attr[2][2];
};

struct alloc {
	uint64_t va_addr;
	uint64_t size;
	uint64_t handle;
	uint64_t mmap_offset;
	uint32_t gpu_id;
	uint32_t flags;
};

#define GPU_ID	  0x4242
#define IOC_SVM	  _IOC(_IOC_READ | _IOC_WRITE, 'K', 0x20, sizeof(struct svm))
#define IOC_ALLOC _IOWR('K', 0x16, struct alloc)
#define IOC_FREE  _IOW('K', 0x17, uint64_t)

static int kfd = -1;
static char dir[64], device[80], render[80];
static pid_t driver;

const char *gpu_device(void)
{
	return device;
}

int gpu_open(void)
{
	kfd = open(device, O_RDWR | O_CLOEXEC);
	CHILD_EQUAL(kfd >= 0, 1);
	return kfd;
}

int gpu_open_render(void)
{
	int fd = open(render, O_RDWR | O_CLOEXEC);

	CHILD_EQUAL(fd >= 0, 1);
	return fd;
}

int gpu_svm(const void *at, size_t pages, uint32_t op, uint32_t type)
{
	struct svm a = {
		.start = (uint64_t)at,
		.size = pages * PAGE,
		.op = op,
		.nattr = 2,
		.attr = { { SET_FLAGS, 2 }, { type, GPU_ID } },
	};

	return ioctl(kfd, IOC_SVM, &a);
}

int gpu_alloc(uint64_t bytes, uint32_t flags, const void *at, uint64_t *ret_handle)
{
	struct alloc a = {
		.size = bytes,
		.mmap_offset = (uint64_t)at,
		.va_addr = (uint64_t)at,
		.gpu_id = GPU_ID,
		.flags = flags,
	};
	int err = ioctl(kfd, IOC_ALLOC, &a);

	*ret_handle = a.handle;
	return err;
}

int gpu_free(uint64_t handle)
{
	return ioctl(kfd, IOC_FREE, &handle);
}

void gpu_allow(const void *at, size_t pages)
{
	CHILD_EQUAL(gpu_svm(at, pages, SET_ATTR, ACCESS_IN_PLACE), 0);
}

uint64_t gpu_alloc_gtt(uint64_t bytes)
{
	uint64_t handle;

	CHILD_EQUAL(gpu_alloc(bytes, FLAG_GTT, NULL, &handle), 0);
	return handle;
}

uint32_t gpu_create_gem(int fd, size_t pages)
{
	union drm_amdgpu_gem_create args = { .in.bo_size = pages * PAGE };

	args.in.domains = AMDGPU_GEM_DOMAIN_GTT;
	CHILD_EQUAL(ioctl(fd, DRM_IOCTL_AMDGPU_GEM_CREATE, &args), 0);
	return args.out.handle;
}

void gpu_close_gem(int fd, uint32_t handle)
{
	struct drm_gem_close args = { .handle = handle };

	CHILD_EQUAL(ioctl(fd, DRM_IOCTL_GEM_CLOSE, &args), 0);
}

int64_t current_of(const struct cg *cg)
{
	struct pincap_cgroup entry = { 0 };

	map_cgroup(cg, &entry);
	return entry.current;
}

uint64_t driver_holds(void)
{
	char line[256];
	unsigned long long bytes = UINT64_MAX;
	FILE *f = fopen(device, "re");

	CHILD_EQUAL(!f, 0);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "total gpu_bytes %llu", &bytes) == 1)
			break;
	fclose(f);
	return bytes;
}

void driver_wait(size_t pages)
{
	struct deadline d = deadline_in(2000);

	while (driver_holds() != pages * PAGE && deadline_open(&d))
		;
}

void pincap_sweep(void)
{
	CHILD_EQUAL(system("${PINCAP:-build/pincap} stat / >/dev/null"), 0);
}

/* The driver, beside this program; ready when it says so. */
static void start_driver(const char *self)
{
	int out[2];
	char word[8];

	snprintf(dir, sizeof(dir), "/tmp/pincap-ranges-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(device, sizeof(device), "%s/kfd", dir);
	snprintf(render, sizeof(render), "%s/render", dir);
	close(open(device, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	close(open(render, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	driver = fork();
	if (!driver) {
		char path[4096];

		snprintf(path, sizeof(path), "%.*s/../kfd-driver", (int)(strrchr(self, '/') - self),
			 self);
		dup2(out[1], STDOUT_FILENO);
		execl(path, "kfd-driver", device, "--render", render, NULL);
		_exit(127);
	}
	close(out[1]);
	assert_true(read(out[0], word, sizeof(word)) > 0);
	close(out[0]);
}

int gpu_setup(void **state)
{
	char command[256], self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	const char *pincap = getenv("PINCAP");

	assert_true(n > 0);
	self[n] = '\0';
	start_driver(self);
	if (harness_setup(state))
		return -1;
	snprintf(command, sizeof(command), "%s load --kfd %s --drm %s",
		 pincap ? pincap : "build/pincap", device, render);
	return system(command);
}

int gpu_teardown(void **state)
{
	int err = harness_teardown(state);

	kill(driver, SIGTERM);
	waitpid(driver, NULL, 0);
	unlink(device);
	unlink(render);
	rmdir(dir);
	return err;
}
