/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "userspace/cli/doctor_selftest.h"

/* VmLck of /proc/self/status, in bytes; 0 where it cannot be read. */
static uint64_t vm_locked(void)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	uint64_t kib;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmLck: %" SCNu64, &kib) == 1)
			return kib << 10;
	return 0;
}

struct own {
	uint32_t tgid;
	uint64_t locked;
};

static int find_own(const struct pincap_process *p, void *ctx)
{
	struct own *own = ctx;

	if (p->tgid != own->tgid)
		return 0;
	own->locked = p->locked;
	return 1;
}

int selftest_counting(struct kernel *k)
{
	struct own own = { .tgid = (uint32_t)getpid() };
	long page = sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t locked;
	int err;

	if (p == MAP_FAILED)
		return -errno;
	err = mlock(p, page) ? -errno : 0;
	if (!err) {
		locked = vm_locked();
		err = kernel_each_process(k, find_own, &own);
		err = err < 0 ? err : own.locked && own.locked == locked ? 0 : -EPROTO;
	}
	munmap(p, page);
	return err;
}

static int ask(int fd)
{
	struct pincap_charge charge = { .bytes = 1, .kind = PINCAP_DRIVER };
	uint64_t stays = 0;
	socklen_t len = sizeof(stays);

	if (setsockopt(fd, SOL_PINCAP, PINCAP_CHARGE, &charge, sizeof(charge)))
		return errno == EDQUOT ? 0 : -errno; /* refused is answered, too */
	if (getsockopt(fd, SOL_PINCAP, PINCAP_SETTLE, &stays, &len))
		return -errno;
	if (stays != (uint64_t)sysconf(_SC_PAGESIZE))
		return -EPROTO;
	if (setsockopt(fd, SOL_PINCAP, PINCAP_UNCHARGE, &stays, sizeof(stays)))
		return -errno;
	return 0;
}

int selftest_admission(void)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : ask(fd);
}
