/* SPDX-License-Identifier: MIT */
/*
 * Everybody else's socket options behave as if pincap were not there: one table of
 * calls, made by the same process before pincap is loaded and after, must return the
 * same, to the last byte. Runs in a network namespace of its own.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "tests/kernel/ask.h"
#include "tests/kernel/child.h"
#include "tests/kernel/harness.h"

#define ROOM	  8192
#define SOURCES	  60 /* of MCAST_MSFILTER: makes an option of 7816 bytes */
#define MAX_CALLS 320

struct answer {
	char what[64];
	int ret;
	int err;
	socklen_t len;
	unsigned char bytes[ROOM];
};

struct table {
	int n;
	struct answer answers[MAX_CALLS];
};

static struct answer *next(struct table *t, const char *what)
{
	struct answer *a = &t->answers[t->n];

	CHILD_EQUAL(t->n < MAX_CALLS, 1);
	t->n++;
	memset(a, 0, sizeof(*a));
	snprintf(a->what, sizeof(a->what), "%s", what);
	return a;
}

static void set(struct table *t, int fd, int level, int name, const void *value, int len,
		const char *what)
{
	struct answer *a = next(t, what);

	errno = 0;
	a->ret = setsockopt(fd, level, name, value, (socklen_t)len);
	a->err = errno;
}

/* Poisoned, so that bytes beyond the answer count too. */
static void get(struct table *t, int fd, int level, int name, int len, const char *what)
{
	struct answer *a = next(t, what);

	memset(a->bytes, 0xa5, sizeof(a->bytes));
	a->len = (socklen_t)len;
	errno = 0;
	a->ret = getsockopt(fd, level, name, a->bytes, &a->len);
	a->err = errno;
}

#define SET(fd, level, name, value, len) set(t, fd, level, name, value, len, "set " #name)
#define GET(fd, level, name, len)	 get(t, fd, level, name, len, "get " #name)

static const int lengths[] = { 0, 1, 3, 4, 5, 8, 12, 100, 4095, 4096, 4097, 6000, 8192, -1 };

#define N_LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

/* An int at the front of every length. */
static void plain_options(struct table *t, int fd)
{
	static int room[ROOM / sizeof(int)];

	for (size_t i = 0; i < N_LENGTHS; i++) {
		int len = lengths[i];

		room[0] = 65536;
		SET(fd, SOL_SOCKET, SO_RCVBUF, room, len);
		GET(fd, SOL_SOCKET, SO_RCVBUF, len);
		room[0] = 1;
		SET(fd, SOL_SOCKET, SO_REUSEADDR, room, len);
		GET(fd, SOL_SOCKET, SO_REUSEADDR, len);
		room[0] = 9;
		SET(fd, SOL_IP, IP_TTL, room, len);
		GET(fd, SOL_IP, IP_TTL, len);
	}
	SET(fd, SOL_SOCKET, SO_RCVBUF, (void *)8, 4);
	SET(fd, SOL_IP, IP_TTL, (void *)8, 4);
	SET(fd, SOL_SOCKET, SO_RCVBUF, NULL, 0);
}

/* What nobody knows: other levels, and other names of our own. */
static void unknown_options(struct table *t, int fd)
{
	static int room[ROOM / sizeof(int)];

	for (size_t i = 0; i < N_LENGTHS; i++) {
		if (lengths[i] < 0) /* no kernel looks that far with any program attached */
			continue;
		SET(fd, 12345, 7, room, lengths[i]);
		GET(fd, 12345, 7, lengths[i]);
		SET(fd, SOL_PINCAP, 77, room, lengths[i]);
		GET(fd, SOL_PINCAP, 77, lengths[i]);
		SET(fd, SOL_SOCKET, 9999, room, lengths[i]);
		GET(fd, SOL_SOCKET, 9999, lengths[i]);
	}
}

static void filter_options(struct table *t, int fd)
{
	struct sock_filter code[] = { BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
				      BPF_STMT(BPF_RET | BPF_K, 0xffff) };
	struct sock_fprog prog = { 2, code }, bad = { 0, code };

	SET(fd, SOL_SOCKET, SO_ATTACH_FILTER, &bad, sizeof(bad));
	SET(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog));
	GET(fd, SOL_SOCKET, SO_GET_FILTER, 0);
	GET(fd, SOL_SOCKET, SO_GET_FILTER, 1);
	GET(fd, SOL_SOCKET, SO_GET_FILTER, 2);
	GET(fd, SOL_SOCKET, SO_GET_FILTER, 6000);
	SET(fd, SOL_SOCKET, SO_DETACH_FILTER, NULL, 0);
}

static void big_options(struct table *t, int fd)
{
	struct sockaddr_in group = { .sin_family = AF_INET, .sin_addr = { htonl(0xe0010101) } };
	struct ip_mreqn join = { .imr_multiaddr = group.sin_addr, .imr_ifindex = 1 };
	static union {
		struct group_filter f;
		char room[ROOM];
	} u;

	SET(fd, SOL_IP, IP_ADD_MEMBERSHIP, &join, sizeof(join));
	memset(&u, 0, sizeof(u));
	u.f.gf_interface = 1;
	u.f.gf_fmode = MCAST_INCLUDE;
	u.f.gf_numsrc = SOURCES;
	memcpy(&u.f.gf_group, &group, sizeof(group));
	for (int i = 0; i < SOURCES; i++) {
		struct sockaddr_in *source = (void *)(u.room + GROUP_FILTER_SIZE(i));

		source->sin_family = AF_INET;
		source->sin_addr.s_addr = htonl(0x0a000001 + i);
	}
	for (int len = 4094; len <= 4098; len++)
		SET(fd, SOL_IP, MCAST_MSFILTER, &u, len);
	SET(fd, SOL_IP, MCAST_MSFILTER, &u, GROUP_FILTER_SIZE(SOURCES) - 1);
	SET(fd, SOL_IP, MCAST_MSFILTER, &u, GROUP_FILTER_SIZE(SOURCES));
	SET(fd, SOL_IP, MCAST_MSFILTER, &u, ROOM);
	SET(fd, SOL_IP, MCAST_MSFILTER, (void *)8, 6000);
	for (size_t i = 0; i < N_LENGTHS; i++) {
		struct answer *a = next(t, "get MCAST_MSFILTER");

		memset(&a->bytes, 0xa5, sizeof(a->bytes));
		memcpy(a->bytes, &u, GROUP_FILTER_SIZE(0));
		a->len = lengths[i];
		errno = 0;
		a->ret = getsockopt(fd, SOL_IP, MCAST_MSFILTER, a->bytes, &a->len);
		a->err = errno;
	}
}

static void run_table(struct table *t)
{
	int udp = socket(AF_INET, SOCK_DGRAM, 0), tcp = socket(AF_INET, SOCK_STREAM, 0), pair[2];

	CHILD_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	t->n = 0;
	plain_options(t, udp);
	unknown_options(t, tcp);
	filter_options(t, udp);
	big_options(t, udp);
	CHILD_EQUAL(listen(tcp, 1), 0); /* else it tells the time */
	GET(tcp, SOL_TCP, TCP_INFO, 6000);
	GET(tcp, SOL_TCP, TCP_INFO, 104);
	GET(tcp, SOL_TCP, TCP_INFO, 1);
	GET(tcp, SOL_TCP, TCP_CONGESTION, 4097);
	GET(pair[0], SOL_SOCKET, SO_PEERCRED, sizeof(struct ucred));
	GET(pair[0], SOL_SOCKET, SO_PEERCRED, 4);
	GET(pair[0], SOL_SOCKET, SO_PEERCRED, 6000);
	GET(pair[0], SOL_SOCKET, SO_PEERCRED, -1);
	close(udp);
	close(tcp);
	close(pair[0]);
	close(pair[1]);
}

static void prepare_network(void)
{
	struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING };
	int fd = socket(AF_INET, SOCK_DGRAM, 0), sysctl;

	CHILD_EQUAL(ioctl(fd, SIOCSIFFLAGS, &lo), 0);
	close(fd);
	sysctl = open("/proc/sys/net/ipv4/igmp_max_msf", O_WRONLY);
	CHILD_EQUAL(write(sysctl, "64", 2), 2);
	close(sysctl);
}

/* Runs the table once for each byte that it is sent. */
static void serve(int fd, struct table *tables)
{
	char c;

	CHILD_EQUAL(unshare(CLONE_NEWNET), 0);
	prepare_network();
	for (int i = 0; i < 2 && read(fd, &c, 1) == 1; i++) {
		run_table(&tables[i]);
		CHILD_EQUAL(write(fd, &c, 1), 1);
	}
	_exit(0);
}

static void order(int fd)
{
	char c = 0;

	assert_int_equal(write(fd, &c, 1), 1);
	if (read(fd, &c, 1) != 1)
		fail_msg("the table was not finished");
}

static void compare(const struct table *without, const struct table *with)
{
	int different = 0, good = 0;

	assert_int_equal(without->n, with->n);
	for (int i = 0; i < with->n; i++) {
		const struct answer *a = &without->answers[i], *b = &with->answers[i];

		good += !a->ret;
		if (!memcmp(a, b, sizeof(*a)))
			continue;
		print_error("%d: %s: %d (%s), length %u; with pincap %d (%s), length %u\n", i,
			    a->what, a->ret, strerror(a->err), a->len, b->ret, strerror(b->err),
			    b->len);
		different++;
	}
	assert_true(good > 40); /* a table of errors would prove little */
	assert_int_equal(different, 0);
}

/* The option of more than a page must have worked, or nothing was shown. */
static void check_big(const struct table *t)
{
	int big = 0;

	for (int i = 0; i < t->n; i++)
		big += !t->answers[i].ret && t->answers[i].len == GROUP_FILTER_SIZE(SOURCES);
	assert_true(big > 0);
}

static void as_without_pincap(void **state)
{
	struct table *tables = mmap(NULL, 2 * sizeof(*tables), PROT_READ | PROT_WRITE,
				    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int pair[2];
	struct cg cg;
	pid_t pid;

	(void)state;
	if (!harness_is_owner()) {
		print_message("somebody else loaded pincap: it stays loaded\n");
		skip();
	}
	cg_make(&cg, NULL, "options");
	assert_return_code(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), errno);
	pid = cg_fork(&cg);
	if (!pid) {
		close(pair[0]);
		serve(pair[1], tables);
	}
	close(pair[1]);
	harness_unload();
	order(pair[0]);
	harness_load();
	order(pair[0]);
	close(pair[0]);
	assert_int_equal(reap(pid), 0);
	compare(&tables[0], &tables[1]);
	check_big(&tables[1]);
	munmap(tables, 2 * sizeof(*tables));
}

static const struct CMUnitTest tests[] = {
	{ "as_without_pincap", as_without_pincap, NULL, test_teardown, NULL },
};

HARNESS_MAIN(tests)
