/* SPDX-License-Identifier: MIT */
/*
 * render_client: makes buffers on the render node as a graphics driver does, one
 * word a line, and answers each with a line. It needs no runtime: on the
 * driver's own file it also runs without libkfd-shim.so.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/ioctl.h>
#include <libdrm/amdgpu_drm.h>

#include "userspace/common/util.h"

#define PAGE 4096UL

static const char usage[] = "usage: render_client [NODE]\n"
			    "Words: create BYTES gtt|vram | userptr BYTES | close HANDLE | exit\n";

static void say(const char *what, int ret, uint32_t handle)
{
	if (ret)
		printf("%s failed %d\n", what, errno);
	else
		printf("%s %" PRIu32 "\n", what, handle);
	fflush(stdout);
}

static void create(int fd, uint64_t bytes, const char *domain)
{
	union drm_amdgpu_gem_create args = { .in.bo_size = bytes };
	int ret;

	args.in.domains = streq(domain, "gtt") ? AMDGPU_GEM_DOMAIN_GTT : AMDGPU_GEM_DOMAIN_VRAM;
	ret = ioctl(fd, DRM_IOCTL_AMDGPU_GEM_CREATE, &args);
	say("created", ret, args.out.handle);
}

/* The memory stays until the process ends, as the buffer may. */
static void create_userptr(int fd, uint64_t bytes)
{
	struct drm_amdgpu_gem_userptr args = { .size = bytes };
	int ret;

	args.addr = (uintptr_t)aligned_alloc(PAGE, (bytes + PAGE - 1) & ~(PAGE - 1));
	if (!args.addr)
		errx(1, "out of memory");
	args.flags = AMDGPU_GEM_USERPTR_ANONONLY | AMDGPU_GEM_USERPTR_REGISTER;
	ret = ioctl(fd, DRM_IOCTL_AMDGPU_GEM_USERPTR, &args);
	say("userptr", ret, args.handle);
}

static void close_handle(int fd, uint32_t handle)
{
	struct drm_gem_close args = { .handle = handle };

	say("closed", ioctl(fd, DRM_IOCTL_GEM_CLOSE, &args), handle);
}

static void obey(int fd, const char *word, uint64_t n, const char *domain)
{
	if (streq(word, "create") && (streq(domain, "gtt") || streq(domain, "vram")))
		create(fd, n, domain);
	else if (streq(word, "userptr") && n)
		create_userptr(fd, n);
	else if (streq(word, "close"))
		close_handle(fd, n);
	else if (streq(word, "exit"))
		_exit(0);
	else
		errx(2, "what is '%s'?", word);
}

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "/dev/dri/renderD128";
	char line[128], word[16], domain[16];
	uint64_t n;
	int fd;

	if (argc > 2) {
		fputs(usage, stderr);
		return 2;
	}
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		err(1, "open '%s'", path);
	say("ready", 0, 0);
	while (fgets(line, sizeof(line), stdin)) {
		n = 0;
		domain[0] = '\0';
		if (sscanf(line, "%15s %" SCNu64 " %15s", word, &n, domain) >= 1)
			obey(fd, word, n, domain);
	}
	return 0;
}
