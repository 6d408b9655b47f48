/* SPDX-License-Identifier: MIT */
/*
 * Many budgets behind one socket: who hears what, with processes in cgroups of
 * their own. Each connects and hands its connection to the test, which plays its
 * library; to the kernel it stays the process's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/unit/listener.h"
#include "userspace/common/cgroup.h"

#define LOTS 3000 /* signals, more than any socket buffer holds */

static char base[64];

/* A process that does nothing but be somewhere. */
struct player {
	pid_t pid;
	int fd;	  /* its connection */
	int hand; /* it dials once for each byte that is written here */
};

static const char *below(const char *suffix)
{
	static char text[4][128];
	static unsigned int next;
	char *path = text[next++ % 4];

	snprintf(path, sizeof(text[0]), "%s%s", base, suffix);
	return path;
}

static void hand_over(int hand, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { "", 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (sendmsg(hand, &msg, 0) != 1)
		_exit(1);
}

static void play(const struct fixture *f, int hand)
{
	char byte;

	while (read(hand, &byte, 1) == 1) {
		int fd = dial(f);

		if (fd < 0)
			_exit(1);
		hand_over(hand, fd);
		close(fd);
	}
	_exit(0);
}

/* One more connection of a player. */
static int dial_as(struct fixture *f, const struct player *p)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control,
			      .msg_controllen = sizeof(control) };
	int fd;

	assert_int_equal(write(p->hand, "", 1), 1);
	assert_int_equal(recvmsg(p->hand, &msg, MSG_CMSG_CLOEXEC), 1);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof(fd));
	assert_int_equal(say(fd, WIRE_HELLO, 0, 0, 0), 0);
	serve(f);
	return fd;
}

static struct player enter(struct fixture *f, const char *cgpath)
{
	struct player p;
	int pair[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	assert_true(cgroup_create(cgpath) >= 0);
	p.pid = fork();
	if (!p.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(pair[0]);
		play(f, pair[1]);
	}
	close(pair[1]);
	p.hand = pair[0];
	assert_int_equal(cgroup_attach(cgpath, p.pid), 0);
	p.fd = dial_as(f, &p);
	return p;
}

static void leave(struct fixture *f, struct player *p)
{
	close(p->fd);
	close(p->hand);
	kill(p->pid, SIGKILL); /* those forked after it have our end of its socket, too */
	assert_int_equal(waitpid(p->pid, NULL, 0), p->pid);
	serve(f);
}

/* All of the host may speak, as to the daemon. */
static int set_up_host(void **state)
{
	if (set_up(state))
		return -1;
	start_at(*state, "/");
	return 0;
}

static int begin(void **state)
{
	struct rlimit files;

	(void)state;
	snprintf(base, sizeof(base), "/pincap-test-scopes-%d", (int)getpid());
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	return 0;
}

static int end(void **state)
{
	static const char *const paths[] = { "/a/deep", "/a", "/b", "" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		cgroup_remove(below(paths[i]));
	return 0;
}

static struct notify_scope *scope(struct fixture *f, const char *suffix)
{
	struct notify_scope *s;

	assert_int_equal(notify_scope_new(&s, f->notify, below(suffix)), 0);
	return s;
}

static struct notify_stats stats_of(struct notify_scope *s)
{
	struct notify_stats st;

	notify_scope_get_stats(s, &st);
	return st;
}

/* The one record that waits there, with the epoch. */
static void hears(const struct player *p, enum wire_kind kind, uint64_t epoch)
{
	uint64_t got = 0;

	assert_int_equal(hear(p->fd, &got), kind);
	assert_int_equal(got, epoch);
	assert_int_equal(hear(p->fd, NULL), 0);
}

static void hears_nothing(const struct player *p)
{
	assert_int_equal(hear(p->fd, NULL), 0);
}

static void test_nested(void **state)
{
	struct fixture *f = *state;
	struct notify_scope *a = scope(f, "/a"), *top = scope(f, ""), *other = NULL;
	struct player in_top = enter(f, below("")), in_a = enter(f, below("/a")),
		      in_deep = enter(f, below("/a/deep")), in_b = enter(f, below("/b"));

	assert_int_equal(notify_scope_new(&other, f->notify, below("/a")), -EEXIST);
	assert_int_equal(notify_scope_new(&other, f->notify, "/"), -EEXIST);
	assert_int_equal(notify_scope_new(&other, f->notify, "a"), -EINVAL);
	assert_int_equal(notify_scope_new(&other, f->notify, ""), -EINVAL);
	assert_int_equal(notify_scope_new(&other, f->notify, "/a/"), -EINVAL);
	assert_null(other);

	notify_scope_stop(a, NOTIFY_ALL, 0);
	hears(&in_a, WIRE_STOP, 1);
	hears(&in_deep, WIRE_STOP, 1);
	hears_nothing(&in_top);
	hears_nothing(&in_b);
	notify_scope_stop(top, NOTIFY_ALL, 0); /* only to those for whom it is news */
	hears(&in_top, WIRE_STOP, 2);
	hears(&in_b, WIRE_STOP, 2);
	hears_nothing(&in_a);
	notify_scope_resume(a); /* stopped from above still */
	hears_nothing(&in_a);
	hears_nothing(&in_deep);
	notify_scope_resume(top);
	hears(&in_top, WIRE_RESUME, 4);
	hears(&in_a, WIRE_RESUME, 4);
	hears(&in_deep, WIRE_RESUME, 4);
	hears(&in_b, WIRE_RESUME, 4);
	notify_scope_stop(f->scope, NOTIFY_ALL, 0); /* "/" */
	hears(&in_b, WIRE_STOP, 5);
	hears(&in_deep, WIRE_STOP, 5);
	leave(f, &in_top);
	leave(f, &in_a);
	leave(f, &in_deep);
	leave(f, &in_b);
}

static void test_protected(void **state)
{
	struct fixture *f = *state;
	struct notify_scope *a = scope(f, "/a"), *b = scope(f, "/b");
	struct player in_deep = enter(f, below("/a/deep")), in_b = enter(f, below("/b"));

	notify_scope_protect(a, true);
	notify_scope_stop(f->scope, NOTIFY_UNPROTECTED, 0);
	hears(&in_b, WIRE_STOP, 2);
	hears_nothing(&in_deep);
	notify_scope_protect(a, false);
	hears(&in_deep, WIRE_STOP, 3);
	notify_scope_protect(b, true);
	hears(&in_b, WIRE_RESUME, 4);
	notify_scope_stop(b, NOTIFY_ALL, 0); /* its own limit */
	hears(&in_b, WIRE_STOP, 5);
	notify_scope_resume(f->scope);
	hears(&in_deep, WIRE_RESUME, 6);
	hears_nothing(&in_b);
	leave(f, &in_deep);
	leave(f, &in_b);
}

static void test_moved(void **state)
{
	struct fixture *f = *state;
	struct notify_scope *a = scope(f, "/a");
	struct player p = enter(f, below("/a")), q = enter(f, below("/b"));

	notify_scope_stop(a, NOTIFY_ALL, 0);
	hears(&p, WIRE_STOP, 1);
	assert_int_equal(cgroup_attach(below("/b"), p.pid), 0);
	notify_refresh(f->notify, 0);
	hears_nothing(&p);
	notify_refresh(f->notify, 1); /* the one that came first */
	hears(&p, WIRE_RESUME, 2);
	assert_int_equal(cgroup_attach(below("/a"), p.pid), 0);
	notify_moved(f->notify, q.pid);
	hears_nothing(&p);
	notify_moved(f->notify, p.pid);
	hears(&p, WIRE_STOP, 3);
	/* in turn: the other one, and the first again */
	assert_true(cgroup_create(below("/a/deep")) >= 0);
	assert_int_equal(cgroup_attach(below("/a/deep"), q.pid), 0);
	notify_refresh(f->notify, 1);
	hears(&q, WIRE_STOP, 4);
	/* gone elsewhere by the time that it would be told */
	assert_int_equal(cgroup_attach(below("/b"), q.pid), 0);
	notify_scope_resume(a);
	hears(&p, WIRE_RESUME, 6);
	hears(&q, WIRE_RESUME, 5); /* of its own: it left */
	assert_int_equal(cgroup_attach(below("/b"), p.pid), 0);
	notify_scope_stop(a, NOTIFY_ALL, 0);
	hears_nothing(&p);
	hears_nothing(&q);
	leave(f, &p);
	leave(f, &q);
}

static void test_scope_comes_and_goes(void **state)
{
	struct fixture *f = *state;
	struct player in_a = enter(f, below("/a")), in_deep = enter(f, below("/a/deep"));
	struct notify_scope *deep = scope(f, "/a/deep"), *a;

	notify_scope_stop(deep, NOTIFY_ALL, 0);
	hears(&in_deep, WIRE_STOP, 1);
	hears_nothing(&in_a);
	a = scope(f, "/a"); /* between it and "/" */
	hears_nothing(&in_a);
	notify_scope_stop(a, NOTIFY_ALL, 0);
	hears(&in_a, WIRE_STOP, 2);
	assert_int_equal(stats_of(a).peers, 2);
	assert_int_equal(stats_of(a).stops, 2);
	assert_int_equal(stats_of(deep).peers, 1);
	say(in_deep.fd, WIRE_ACK, 1, 3, 300);
	say(in_a.fd, WIRE_WITHHELD, 2, 4, 400);
	serve(f);
	assert_int_equal(stats_of(deep).obeyed, 1);
	assert_int_equal(stats_of(deep).acked, 1);
	assert_int_equal(stats_of(deep).withheld_bytes, 300);
	assert_int_equal(stats_of(a).obeyed, 1);
	assert_int_equal(stats_of(a).told, 2);
	assert_int_equal(stats_of(a).withheld_bytes, 700);

	/* its totals stay with the scope above, whoever is gone by then */
	leave(f, &in_deep);
	deep = notify_scope_free(deep);
	assert_null(deep);
	assert_int_equal(stats_of(a).peers, 1);
	assert_int_equal(stats_of(a).withheld_bytes, 700);
	a = notify_scope_free(a);
	hears(&in_a, WIRE_RESUME, 4);
	assert_int_equal(stats_of(f->scope).withheld_bytes, 700);
	assert_int_equal(stats(f).told, 2);
	assert_int_equal(stats(f).stops, 0);
	a = scope(f, "/a"); /* begins unstopped */
	hears_nothing(&in_a);
	assert_int_equal(stats_of(a).peers, 1);
	assert_int_equal(stats_of(a).withheld_bytes, 700); /* they are records still */
	leave(f, &in_a);
}

struct seen {
	unsigned int count;
	struct notify_peer last;
};

static int on_peer(const struct notify_peer *p, void *ctx)
{
	struct seen *seen = ctx;

	seen->count++;
	seen->last = *p;
	return p->pid == getpid() ? 7 : 0;
}

static struct seen see(struct notify_scope *s)
{
	struct seen seen = { 0 };

	assert_int_equal(notify_each_peer(s, on_peer, &seen), 0);
	return seen;
}

static void test_release(void **state)
{
	struct fixture *f = *state;
	struct notify_scope *a = scope(f, "/a"), *b = scope(f, "/b");
	struct player p = enter(f, below("/a/deep")), q = enter(f, below("/b"));
	uint64_t epoch = 0;
	int second = dial_as(f, &p), own;
	struct notify_peer v;

	assert_int_equal(see(a).count, 1); /* one process, two connections */
	assert_int_equal(see(f->scope).count, 2);
	v = see(a).last;
	assert_int_equal(v.pid, p.pid);
	assert_string_equal(v.cgpath, below("/a/deep"));
	assert_int_equal(v.release_epoch, 0);
	assert_int_equal(notify_release(f->notify, 1, 4096, 0), -ESRCH);

	assert_int_equal(notify_release(f->notify, p.pid, 4096, 9000), 0);
	hears(&p, WIRE_RELEASE, 1);
	assert_int_equal(hear(second, &epoch), WIRE_RELEASE);
	assert_int_equal(epoch, 1);
	close(second);
	serve(f);
	hears_nothing(&q);
	v = see(a).last;
	assert_false(v.release_heard);
	assert_int_equal(v.release_bytes, 4096);
	assert_int_equal(v.release_had_bytes, 9000);
	assert_int_equal(stats_of(a).asked, 2); /* connections at a time count each */
	assert_int_equal(stats_of(a).heard, 0);
	assert_int_equal(stats_of(b).asked, 0);
	say(p.fd, WIRE_GIVEN, 2, 1, 77); /* of an epoch that never was */
	say(p.fd, WIRE_ACK, 1, 0, 0);
	serve(f);
	assert_true(see(a).last.release_heard);
	assert_int_equal(see(a).last.given_bytes, 0);
	assert_int_equal(stats_of(a).heard, 1);
	say(p.fd, WIRE_GIVEN, 1, 2, 3000);
	say(p.fd, WIRE_GIVEN, 1, 1, 1000); /* overtaken */
	serve(f);
	v = see(a).last;
	assert_int_equal(v.given_count, 2);
	assert_int_equal(v.given_bytes, 3000);
	assert_int_equal(stats_of(a).withheld_bytes, 0);

	/* again: the figures of the one before are kept apart */
	assert_int_equal(notify_release(f->notify, p.pid, 1096, 6000), 0);
	hears(&p, WIRE_RELEASE, 2);
	assert_false(see(a).last.release_heard);
	assert_int_equal(see(a).last.given_bytes, 0);
	assert_int_equal(stats_of(a).given_bytes, 3000);
	notify_scope_withdraw(a);
	hears(&p, WIRE_RELEASE, 3);
	assert_int_equal(see(a).last.release_epoch, 0);
	notify_scope_withdraw(a); /* nothing is outstanding */
	hears_nothing(&p);

	/* who gave all of it need not be told to stop giving */
	assert_int_equal(notify_release(f->notify, q.pid, 4096, 9000), 0);
	hears(&q, WIRE_RELEASE, 5);
	say(q.fd, WIRE_ACK, 5, 0, 0);
	say(q.fd, WIRE_GIVEN, 5, 1, 8192);
	serve(f);
	notify_scope_withdraw(f->scope);
	hears_nothing(&q);
	assert_int_equal(see(b).last.release_epoch, 0);
	assert_int_equal(stats(f).given_bytes, 11192);
	assert_int_equal(stats(f).asked, 3);
	assert_int_equal(stats(f).heard, 1);

	own = hello(f);
	assert_int_equal(notify_each_peer(f->scope, on_peer, &(struct seen){ 0 }), 7);
	close(own);
	leave(f, &p);
	leave(f, &q);
	assert_int_equal(stats(f).given_bytes, 11192);
}

/* One that does not read: then it gets what holds by then, in order, and nothing
 * that was withdrawn meanwhile. */
static void test_release_deaf(void **state)
{
	struct fixture *f = *state;
	struct notify_scope *a = scope(f, "/a");
	struct player p = enter(f, below("/a"));
	uint64_t epoch = 0, last = 0;
	int kind, before = 0, stops = 0;

	for (unsigned int i = 0; i < LOTS; i++)
		assert_int_equal(notify_release(f->notify, p.pid, 4096 + i, 9000), 0);
	notify_scope_stop(a, NOTIFY_ALL, 0);
	assert_int_equal(notify_release(f->notify, p.pid, 1, 9000), 0);
	assert_int_equal(stats_of(a).heard, 0);
	serve(f);
	for (kind = hear(p.fd, &epoch); kind; kind = hear(p.fd, &epoch)) {
		assert_true(epoch > last);
		stops += kind == WIRE_STOP;
		before = kind;
		last = epoch;
		serve(f);
	}
	assert_int_equal(stops, 1);
	assert_int_equal(before, WIRE_RELEASE);
	assert_int_equal(last, LOTS + 2);
	say(p.fd, WIRE_ACK, last, 0, 0);
	serve(f);
	assert_int_equal(stats_of(a).heard, 1);
	assert_int_equal(stats_of(a).obeyed, 1);
	leave(f, &p);
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

#define SCOPES 1000
#define PLACES 20  /* of these, with processes in them */
#define EACH   200 /* connections */

/* 1,000 budgets and 4,000 connections: only those of one hear of it. */
static void test_many(void **state)
{
	static struct notify_scope *scopes[SCOPES];
	static struct player players[PLACES];
	static int fds[PLACES][EACH];
	struct fixture *f = *state;
	char suffix[32];
	double start;

	start = seconds();
	for (unsigned int i = 0; i < SCOPES; i++) {
		snprintf(suffix, sizeof(suffix), "/s%u", i);
		scopes[i] = scope(f, suffix);
	}
	printf("%d scopes made in %.1f ms\n", SCOPES, (seconds() - start) * 1e3);
	for (unsigned int i = 0; i < PLACES; i++) {
		snprintf(suffix, sizeof(suffix), "/s%u", i * 50);
		players[i] = enter(f, below(suffix));
		for (unsigned int j = 0; j < EACH; j++)
			fds[i][j] = dial_as(f, &players[i]);
	}
	assert_int_equal(stats(f).peers, PLACES * (EACH + 1));
	assert_int_equal(sd_event_run(f->event, 100000), 0); /* at rest nothing happens */

	start = seconds();
	for (unsigned int i = 0; i < SCOPES; i++)
		notify_scope_stop(scopes[i], NOTIFY_ALL, 0);
	printf("all stopped in %.1f ms\n", (seconds() - start) * 1e3);
	for (unsigned int i = 0; i < PLACES; i++) {
		hears(&players[i], WIRE_STOP, i * 50 + 1);
		for (unsigned int j = 0; j < EACH; j++) {
			assert_int_equal(hear(fds[i][j], NULL), WIRE_STOP);
			assert_int_equal(hear(fds[i][j], NULL), 0);
		}
	}
	start = seconds();
	notify_scope_resume(scopes[50]);
	printf("one of %d peers resumed in %.1f ms\n", EACH + 1, (seconds() - start) * 1e3);
	for (unsigned int i = 0; i < PLACES; i++)
		for (unsigned int j = 0; j < EACH; j++)
			assert_int_equal(hear(fds[i][j], NULL), i == 1 ? WIRE_RESUME : 0);
	start = seconds();
	notify_refresh(f->notify, NOTIFY_MAX_PEERS);
	printf("%d peers looked at in %.1f ms\n", PLACES * (EACH + 1), (seconds() - start) * 1e3);

	/* Scopes go before their peers, and the other way round. */
	for (unsigned int i = 0; i < SCOPES; i += 2)
		notify_scope_free(scopes[i]);
	for (unsigned int i = 0; i < PLACES; i++) {
		for (unsigned int j = 0; j < EACH; j++)
			close(fds[i][j]);
		leave(f, &players[i]);
		snprintf(suffix, sizeof(suffix), "/s%u", i * 50);
		assert_int_equal(cgroup_remove(below(suffix)), 0);
	}
	assert_int_equal(stats(f).peers, 0);
	assert_int_equal(stats(f).turned_away, 0);
}

/* One user cannot take all places. */
static void test_one_user(void **state)
{
	struct fixture *f = *state;
	int gate[2], own;
	pid_t pid;

	assert_int_equal(chmod(f->dir, 0755), 0);
	assert_int_equal(pipe(gate), 0);
	pid = fork();
	if (!pid) {
		bool ok = !setuid(65534);
		char byte;

		close(gate[1]);
		for (unsigned int i = 0; ok && i < NOTIFY_MAX_PER_USER + 6; i++)
			ok = dial(f) >= 0;
		_exit(read(gate[0], &byte, 1) || !ok);
	}
	close(gate[0]);
	for (unsigned int i = 0; i < 10 && stats(f).turned_away < 6; i++)
		while (sd_event_run(f->event, 1000000) > 0 && stats(f).turned_away < 6)
			continue;
	assert_int_equal(stats(f).turned_away, 6);
	own = hello(f);
	assert_int_equal(stats(f).peers, 1);
	close(own);
	close(gate[1]);
	assert_int_equal(waitpid(pid, &(int){ 0 }, 0), pid);
	serve(f);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up_host, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_nested),  TEST(test_protected),
		TEST(test_moved),   TEST(test_scope_comes_and_goes),
		TEST(test_release), TEST(test_release_deaf),
		TEST(test_many),    TEST(test_one_user),
	};

	begin(NULL);
	if (cgroup_create(base) != 1) {
		printf("skip: no cgroup can be made\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, end);
}
