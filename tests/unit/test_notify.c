/* SPDX-License-Identifier: MIT */
/*
 * The controller's end of the protocol, over its real socket. This process plays
 * the library; other processes where it matters who speaks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "tests/unit/listener.h"
#include "userspace/common/cgroup.h"

#define LOTS 2000 /* records, more than any socket buffer holds */

static void test_socket(void **state)
{
	struct fixture *f = *state;
	struct notify *other = NULL;
	char longer[200];
	struct stat st;

	assert_int_equal(stat(f->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0666);
	assert_int_equal(notify_new(&other, f->event, f->path, "/"), -EADDRINUSE);
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	assert_int_equal(notify_new(&other, f->event, longer, "/"), -ENAMETOOLONG);
	assert_int_equal(notify_new(&other, f->event, "/nonexistent/sock", "/"), -ENOENT);
	assert_null(other);
	assert_int_equal(stat(f->path, &st), 0); /* the failure took nothing away */
	assert_null(notify_free(NULL));
}

static void test_stop_resume(void **state)
{
	struct fixture *f = *state;
	int a = hello(f), b = hello(f);
	uint64_t epoch = 0;

	assert_int_equal(stats(f).peers, 2);
	assert_int_equal(stats(f).told, 0);
	assert_int_equal(hear(a, NULL), 0); /* not full: no answer */

	notify_scope_stop(f->scope, NOTIFY_ALL, 4096);
	assert_int_equal(hear(a, &epoch), WIRE_STOP);
	assert_int_equal(epoch, 1);
	assert_int_equal(hear(b, &epoch), WIRE_STOP);
	assert_int_equal(stats(f).acked, 0);
	assert_int_equal(stats(f).told, 2);
	say(a, WIRE_ACK, 1, 0, 0);
	serve(f);
	assert_int_equal(stats(f).acked, 1);
	assert_int_equal(stats(f).obeyed, 1);

	notify_scope_resume(f->scope);
	assert_int_equal(hear(a, &epoch), WIRE_RESUME);
	assert_int_equal(epoch, 2);
	assert_int_equal(stats(f).acked, 0); /* of this epoch */
	say(a, WIRE_ACK, 2, 0, 0);
	say(b, WIRE_ACK, 1, 0, 0); /* of the epoch before: late */
	serve(f);
	assert_int_equal(stats(f).acked, 1);
	say(b, WIRE_ACK, 2, 0, 0);
	serve(f);
	assert_int_equal(stats(f).acked, 2);
	assert_int_equal(stats(f).stops, 1);
	assert_int_equal(stats(f).resumes, 1);
	assert_int_equal(stats(f).epoch, 2);
	close(a);
	close(b);
	serve(f);
	assert_int_equal(stats(f).peers, 0);
	assert_int_equal(stats(f).told, 2); /* kept */
	assert_int_equal(stats(f).obeyed, 2);
}

static void test_late_joiner(void **state)
{
	struct fixture *f = *state;
	uint64_t epoch = 0;
	int a, b;

	notify_scope_stop(f->scope, NOTIFY_ALL, 0);
	a = dial(f);
	serve(f);
	assert_int_equal(hear(a, NULL), 0); /* has not said who it is */
	assert_int_equal(stats(f).peers, 0);
	say(a, WIRE_HELLO, 0, 0, 0);
	serve(f);
	assert_int_equal(hear(a, &epoch), WIRE_STOP);
	assert_int_equal(epoch, 2); /* one of its own */
	say(a, WIRE_HELLO, 0, 0, 0);
	serve(f);
	assert_int_equal(hear(a, NULL), 0); /* said once */

	notify_scope_resume(f->scope);
	b = hello(f);
	assert_int_equal(hear(b, NULL), 0); /* begins unstopped */
	assert_int_equal(hear(a, NULL), WIRE_RESUME);
	notify_scope_stop(f->scope, NOTIFY_ALL, 0);
	assert_int_equal(hear(b, &epoch), WIRE_STOP);
	assert_int_equal(epoch, 4);
	close(a);
	close(b);
}

static void test_rubbish(void **state)
{
	struct fixture *f = *state;
	struct wire_msg m = { PINCAP_WIRE_VERSION + 1, WIRE_WITHHELD, 0, 5, 5 };
	char large[4096] = { 0 };
	int a = dial(f);

	say(a, WIRE_WITHHELD, 0, 7, 7); /* before hello */
	serve(f);
	assert_int_equal(stats(f).withheld_count, 0);
	say(a, WIRE_HELLO, 0, 0, 0);
	send(a, &m, sizeof(m), 0);
	send(a, &m, 7, 0);
	m.version = PINCAP_WIRE_VERSION;
	memcpy(large, &m, sizeof(m));
	send(a, large, sizeof(large), 0);
	say(a, 99, 0, 5, 5);
	say(a, WIRE_STOP, 77, 5, 5);
	say(a, WIRE_ACK, 1000, 0, 0); /* of an epoch that never was */
	serve(f);
	assert_int_equal(stats(f).peers, 1);
	assert_int_equal(stats(f).withheld_count, 0);
	notify_scope_stop(f->scope, NOTIFY_ALL, 0);
	assert_int_equal(stats(f).acked, 0);
	say(a, WIRE_ACK, 2, 0, 0); /* of one to come */
	serve(f);
	assert_int_equal(stats(f).acked, 0);
	say(a, WIRE_WITHHELD, 1, 3, 4096);
	serve(f);
	assert_int_equal(stats(f).withheld_count, 3);
	send(a, "", 0, 0); /* reads like the end */
	serve(f);
	assert_int_equal(stats(f).peers, 0);
	close(a);
}

static void test_totals(void **state)
{
	struct fixture *f = *state;
	int a = hello(f);
	pid_t pid;

	say(a, WIRE_WITHHELD, 0, 3, 300);
	say(a, WIRE_WITHHELD, 0, 5, 500);
	say(a, WIRE_WITHHELD, 0, 4, 400); /* overtaken: absolute figures only rise */
	serve(f);
	assert_int_equal(stats(f).withheld_count, 5);
	assert_int_equal(stats(f).withheld_bytes, 500);
	close(a);
	serve(f);
	assert_int_equal(stats(f).withheld_count, 5);

	/* the same process again: its figures go on and are not added */
	a = hello(f);
	assert_int_equal(stats(f).withheld_count, 5);
	say(a, WIRE_WITHHELD, 0, 6, 600);
	serve(f);
	assert_int_equal(stats(f).withheld_count, 6);

	/* another process: added, also when it dies without a word */
	pid = fork();
	if (!pid) {
		int fd = dial(f);

		_exit(fd < 0 || say(fd, WIRE_HELLO, 0, 0, 0) ||
		      say(fd, WIRE_WITHHELD, 0, 10, 1000));
	}
	assert_true(sd_event_run(f->event, 5000000) > 0); /* accepted while it lives or not */
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	serve(f);
	/* one that is gone before it is accepted cannot be asked for its cgroup */
	if (!stats(f).turned_away) {
		assert_int_equal(stats(f).withheld_count, 16);
		assert_int_equal(stats(f).withheld_bytes, 1600);
	}
	say(a, WIRE_WITHHELD, 0, 7, UINT64_MAX);
	serve(f);
	assert_true(stats(f).withheld_bytes == UINT64_MAX); /* saturates */
	close(a);
}

/* A program that closes with signals unread: what it wrote before still counts. */
static void test_last_words(void **state)
{
	struct fixture *f = *state;
	int a = hello(f);

	notify_scope_stop(f->scope, NOTIFY_ALL, 0);
	say(a, WIRE_ACK, 1, 2, 200);
	say(a, WIRE_WITHHELD, 1, 9, 900);
	close(a);
	notify_scope_resume(f->scope);
	serve(f);
	assert_int_equal(stats(f).peers, 0);
	assert_int_equal(stats(f).withheld_count, 9);
	assert_int_equal(stats(f).withheld_bytes, 900);
}

/* One that never reads is not waited for, loses nothing that matters, and does
 * not keep the others from theirs. */
static void test_deaf_peer(void **state)
{
	struct fixture *f = *state;
	int deaf = hello(f), b = hello(f), kind = 0, last = 0;
	uint64_t epoch = 0;

	for (unsigned int i = 0; i < LOTS; i++) {
		notify_scope_stop(f->scope, NOTIFY_ALL, 0);
		assert_int_equal(hear(b, NULL), WIRE_STOP);
		notify_scope_resume(f->scope);
		assert_int_equal(hear(b, NULL), WIRE_RESUME);
	}
	notify_scope_stop(f->scope, NOTIFY_ALL, 0);
	serve(f);
	assert_int_equal(stats(f).peers, 2);
	for (unsigned int i = 0; i < LOTS * 3; i++) { /* it wakes up */
		kind = hear(deaf, &epoch);
		serve(f);
		if (!kind)
			break;
		last = kind;
	}
	assert_int_equal(last, WIRE_STOP);
	assert_int_equal(epoch, 2 * LOTS + 1);
	say(deaf, WIRE_ACK, epoch, 0, 0);
	serve(f);
	assert_int_equal(stats(f).acked, 1);
	close(deaf);
	close(b);
}

/* Speaks from inside `cgpath`. Whether it was listened to: it gets a STOP. */
static bool is_heard_from(struct fixture *f, const char *cgpath)
{
	int gate[2], status;
	pid_t pid;

	assert_int_equal(pipe(gate), 0);
	pid = fork();
	if (!pid) {
		struct wire_msg m;
		char byte;
		int fd;

		if (read(gate[0], &byte, 1) != 1)
			_exit(2);
		fd = dial(f);
		if (fd < 0 || say(fd, WIRE_HELLO, 0, 0, 0) < -EPIPE)
			_exit(2);
		_exit(recv(fd, &m, sizeof(m), 0) == sizeof(m) ? 0 : 1);
	}
	assert_int_equal(cgroup_attach(cgpath, pid), 0);
	assert_int_equal(write(gate[1], "", 1), 1);
	close(gate[0]);
	close(gate[1]);
	while (!waitpid(pid, &status, WNOHANG))
		assert_true(sd_event_run(f->event, 10000) >= 0);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) < 2);
	return WEXITSTATUS(status) == 0;
}

static void test_cgroups(void **state)
{
	static const struct {
		const char *suffix;
		bool heard;
	} table[] = {
		{ "", true },
		{ "/below", true },
		{ "/below/deep", true },
		{ "x", false }, /* a sibling whose name begins alike */
	};
	struct fixture *f = *state;
	char base[64], path[128];
	unsigned int away = 0;

	snprintf(base, sizeof(base), "/pincap-test-notify-%d", (int)getpid());
	if (cgroup_create(base) != 1)
		skip();
	start_at(f, base);
	notify_scope_stop(f->scope, NOTIFY_ALL, 0);
	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		snprintf(path, sizeof(path), "%s%s", base, table[i].suffix);
		assert_true(cgroup_create(path) >= 0);
		assert_int_equal(is_heard_from(f, path), table[i].heard);
		serve(f);
		away += !table[i].heard;
		assert_int_equal(stats(f).turned_away, away);
	}
	assert_int_equal(stats(f).told, 3);
	for (size_t i = ARRAY_SIZE(table); i-- > 0;) {
		snprintf(path, sizeof(path), "%s%s", base, table[i].suffix);
		assert_int_equal(cgroup_remove(path), 0);
	}
}

/* We ourselves are not below a cgroup that is not there. */
static void test_outsider(void **state)
{
	struct fixture *f = *state;
	int a;

	start_at(f, "/pincap-test-nowhere");
	notify_scope_stop(f->scope, NOTIFY_ALL, 0);
	a = dial(f);
	say(a, WIRE_HELLO, 0, 0, 0);
	serve(f);
	assert_int_equal(hear(a, NULL), -1);
	assert_int_equal(stats(f).turned_away, 1);
	assert_int_equal(stats(f).told, 0);
	close(a);
}

/* More peers than are remembered one by one: the sums hold. */
static void test_many(void **state)
{
	struct fixture *f = *state;
	const unsigned int count = NOTIFY_MAX_GONE + 50;

	notify_scope_stop(f->scope, NOTIFY_ALL, 0);
	for (unsigned int i = 0; i < 3; i++) {
		int a = hello(f), b = hello(f);

		assert_int_equal(hear(a, NULL), WIRE_STOP);
		say(a, WIRE_ACK, 1, 0, 0);
		serve(f);
		close(a);
		close(b);
		serve(f);
	}
	/* every second connection of this process finds its record again */
	assert_int_equal(stats(f).told, 2);
	for (unsigned int i = 0; i < count; i++) {
		pid_t pid = fork();

		if (!pid) {
			int fd = dial(f);
			struct wire_msg m;

			if (fd < 0 || say(fd, WIRE_HELLO, 0, 0, 0) ||
			    recv(fd, &m, sizeof(m), 0) != sizeof(m))
				_exit(1);
			_exit(say(fd, WIRE_ACK, m.epoch, 2, 100) != 0);
		}
		while (!waitpid(pid, NULL, WNOHANG))
			assert_true(sd_event_run(f->event, 1000) >= 0);
		serve(f);
	}
	assert_int_equal(stats(f).told, 2 + count);
	assert_int_equal(stats(f).withheld_count, 2 * count);
	assert_int_equal(stats(f).withheld_bytes, 100 * count);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_socket),    TEST(test_stop_resume), TEST(test_late_joiner),
		TEST(test_rubbish),   TEST(test_totals),      TEST(test_last_words),
		TEST(test_deaf_peer), TEST(test_cgroups),     TEST(test_outsider),
		TEST(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
