/* SPDX-License-Identifier: MIT */
/* See fakekernel.h. Linked with -rdynamic, so that the library's calls end here. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bpf/intf.h"
#include "tests/lib/fakekernel.h"

struct fakekernel kernel;
char trace_log[256];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static __thread uint64_t in_flight_lock;
static __thread uint64_t in_flight_driver;

/* A kernel has no lock that a fork could leave taken. */
static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

void trace_event(const char *what)
{
	size_t len = strlen(trace_log);

	if (len < sizeof(trace_log) - 1)
		trace_log[len] = *what == 'p' ? 'P' : *what == 'f' ? 'F' : *what;
}

void fakekernel_reset(uint64_t limit)
{
	kernel = (struct fakekernel){ .limit = limit };
	memset(trace_log, 0, sizeof(trace_log));
	in_flight_lock = in_flight_driver = 0;
}

uint64_t vmlck(void)
{
	char line[256];
	unsigned long kib = 0;
	int cancel;
	FILE *f;

	/* The real kernel is no cancellation point; stdio is. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	f = fopen("/proc/thread-self/status", "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmLck: %lu", &kib) == 1)
			break;
	if (f)
		fclose(f);
	pthread_setcancelstate(cancel, &cancel);
	return kib * 1024ULL;
}

int require_preload(void)
{
	Dl_info info;
	void *sym = dlsym(RTLD_DEFAULT, "mlock");

	pthread_atfork(before_fork, after_fork, after_fork);
	if (sym && dladdr(sym, &info) && strstr(info.dli_fname, "libpincap-preload"))
		return 0;
	printf("skip: run with LD_PRELOAD=libpincap-preload.so\n");
	return 77;
}

/* Under lock. */
static int charge(const struct pincap_charge *c)
{
	uint64_t bytes = (c->bytes + 4095) & ~4095ULL;
	uint64_t now = vmlck() + kernel.held;

	kernel.charges++;
	kernel.last_charge = c->bytes;
	if (now + bytes > kernel.limit) {
		kernel.refused++;
		trace_event("R");
		return EDQUOT;
	}
	trace_event("C");
	kernel.held += bytes;
	if (now + bytes > kernel.peak)
		kernel.peak = now + bytes;
	if (c->kind == PINCAP_LOCK)
		in_flight_lock += bytes;
	else
		in_flight_driver += bytes;
	return 0;
}

static uint64_t settle(void)
{
	uint64_t stay = kernel.blind ? in_flight_driver : 0;

	kernel.settles++;
	trace_event("S");
	kernel.held -= in_flight_lock + in_flight_driver - stay;
	in_flight_lock = in_flight_driver = 0;
	return stay;
}

static int request(int option, const void *value, socklen_t len)
{
	uint64_t bytes;

	if (kernel.answer) {
		kernel.charges += option == PINCAP_CHARGE;
		return kernel.answer;
	}
	if (option == PINCAP_CHARGE && kernel.undecided) {
		kernel.undecided--;
		kernel.put_off++;
		return EINPROGRESS;
	}
	if (option == PINCAP_CHARGE && len == sizeof(struct pincap_charge))
		return charge(value);
	if (option != PINCAP_UNCHARGE || len != sizeof(bytes))
		return EINVAL;
	memcpy(&bytes, value, sizeof(bytes));
	kernel.uncharges++;
	kernel.uncharged += bytes;
	kernel.held -= bytes;
	trace_event("U");
	return 0;
}

/* A bad descriptor is the business of the real call, on a harmless option. */
static int check_fd(int fd)
{
	int value;
	socklen_t len = sizeof(value);

	return (int)syscall(SYS_getsockopt, fd, SOL_SOCKET, SO_TYPE, &value, &len);
}

int setsockopt(int fd, int level, int option, const void *value, socklen_t len)
{
	int err;

	if (level != SOL_PINCAP)
		return (int)syscall(SYS_setsockopt, fd, level, option, value, len);
	if (check_fd(fd))
		return -1;
	pthread_mutex_lock(&lock);
	kernel.last_fd = fd;
	err = request(option, value, len);
	pthread_mutex_unlock(&lock);
	errno = err ? err : EBADMSG; /* a trap for those who do not keep errno */
	return err ? -1 : 0;
}

int getsockopt(int fd, int level, int option, void *value, socklen_t *len)
{
	struct pincap_status status = { .abi = PINCAP_ABI, .limit = kernel.limit };
	uint64_t held;

	if (level != SOL_PINCAP)
		return (int)syscall(SYS_getsockopt, fd, level, option, value, len);
	if (check_fd(fd))
		return -1;
	errno = kernel.answer ? kernel.answer : EBADMSG;
	if (kernel.answer)
		return -1;
	pthread_mutex_lock(&lock);
	if (option == PINCAP_SETTLE) {
		held = settle();
		memcpy(value, &held, sizeof(held));
	} else {
		kernel.statuses++;
		status.alloc = kernel.alloc;
		status.held = kernel.held;
		status.gpu = kernel.gpu;
		memcpy(value, &status, sizeof(status));
	}
	pthread_mutex_unlock(&lock);
	errno = EBADMSG;
	return 0;
}
