/* SPDX-License-Identifier: MIT */
/*
 * A process that does what it is told: one command per line on stdin, answered by
 * one line "RET ERRNO VMLCK VMPIN" (bytes). It is its own program, so that it can
 * be started with a preload library; all calls go through libc for that reason.
 *
 * S is a mapping's number, R a ring's; OFF and LEN are bytes.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kernel/ask.h"
#include "tests/kernel/ring.h"

#define SLOTS	    8
#define MAX_THREADS 8
#define SPIN_BYTES  (1024 * 1024)

static char *maps[SLOTS];
static struct io_uring rings[SLOTS];
static pthread_t spinners[MAX_THREADS];
static int n_spinners;
static atomic_bool stop;
static pid_t child;
static int sock = -1;

static long ret_of(const void *p)
{
	return p == MAP_FAILED ? -1 : 0;
}

static long do_map(const long *a)
{
	void *p = mmap(NULL, a[1], (int)a[2], MAP_PRIVATE | MAP_ANONYMOUS | (int)a[3], -1, 0);

	maps[a[0]] = p;
	return ret_of(p);
}

static long do_mapfile(const long *a)
{
	int fd = memfd_create("actor", MFD_CLOEXEC);
	void *p;

	if (fd < 0 || ftruncate(fd, a[2]))
		return -1;
	p = mmap(NULL, a[1], PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	maps[a[0]] = p;
	return ret_of(p);
}

static long do_fixed(const long *a)
{
	return ret_of(mmap(maps[a[0]] + a[1], a[2], (int)a[3],
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
}

static long do_lock(const long *a)
{
	return mlock(maps[a[0]] + a[1], a[2]);
}

static long do_lock2(const long *a)
{
	return mlock2(maps[a[0]] + a[1], a[2], (int)a[3]);
}

static long do_touch(const long *a)
{
	memset(maps[a[0]] + a[1], 1, a[2]);
	return 0;
}

static long do_unlock(const long *a)
{
	return munlock(maps[a[0]] + a[1], a[2]);
}

static long do_unmap(const long *a)
{
	return munmap(maps[a[0]] + a[1], a[2]);
}

static long do_remap(const long *a)
{
	void *p = mremap(maps[a[0]], a[1], a[2], MREMAP_MAYMOVE);

	if (p != MAP_FAILED)
		maps[a[0]] = p;
	return ret_of(p);
}

static long do_move(const long *a)
{
	void *to = mmap(NULL, a[1], PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (to != MAP_FAILED)
		to = mremap(maps[a[0]], a[1], a[1], MREMAP_MAYMOVE | MREMAP_FIXED, to);
	if (to != MAP_FAILED)
		maps[a[0]] = to;
	return ret_of(to);
}

/* The same pages once more. */
static long do_twin(const long *a)
{
	maps[a[0]] = mremap(maps[a[1]], 0, a[2], MREMAP_MAYMOVE);
	return ret_of(maps[a[0]]);
}

static long do_brk(const long *a)
{
	return ret_of(sbrk(a[0]));
}

static long do_lockall(const long *a)
{
	return mlockall((int)a[0]);
}

static long do_unlockall(const long *a)
{
	(void)a;
	return munlockall();
}

static long as_libc(long ret)
{
	if (ret >= 0)
		return ret;
	errno = (int)-ret;
	return -1;
}

static long do_ring(const long *a)
{
	return as_libc(ring_init(4, &rings[a[0]]));
}

static long do_register(const long *a)
{
	struct iovec iov = { .iov_base = maps[a[1]] + a[2], .iov_len = a[3] };

	return as_libc(io_uring_register_buffers(&rings[a[0]], &iov, 1));
}

static long do_unregister(const long *a)
{
	return as_libc(io_uring_unregister_buffers(&rings[a[0]]));
}

static long do_unring(const long *a)
{
	io_uring_queue_exit(&rings[a[0]]);
	return 0;
}

static int asking(void)
{
	if (sock < 0)
		sock = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	return sock;
}

static long do_charge(const long *a)
{
	return as_libc(ask_charge(asking(), a[0], (uint32_t)a[1]));
}

static long do_settle(const long *a)
{
	(void)a;
	return as_libc(ask_settle(asking()));
}

static long do_uncharge(const long *a)
{
	return as_libc(ask_uncharge(asking(), a[0]));
}

/* A child that locks its LEN bytes and waits. */
static long do_fork(const long *a)
{
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		mlock(maps[a[0]], a[1]);
		for (;;)
			pause();
	}
	return child < 0 ? -1 : 0;
}

static long do_unfork(const long *a)
{
	(void)a;
	kill(child, SIGKILL);
	return waitpid(child, NULL, 0) == child ? 0 : -1;
}

/* The answer is the "0 0 ..." of the new image. */
static long do_exec(const long *a)
{
	(void)a;
	return execl("/proc/self/exe", "actor", NULL);
}

static void *exec_here(void *arg)
{
	if (arg)
		ask_charge(asking(), *(const long *)arg, PINCAP_DRIVER);
	execl("/proc/self/exe", "actor", NULL);
	return NULL;
}

/* exec by a thread that is not the leader and has LEN bytes under way. */
static long do_threadexec(const long *a)
{
	pthread_t thread;

	pthread_create(&thread, NULL, exec_here, (void *)a);
	pthread_join(thread, NULL);
	return -1;
}

static void *spin(void *arg)
{
	char *p =
		mmap(NULL, SPIN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t step = (uintptr_t)arg + 1;

	for (size_t off = 0; !atomic_load(&stop); off = (off + 4096 * step) % SPIN_BYTES) {
		mlock2(p + off, SPIN_BYTES - off, MLOCK_ONFAULT);
		munlock(p + off / 2, 4096 * step);
	}
	return NULL; /* something stays locked, whatever it is */
}

static long do_spin(const long *a)
{
	atomic_store(&stop, false);
	for (n_spinners = 0; n_spinners < a[0] && n_spinners < MAX_THREADS; n_spinners++)
		if (pthread_create(&spinners[n_spinners], NULL, spin, (void *)(intptr_t)n_spinners))
			return -1;
	return 0;
}

static long do_still(const long *a)
{
	(void)a;
	atomic_store(&stop, true);
	while (n_spinners)
		pthread_join(spinners[--n_spinners], NULL);
	return 0;
}

static void *wait_for_ever(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static long do_thread(const long *a)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, a[0]);
	return -pthread_create(&thread, &attr, wait_for_ever, NULL);
}

static void *serve(void *arg);

/* The first thread ends, another one goes on. */
static long do_leave(const long *a)
{
	pthread_t thread;

	(void)a;
	if (pthread_create(&thread, NULL, serve, NULL))
		return -1;
	pthread_exit(NULL);
}

static long do_exit(const long *a)
{
	_exit((int)a[0]);
}

static const struct {
	const char *name;
	long (*fn)(const long *a);
} commands[] = {
	{ "map", do_map },		 /* S LEN PROT FLAGS */
	{ "mapfile", do_mapfile },	 /* S LEN FILELEN */
	{ "fixed", do_fixed },		 /* S OFF LEN PROT */
	{ "lock", do_lock },		 /* S OFF LEN */
	{ "lock2", do_lock2 },		 /* S OFF LEN FLAGS */
	{ "touch", do_touch },		 /* S OFF LEN */
	{ "unlock", do_unlock },	 /* S OFF LEN */
	{ "unmap", do_unmap },		 /* S OFF LEN */
	{ "remap", do_remap },		 /* S LEN LEN */
	{ "move", do_move },		 /* S LEN */
	{ "twin", do_twin },		 /* S S LEN */
	{ "brk", do_brk },		 /* LEN */
	{ "thread", do_thread },	 /* STACK */
	{ "lockall", do_lockall },	 /* FLAGS */
	{ "unlockall", do_unlockall },	 /* */
	{ "ring", do_ring },		 /* R */
	{ "register", do_register },	 /* R S OFF LEN */
	{ "unregister", do_unregister }, /* R */
	{ "unring", do_unring },	 /* R */
	{ "charge", do_charge },	 /* BYTES KIND */
	{ "settle", do_settle },	 /* */
	{ "uncharge", do_uncharge },	 /* BYTES */
	{ "fork", do_fork },		 /* S LEN */
	{ "unfork", do_unfork },	 /* */
	{ "exec", do_exec },		 /* */
	{ "threadexec", do_threadexec }, /* BYTES */
	{ "spin", do_spin },		 /* THREADS */
	{ "still", do_still },		 /* */
	{ "leave", do_leave },		 /* */
	{ "exit", do_exit },		 /* STATUS */
};

static void answer(long ret, int err)
{
	int64_t lck = -1, pin = -1;
	char line[256];
	FILE *f = fopen("/proc/thread-self/status", "re");

	while (f && fgets(line, sizeof(line), f)) {
		sscanf(line, "VmLck: %" SCNd64, &lck);
		sscanf(line, "VmPin: %" SCNd64, &pin);
	}
	if (f)
		fclose(f);
	dprintf(STDOUT_FILENO, "%ld %d %" PRId64 " %" PRId64 "\n", ret, ret < 0 ? err : 0,
		lck * 1024, pin * 1024);
}

static void obey(const char *line)
{
	char name[32];
	long a[4] = { 0 };

	if (sscanf(line, "%31s %ld %ld %ld %ld", name, &a[0], &a[1], &a[2], &a[3]) < 1)
		return;
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		long ret;

		if (strcmp(commands[i].name, name))
			continue;
		errno = 0;
		ret = commands[i].fn(a);
		answer(ret, errno);
		return;
	}
	answer(-1, ENOSYS);
}

/* Whoever wrote the line waits for the answer: there is never a second one. */
static void *serve(void *arg)
{
	char line[256];
	ssize_t n;

	(void)arg;
	answer(0, 0);
	while ((n = read(STDIN_FILENO, line, sizeof(line) - 1)) > 0) {
		line[n] = 0;
		obey(line);
	}
	exit(0);
}

/* A pin of part of a huge page counts as all of it on older kernels (6.1): without huge
 * pages the figures are the same everywhere. */
int main(void)
{
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	serve(NULL);
}
