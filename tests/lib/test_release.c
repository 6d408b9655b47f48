/* SPDX-License-Identifier: MIT */
/*
 * RELEASE: heard by every library, given by programs that offer a function for it.
 * Run under LD_PRELOAD.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/lib/controller.h"
#include "tests/lib/fakekernel.h"
#include "userspace/lib/pincap.h"

static struct {
	unsigned int calls;
	uint64_t wanted; /* at the last call */
	uint64_t gives;	 /* at most, at a time */
	pthread_t thread;
	int rc; /* of what it tries */
} program;

static uint64_t give(uint64_t bytes, void *ctx)
{
	assert_ptr_equal(ctx, &program);
	program.calls++;
	program.wanted = bytes;
	program.thread = pthread_self();
	errno = ENOTTY;
	return bytes < program.gives ? bytes : program.gives;
}

static uint64_t try_strange_things(uint64_t bytes, void *ctx)
{
	(void)ctx;
	program.calls++;
	pincap_dispatch(); /* does not call us again */
	program.rc = pincap_on_release(NULL, NULL);
	return bytes;
}

static int setup_giver(void **state)
{
	memset(&program, 0, sizeof(program));
	program.gives = UINT64_MAX;
	assert_int_equal(pincap_on_release(give, &program), 0);
	return setup(state);
}

static int teardown_giver(void **state)
{
	assert_int_equal(pincap_on_release(NULL, NULL), 0);
	return teardown(state);
}

static uint64_t wanted(uint64_t epoch)
{
	struct pincap_info info = { .size = sizeof(info) };

	assert_int_equal(pincap_status(&info), 0);
	assert_int_equal(info.size, sizeof(info));
	assert_int_equal(info.epoch, epoch);
	return info.release_bytes;
}

/* An unmodified program hears, keeps what it has, and says that it heard. */
static void test_no_function(void **state)
{
	(void)state;
	assert_int_equal(wanted(0), 0);
	say_bytes(1, WIRE_RELEASE, 3, BIG);
	nudge();
	expect(WIRE_ACK, 3, 0, 0);
	assert_int_equal(pincap_dispatch(), 0);
	expect_silence();
	assert_int_equal(wanted(3), BIG);
	say_bytes(1, WIRE_RELEASE, 4, 2 * BIG + 1); /* instead, not in addition */
	assert_int_equal(wanted(4), 2 * BIG + PAGE);
	expect(WIRE_ACK, 4, 0, 0);
	/* stopped or not is another matter */
	say(1, WIRE_STOP, 5);
	assert_int_equal(pincap_dispatch(), 1);
	expect(WIRE_ACK, 5, 0, 0);
	assert_int_equal(wanted(5), 2 * BIG + PAGE);
	say_bytes(1, WIRE_RELEASE, 6, 0); /* withdrawn */
	assert_int_equal(pincap_dispatch(), 1);
	expect(WIRE_ACK, 6, 0, 0);
	assert_int_equal(wanted(6), 0);
	say_bytes(1, WIRE_RELEASE, 4, BIG); /* stale */
	say_bytes(1, WIRE_RELEASE, 0, BIG);
	say_bytes(2, WIRE_RELEASE, 7, BIG);
	assert_int_equal(pincap_dispatch(), 1);
	assert_int_equal(wanted(6), 0);
	expect_silence();
}

static void test_give(void **state)
{
	struct pollfd pfd = { .fd = pincap_fd(), .events = POLLIN };

	(void)state;
	assert_int_equal(pincap_dispatch(), 0);
	assert_int_equal(program.calls, 0);
	say_bytes(1, WIRE_RELEASE, 1, BIG);
	assert_int_equal(poll(&pfd, 1, 0), 1);
	nudge(); /* a hook never calls it */
	mlock(mem, PAGE);
	munlock(mem, PAGE);
	assert_int_equal(program.calls, 0);
	expect(WIRE_ACK, 1, 0, 0);
	errno = EXDEV;
	assert_int_equal(pincap_dispatch(), 0);
	assert_int_equal(errno, EXDEV);
	assert_int_equal(program.calls, 1);
	assert_int_equal(program.wanted, BIG);
	assert_true(pthread_equal(program.thread, pthread_self()));
	expect(WIRE_GIVEN, 1, 1, BIG);
	assert_int_equal(wanted(1), 0);
	pincap_dispatch();
	assert_int_equal(program.calls, 1);
	/* the same epoch again: its ACK was lost */
	say_bytes(1, WIRE_RELEASE, 1, BIG);
	pincap_dispatch();
	assert_int_equal(program.calls, 1);
	expect(WIRE_ACK, 1, 0, 0);
	expect_silence();
}

static void test_in_pieces(void **state)
{
	(void)state;
	program.gives = PAGE;
	say_bytes(1, WIRE_RELEASE, 1, 3 * PAGE);
	pincap_dispatch();
	expect(WIRE_ACK, 1, 0, 0);
	expect(WIRE_GIVEN, 1, 1, PAGE);
	assert_int_equal(wanted(1), 2 * PAGE);
	pincap_dispatch();
	assert_int_equal(program.wanted, 2 * PAGE);
	expect(WIRE_GIVEN, 1, 2, 2 * PAGE);
	program.gives = 0; /* no more to give: not asked again ... */
	pincap_dispatch();
	pincap_dispatch();
	assert_int_equal(program.calls, 3);
	expect_silence();
	assert_int_equal(wanted(1), PAGE);
	say_bytes(1, WIRE_RELEASE, 2, 5 * PAGE); /* ... until the controller does */
	program.gives = UINT64_MAX;
	pincap_dispatch();
	assert_int_equal(program.wanted, 5 * PAGE);
	expect(WIRE_ACK, 2, 0, 0);
	expect(WIRE_GIVEN, 2, 1, 5 * PAGE);
	/* or it has another function */
	program.gives = 0;
	say_bytes(1, WIRE_RELEASE, 3, PAGE);
	pincap_dispatch();
	assert_int_equal(program.calls, 5);
	assert_int_equal(pincap_on_release(give, &program), 0);
	program.gives = 7 * PAGE;
	pincap_dispatch();
	assert_int_equal(program.calls, 6);
	expect(WIRE_ACK, 3, 0, 0);
	expect(WIRE_GIVEN, 3, 1, PAGE);
}

static void test_withdrawn(void **state)
{
	(void)state;
	say_bytes(1, WIRE_RELEASE, 1, BIG);
	say_bytes(1, WIRE_RELEASE, 2, 0);
	pincap_dispatch();
	assert_int_equal(program.calls, 0);
	expect(WIRE_ACK, 1, 0, 0);
	expect(WIRE_ACK, 2, 0, 0);
	expect_silence();
}

static void test_strange_function(void **state)
{
	(void)state;
	assert_int_equal(pincap_on_release(try_strange_things, NULL), 0);
	say_bytes(1, WIRE_RELEASE, 1, UINT64_MAX);
	pincap_dispatch();
	assert_int_equal(program.calls, 1);
	assert_int_equal(program.rc, -EBUSY);
	skip_records();
	pincap_dispatch();
	assert_int_equal(program.calls, 1);
}

/* The next controller's first epoch is not the last one's. */
static void test_controller_dies(void **state)
{
	(void)state;
	say_bytes(1, WIRE_RELEASE, 1, BIG);
	program.gives = PAGE;
	pincap_dispatch();
	assert_int_equal(program.calls, 1);
	close(peer);
	pincap_dispatch();
	assert_int_equal(program.calls, 1); /* nobody wants it any more */
	assert_int_equal(wanted(1), 0);
	accept_soon();
	expect(WIRE_HELLO, 0, 0, 0);
	say_bytes(1, WIRE_RELEASE, 1, 2 * PAGE);
	pincap_dispatch();
	assert_int_equal(program.calls, 2);
	assert_int_equal(program.wanted, 2 * PAGE);
	expect(WIRE_ACK, 1, 0, 0);
	expect(WIRE_GIVEN, 1, 1, PAGE);
}

/* The child is not asked for what its parent has. */
static void test_fork(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	say_bytes(1, WIRE_RELEASE, 1, BIG);
	nudge();
	pid = fork();
	if (!pid) {
		alarm(10);
		pincap_dispatch();
		_exit(program.calls != 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	pincap_dispatch();
	assert_int_equal(program.calls, 1);
	close(accept(listener, NULL, NULL)); /* the child's */
}

static atomic_uint in_function, at_once, given_in_all;

static uint64_t give_a_page(uint64_t bytes, void *ctx)
{
	(void)ctx;
	(void)bytes;
	if (in_function++)
		at_once++;
	usleep(100);
	in_function--;
	given_in_all++;
	return PAGE;
}

static void *dispatch(void *ctx)
{
	(void)ctx;
	for (unsigned int i = 0; i < 200; i++)
		pincap_dispatch();
	return NULL;
}

/* However many dispatch: one gives at a time, and no more than is wanted. */
static void test_threads(void **state)
{
	pthread_t threads[4];

	(void)state;
	assert_int_equal(pincap_on_release(give_a_page, NULL), 0);
	say_bytes(1, WIRE_RELEASE, 1, 50 * PAGE);
	for (unsigned int i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, dispatch, NULL), 0);
	for (unsigned int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(at_once, 0);
	assert_int_equal(given_in_all, 50);
	assert_int_equal(wanted(1), 0);
	pincap_dispatch();
	skip_records();
}

/* Those who were built with the first version of the structure. */
static void test_older_header(void **state)
{
	struct pincap_info info;

	(void)state;
	say_bytes(1, WIRE_RELEASE, 9, BIG);
	memset(&info, 0xaa, sizeof(info));
	info.size = 104;
	assert_int_equal(pincap_status(&info), 0);
	assert_int_equal(info.size, 104);
	assert_true(info.epoch == 0xaaaaaaaaaaaaaaaaULL);
	info.size = 103;
	assert_int_equal(pincap_status(&info), -EINVAL);
}

#define GIVER(fn) cmocka_unit_test_setup_teardown(fn, setup_giver, teardown_giver)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_function, setup, teardown),
		GIVER(test_give),
		GIVER(test_in_pieces),
		GIVER(test_withdrawn),
		GIVER(test_strange_function),
		GIVER(test_controller_dies),
		GIVER(test_fork),
		GIVER(test_threads),
		cmocka_unit_test_setup_teardown(test_older_header, setup, teardown),
	};
	int rc = require_preload();

	return rc ? rc : cmocka_run_group_tests(tests, controller_begin, controller_end);
}
