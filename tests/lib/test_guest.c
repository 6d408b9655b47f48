/* SPDX-License-Identifier: MIT */
/*
 * Guest manners: descriptors, forks, cancellation, silence. A controller that
 * never answers listens all the time. Run under LD_PRELOAD.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/lib/fakehip.h"
#include "tests/lib/fakekernel.h"
#include "userspace/common/wire.h"
#include "userspace/lib/pincap.h"

#define PAGE 4096UL

static struct sockaddr_un address = { .sun_family = AF_UNIX };
static char dir[] = "/tmp/pincap-test-XXXXXX";
static char buf[1 << 20] __attribute__((aligned(4096)));

static int setup(void **state)
{
	(void)state;
	fakekernel_reset(1 << 20);
	kernel.blind = true;
	memset(fakehip(), 0, sizeof(struct fakehip));
	return 0;
}

static int lowest_fd(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	close(fd);
	return fd;
}

/* First of all: the first hooked call of the process opens everything. */
static void test_numbers(void **state)
{
	int before = lowest_fd();

	(void)state;
	assert_int_equal(hipHostRegister(buf, PAGE, 0), 0);
	assert_true(pincap_fd() >= 512);
	assert_true(kernel.last_fd >= 512);
	assert_int_equal(fcntl(kernel.last_fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(lowest_fd(), before);
	assert_int_equal(hipHostUnregister(buf), 0);
}

static void test_close_range(void **state)
{
	(void)state;
	assert_int_equal(hipHostRegister(buf, PAGE, 0), 0);
	assert_return_code(close_range(512, ~0U, 0), errno);
	assert_int_equal(hipHostUnregister(buf), 0);
	assert_int_equal(kernel.held, 0);
	assert_return_code(close_range(512, ~0U, 0), errno);
	assert_int_equal(hipHostRegister(buf, PAGE, 0), 0);
	/* A file under our number is left alone. */
	assert_return_code(dup2(STDIN_FILENO, kernel.last_fd), errno);
	assert_int_equal(hipHostUnregister(buf), 0);
	assert_int_equal(kernel.charges, 2);
	assert_int_equal(kernel.uncharges, 2);
}

/* Between charge and settle, too. */
static void close_all(const char *what)
{
	(void)what;
	close_range(512, ~0U, 0);
}

static void test_close_inside(void **state)
{
	(void)state;
	fakehip()->trace = close_all;
	assert_int_equal(hipHostRegister(buf, PAGE, 0), 0);
	assert_int_equal(hipHostUnregister(buf), 0);
	assert_int_equal(kernel.settles, 1);
	assert_int_equal(kernel.held, 0);
}

static void test_no_descriptors(void **state)
{
	struct rlimit old, none;

	(void)state;
	close_range(512, ~0U, 0);
	getrlimit(RLIMIT_NOFILE, &old);
	none = (struct rlimit){ .rlim_cur = 3, .rlim_max = old.rlim_max };
	setrlimit(RLIMIT_NOFILE, &none);
	errno = 1234;
	assert_int_equal(hipHostRegister(buf, PAGE, 0), 0);
	assert_int_equal(errno, 1234);
	assert_int_equal(kernel.charges, 0);
	setrlimit(RLIMIT_NOFILE, &old);
	assert_int_equal(hipHostUnregister(buf), 0);
}

static atomic_bool enough;

static void *hammer(void *arg)
{
	while (!enough) {
		if (hipHostRegister(arg, PAGE, 0) == 0)
			hipHostUnregister(arg);
		mlock(arg, PAGE);
		munlock(arg, PAGE);
	}
	return NULL;
}

static int child_works(void)
{
	char *mine = buf + 900 * 1024;
	unsigned int uncharges = kernel.uncharges;

	/* What the parent holds is not ours to give back. */
	alarm(10);
	if (hipHostUnregister(buf) || kernel.uncharges != uncharges)
		return 1;
	kernel.held = 0;
	if (hipHostRegister(mine, PAGE, 0) || kernel.held != PAGE)
		return 2;
	if (hipHostUnregister(mine) || kernel.held != 0)
		return 3;
	return mlock(mine, PAGE) ? 4 : 0;
}

static void test_fork(void **state)
{
	pthread_t threads[4];
	int status;
	size_t i;
	pid_t pid;

	(void)state;
	assert_int_equal(hipHostRegister(buf, PAGE, 0), 0);
	enough = false;
	for (i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, hammer, buf + (i + 1) * 64 * 1024);
	for (i = 0; i < 200; i++) {
		pid = fork();
		if (pid == 0)
			_exit(child_works());
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	enough = true;
	for (i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(hipHostUnregister(buf), 0);
	assert_int_equal(kernel.held, 0);
}

static void test_vfork(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	close_range(512, ~0U, 0);
	pid = vfork();
	if (pid == 0)
		_exit(mlock(buf, PAGE));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	/* One address space: what the child locked is locked. */
	assert_int_equal(vmlck(), PAGE);
	assert_int_equal(munlock(buf, PAGE), 0);
	assert_int_equal(hipHostRegister(buf, PAGE, 0), 0);
	assert_int_equal(hipHostUnregister(buf), 0);
	assert_int_equal(kernel.held, 0);
}

static atomic_int reached;

static void *cancelled(void *arg)
{
	close_range(512, ~0U, 0);
	pthread_cancel(pthread_self());
	mlock(arg, 2 << 20); /* refused: opens, reads and closes on the way */
	reached++;
	mlock(arg, PAGE);
	munlock(arg, PAGE);
	reached++;
	pthread_testcancel();
	reached++;
	return NULL;
}

static void test_cancel(void **state)
{
	pthread_t thread;
	void *result;

	(void)state;
	pthread_create(&thread, NULL, cancelled, buf);
	pthread_join(thread, &result);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_int_equal(reached, 2);
}

static void test_silence(void **state)
{
	int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO);
	char text[256];
	ssize_t n;
	int p[2];

	(void)state;
	assert_return_code(pipe2(p, O_NONBLOCK), errno);
	dup2(p[1], STDOUT_FILENO);
	dup2(p[1], STDERR_FILENO);
	hipHostRegister(buf, PAGE, 0);
	hipHostRegister(buf, 2 << 20, 0);
	hipHostUnregister(buf);
	mlock(buf, PAGE);
	mlock(buf, 2 << 20);
	munlock(buf, PAGE);
	n = read(p[0], text, sizeof(text));
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	assert_int_equal(n, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_numbers, setup),
		cmocka_unit_test_setup(test_close_range, setup),
		cmocka_unit_test_setup(test_close_inside, setup),
		cmocka_unit_test_setup(test_no_descriptors, setup),
		cmocka_unit_test_setup(test_fork, setup),
		cmocka_unit_test_setup(test_vfork, setup),
		cmocka_unit_test_setup(test_cancel, setup),
		cmocka_unit_test_setup(test_silence, setup),
	};
	int rc = require_preload();
	int listener;

	if (rc)
		return rc;
	if (!mkdtemp(dir))
		return 1;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/notify", dir);
	setenv(PINCAP_ENV_NOTIFY, address.sun_path, 1);
	unsetenv("PINCAP_LOG");
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) || listen(listener, 4096))
		return 1;
	rc = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(address.sun_path);
	rmdir(dir);
	return rc;
}
