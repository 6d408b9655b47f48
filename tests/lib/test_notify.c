/* SPDX-License-Identifier: MIT */
/*
 * STOP and RESUME over a real SOCK_SEQPACKET listener, played by the test
 * itself: the library never waits for it, so one thread will do. Run under
 * LD_PRELOAD.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/lib/controller.h"
#include "tests/lib/fakekernel.h"
#include "userspace/common/wire.h"
#include "userspace/lib/pincap.h"

static void test_hello(void **state)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	(void)state;
	fakekernel_reset(64 << 20);
	listen_again(8);
	accept_soon();
	expect(WIRE_HELLO, 0, 0, 0);
	expect_silence();
	assert_return_code(getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &cred, &len), errno);
	assert_int_equal(cred.pid, getpid());
	assert_true(pincap_fd() >= 512);
	assert_int_equal(fcntl(pincap_fd(), F_GETFD), FD_CLOEXEC);
}

static void test_stop_resume(void **state)
{
	struct pincap_info info = { .size = sizeof(info) };
	struct pollfd pfd = { .fd = pincap_fd(), .events = POLLIN };

	(void)state;
	assert_int_equal(poll(&pfd, 1, 0), 0);
	say(1, WIRE_STOP, 1);
	assert_int_equal(poll(&pfd, 1, 0), 1);
	assert_int_equal(pincap_dispatch(), 1);
	expect(WIRE_ACK, 1, 0, 0);

	errno = 0;
	assert_int_equal(mlock(mem, BIG), -1);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(vmlck(), 0);
	assert_int_equal(kernel.charges, 0);
	expect(WIRE_WITHHELD, 1, 1, BIG);
	assert_int_equal(pincap_charge(2 * BIG, PINCAP_KIND_DRIVER), -EDQUOT);
	assert_int_equal(kernel.charges, 0);
	expect(WIRE_WITHHELD, 1, 2, 3 * BIG);
	expect_silence();
	assert_int_equal(pincap_status(&info), 0);
	assert_int_equal(info.stopped, 1);
	assert_int_equal(info.refused_count, 2);
	assert_int_equal(info.refused_bytes, 3 * BIG);

	/* A key store's page is still asked for. */
	assert_int_equal(mlock(mem, PAGE), 0);
	assert_int_equal(kernel.charges, 1);
	assert_int_equal(munlock(mem, PAGE), 0);

	say(1, WIRE_RESUME, 2);
	assert_int_equal(mlock(mem, BIG), 0);
	expect(WIRE_ACK, 2, 2, 3 * BIG);
	/* Locked already: needs no room, stopped or not. */
	say(1, WIRE_STOP, 3);
	assert_int_equal(mlock(mem, BIG), 0);
	expect(WIRE_ACK, 3, 2, 3 * BIG);
	assert_int_equal(munlock(mem, BIG), 0);
	assert_int_equal(vmlck(), 0);
	expect_silence();
}

static void test_strange_records(void **state)
{
	struct wire_msg twice[2] = {};

	(void)state;
	say(1, WIRE_STOP, 5);
	assert_int_equal(pincap_dispatch(), 1);
	skip_records();
	say(1, WIRE_RESUME, 4); /* stale */
	say(1, WIRE_RESUME, 0); /* no epoch at all */
	say(2, WIRE_RESUME, 6); /* another version */
	say(0, WIRE_RESUME, 6); /* likewise */
	say(1, 77, 7);		/* another kind */
	say(1, WIRE_HELLO, 7);	/* not the controller's to say */
	say(1, WIRE_WITHHELD, 7);
	assert_int_equal(send(peer, "x", 1, 0), 1);
	twice[0] = (struct wire_msg){ .version = 1, .kind = WIRE_RESUME, .epoch = 9 };
	assert_int_equal(send(peer, twice, sizeof(twice), 0), sizeof(twice));
	assert_int_equal(pincap_dispatch(), 1);
	expect_silence();
	/* The same epoch again: acknowledged again. */
	say(1, WIRE_STOP, 5);
	assert_int_equal(pincap_dispatch(), 1);
	assert_int_equal(pincap_dispatch(), 1);
	skip_records();
	say(1, WIRE_STOP, 8);
	say(1, WIRE_RESUME, 10);
	assert_int_equal(pincap_dispatch(), 0);
}

static void test_peer_dies(void **state)
{
	struct wire_msg msg;

	(void)state;
	say(1, WIRE_STOP, 9);
	assert_int_equal(mlock(mem, BIG), -1);
	close(peer);
	assert_int_equal(mlock(mem, BIG), 0);
	assert_int_equal(munlock(mem, BIG), 0);
	/* The next controller counts from 1 again. */
	accept_soon();
	assert_int_equal(recv(peer, &msg, sizeof(msg), 0), sizeof(msg));
	assert_int_equal(msg.kind, WIRE_HELLO);
	say(1, WIRE_STOP, 1);
	assert_int_equal(pincap_dispatch(), 1);
}

/* The program closes what it does not know, and gets the number for a socket of
 * its own. */
static void test_stolen_number(void **state)
{
	char text[8] = "";
	int fd = pincap_fd();
	int p[2];

	(void)state;
	assert_true(fd >= 0);
	assert_return_code(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, p), errno);
	assert_int_equal(dup2(p[0], fd), fd);
	assert_int_equal(write(p[1], "precious", 8), 8);
	nudge();
	assert_int_equal(pincap_charge(BIG, PINCAP_KIND_LOCK), 0);
	pincap_settle();
	assert_int_equal(read(fd, text, 8), 8);
	assert_memory_equal(text, "precious", 8);
	close(fd);
	close(p[0]);
	close(p[1]);
	close(peer);
	accept_soon();
	expect(WIRE_HELLO, 0, 0, 0);
}

/* The child is not stopped until told, and on a connection of its own; it does
 * not keep the parent's open. */
static void test_fork(void **state)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);
	int parents = peer;
	int status;
	int p[2];
	pid_t pid;
	char c;

	(void)state;
	say(1, WIRE_STOP, 1);
	assert_int_equal(pincap_dispatch(), 1);
	skip_records();
	assert_return_code(pipe(p), errno);
	pid = fork();
	if (pid == 0) {
		alarm(10);
		close(p[1]);
		_exit(pincap_dispatch() || mlock(mem, BIG) || read(p[0], &c, 1) != 0);
	}
	do
		peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	while (peer < 0 && usleep(1000) == 0 && waitpid(pid, &status, WNOHANG) == 0);
	assert_true(peer >= 0);
	assert_return_code(getsockopt(peer, SOL_SOCKET, SO_PEERCRED, &cred, &len), errno);
	assert_int_equal(cred.pid, pid);

	assert_int_equal(pincap_dispatch(), 1);
	close(pincap_fd());
	assert_int_equal(recv(parents, &c, 1, 0), 0);
	close(parents);
	close(p[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(p[0]);
	close(peer);
	accept_soon();
}

/* A controller that hangs, before and after the connection. */
static void test_never_blocks(void **state)
{
	struct timespec start;
	int filler;
	int i;

	(void)state;
	clock_gettime(CLOCK_MONOTONIC, &start);
	say(1, WIRE_STOP, 1);
	for (i = 0; i < 5000; i++) /* more WITHHELD than the socket holds */
		assert_int_equal(pincap_charge(BIG, PINCAP_KIND_DRIVER), -EDQUOT);
	assert_true(elapsed_ms(&start) < 1000);
	skip_records();
	nudge(); /* the totals are absolute: the next record makes good */
	skip_records();

	close(peer);
	close(listener);
	nudge();
	listen_again(0);
	filler = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_return_code(connect(filler, (struct sockaddr *)&address, sizeof(address)), errno);
	clock_gettime(CLOCK_MONOTONIC, &start);
	while (elapsed_ms(&start) < 1200)
		nudge();
	assert_true(pincap_fd() < 0);
	assert_true(elapsed_ms(&start) < 2000);
	close(filler);
	close(accept(listener, NULL, NULL));
	accept_soon();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_hello, teardown),
		cmocka_unit_test_setup_teardown(test_stop_resume, setup, teardown),
		cmocka_unit_test_setup_teardown(test_strange_records, setup, teardown),
		cmocka_unit_test_setup_teardown(test_peer_dies, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stolen_number, setup, teardown),
		cmocka_unit_test_setup_teardown(test_fork, setup, teardown),
		cmocka_unit_test_setup_teardown(test_never_blocks, setup, teardown),
	};
	int rc = require_preload();

	if (rc)
		return rc;
	return cmocka_run_group_tests(tests, controller_begin, controller_end);
}
