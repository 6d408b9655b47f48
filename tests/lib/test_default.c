/* SPDX-License-Identifier: MIT */
/*
 * A process that nobody told anything: the library looks for the daemon at its
 * default address, and trusts root alone there. In a mount namespace with a /run
 * of its own. Run under LD_PRELOAD, as root.
 */
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/lib/fakekernel.h"
#include "userspace/common/wire.h"
#include "userspace/lib/pincap.h"

#define PAGE	4096UL
#define NOBODY	65534
#define WAIT_MS 3000 /* the library tries once a second */

static char buf[1 << 20] __attribute__((aligned(4096)));

/* Attempts of the library. */
static atomic_uint connects;

int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	static int (*real)(int, const struct sockaddr *, socklen_t);

	if (!real)
		real = (int (*)(int, const struct sockaddr *, socklen_t))dlsym(RTLD_NEXT,
									       "connect");
	connects++;
	return real(fd, addr, len);
}

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int listen_as(uid_t uid)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX, .sun_path = PINCAP_NOTIFY_DEFAULT };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	unlink(address.sun_path);
	assert_return_code(seteuid(uid), errno);
	assert_return_code(bind(fd, (struct sockaddr *)&address, sizeof(address)), errno);
	assert_return_code(listen(fd, 8), errno);
	assert_return_code(seteuid(0), errno);
	return fd;
}

/* Library calls until it has connected. */
static int accept_soon(int listener)
{
	long end = now_ms() + WAIT_MS;
	int peer;

	do {
		munlock(buf, PAGE);
		peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	} while (peer < 0 && now_ms() < end && usleep(10000) == 0);
	return peer;
}

/* First: nothing there. One failed attempt serves a thousand calls. */
static void test_absent(void **state)
{
	int i;

	(void)state;
	connects = 0;
	errno = 1234;
	for (i = 0; i < 1000; i++)
		assert_int_equal(munlock(buf, PAGE), 0);
	assert_int_equal(mlock(buf, PAGE), 0);
	assert_int_equal(errno, 1234);
	assert_int_equal(kernel.charges, 1);
	assert_in_range(connects, 1, 2);
	assert_int_equal(pincap_fd(), -ENOTCONN);
	munlock(buf, PAGE);
}

static void test_root_listens(void **state)
{
	int listener = listen_as(0);
	int peer = accept_soon(listener);
	struct wire_msg msg = {};

	(void)state;
	assert_true(peer >= 0);
	assert_int_equal(recv(peer, &msg, sizeof(msg), 0), sizeof(msg));
	assert_int_equal(msg.kind, WIRE_HELLO);
	msg = (struct wire_msg){ .version = PINCAP_WIRE_VERSION, .kind = WIRE_STOP, .epoch = 1 };
	assert_int_equal(send(peer, &msg, sizeof(msg), 0), sizeof(msg));
	assert_int_equal(mlock(buf, sizeof(buf)), -1);
	assert_int_equal(errno, ENOMEM);
	close(peer);
	close(listener);
	assert_int_equal(mlock(buf, sizeof(buf)), 0);
	munlock(buf, sizeof(buf));
}

/* Anybody else's socket under that name is left at once: no word is read. */
static void test_other_listens(void **state)
{
	const struct wire_msg stop = { .version = PINCAP_WIRE_VERSION,
				       .kind = WIRE_STOP,
				       .epoch = 1 };
	int listener = listen_as(NOBODY);
	int peer = accept_soon(listener);
	struct wire_msg msg;

	(void)state;
	assert_true(peer >= 0); /* it had to connect to see */
	assert_int_equal(recv(peer, &msg, sizeof(msg), 0), 0);
	send(peer, &stop, sizeof(stop), MSG_NOSIGNAL);
	assert_int_equal(pincap_dispatch(), 0);
	assert_int_equal(pincap_fd(), -ENOTCONN);
	assert_int_equal(mlock(buf, sizeof(buf)), 0);
	munlock(buf, sizeof(buf));
	close(peer);
	close(listener);
}

/* Set and empty: no controller is wanted. In a child, which reads it anew. */
static int run_with_none(const char *self)
{
	setenv(PINCAP_ENV_NOTIFY, "", 1);
	execl(self, self, "--none", NULL);
	return 99;
}

static int none(void)
{
	connects = 0;
	munlock(buf, PAGE);
	return connects != 0 || pincap_fd() != -ENOTCONN;
}

static void test_none_wanted(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	if (pid == 0)
		_exit(run_with_none("/proc/self/exe"));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int setup(void **state)
{
	(void)state;
	fakekernel_reset(64 << 20);
	return 0;
}

static bool own_run(void)
{
	return unshare(CLONE_NEWNS) == 0 &&
	       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	       mount("none", "/run", "tmpfs", 0, NULL) == 0 && mkdir("/run/pincap", 0755) == 0 &&
	       chmod("/run/pincap", 0777) == 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_absent, setup),
		cmocka_unit_test_setup(test_root_listens, setup),
		cmocka_unit_test_setup(test_other_listens, setup),
		cmocka_unit_test_setup(test_none_wanted, setup),
	};
	int rc = require_preload();

	if (rc)
		return rc;
	if (argc == 2 && strcmp(argv[1], "--none") == 0)
		return none();
	unsetenv(PINCAP_ENV_NOTIFY);
	if (!own_run()) {
		puts("1..1\nok 1 - default address # SKIP needs root and a mount namespace");
		return 0;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
