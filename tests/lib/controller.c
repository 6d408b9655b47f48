/* SPDX-License-Identifier: MIT */
/* See controller.h. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/lib/controller.h"
#include "tests/lib/fakekernel.h"

struct sockaddr_un address = { .sun_family = AF_UNIX };
static char dir[] = "/tmp/pincap-test-XXXXXX";
char *mem; /* 4 MiB */
int listener = -1;
int peer = -1;

/* One hooked call that changes nothing: time for the library to look. */
void nudge(void)
{
	munlock(mem, PAGE);
}

long elapsed_ms(const struct timespec *since)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - since->tv_sec) * 1000 + (now.tv_nsec - since->tv_nsec) / 1000000;
}

void listen_again(int backlog)
{
	unlink(address.sun_path);
	listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_return_code(bind(listener, (struct sockaddr *)&address, sizeof(address)), errno);
	assert_return_code(listen(listener, backlog), errno);
}

/* Library calls until it has connected; it tries once a second. */
void accept_soon(void)
{
	struct timespec start;

	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		nudge();
		peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	} while (peer < 0 && elapsed_ms(&start) < 3000 && usleep(10000) == 0);
	assert_true(peer >= 0);
}

void say(__u32 version, __u32 kind, __u64 epoch)
{
	say_bytes(version, kind, epoch, 0);
}

void say_bytes(__u32 version, __u32 kind, __u64 epoch, __u64 bytes)
{
	struct wire_msg msg = {
		.version = version,
		.kind = kind,
		.epoch = epoch,
		.bytes = bytes,
	};

	assert_int_equal(send(peer, &msg, sizeof(msg), MSG_NOSIGNAL), sizeof(msg));
}

void expect(__u32 kind, __u64 epoch, __u64 count, __u64 bytes)
{
	struct wire_msg msg = {};

	assert_int_equal(recv(peer, &msg, sizeof(msg), 0), sizeof(msg));
	assert_int_equal(msg.version, PINCAP_WIRE_VERSION);
	assert_int_equal(msg.kind, kind);
	assert_int_equal(msg.epoch, epoch);
	assert_int_equal(msg.count, count);
	assert_int_equal(msg.bytes, bytes);
}

void expect_silence(void)
{
	char c;

	assert_int_equal(recv(peer, &c, 1, 0), -1);
	assert_int_equal(errno, EAGAIN);
}

void skip_records(void)
{
	struct wire_msg msg;

	while (recv(peer, &msg, sizeof(msg), 0) > 0)
		;
}

int setup(void **state)
{
	(void)state;
	fakekernel_reset(64 << 20);
	listen_again(8);
	accept_soon();
	skip_records();
	return 0;
}

int teardown(void **state)
{
	(void)state;
	munlockall();
	close(peer);
	close(listener);
	nudge(); /* sees that the peer is gone */
	return 0;
}

int controller_begin(void **state)
{
	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/notify", dir);
	setenv(PINCAP_ENV_NOTIFY, address.sun_path, 1);
	mem = mmap(NULL, 4 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return mem == MAP_FAILED ? -1 : 0;
}

int controller_end(void **state)
{
	(void)state;
	unlink(address.sun_path);
	return rmdir(dir);
}
