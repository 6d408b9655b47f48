/* SPDX-License-Identifier: MIT */
/*
 * kfd-driver: an AMD GPU driver without a GPU. It mounts one regular file whose
 * ioctls behave as those of /dev/kfd do: they come back from the kernel with 0
 * or with an error, buffers get handles, a limit can refuse them, and all of
 * them go when the file is closed. Reading the file shows what is held, for
 * tests to compare with. The workload's side is libkfd-shim.so.
 */
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>

#include "tests/kfd/driver_fuse.h"
#include "tests/kfd/driver_table.h"
#include "userspace/common/util.h"

static const char usage[] = "usage: kfd-driver MOUNTFILE [--limit BYTES] [--errno N] "
			    "[--fail-min BYTES]\n"
			    "Prints \"ready\" once mounted; ends on SIGTERM and SIGINT.\n";

enum { OPT_LIMIT = 1, OPT_ERRNO, OPT_FAIL_MIN };

static const struct option options[] = {
	{ "limit", required_argument, NULL, OPT_LIMIT },
	{ "errno", required_argument, NULL, OPT_ERRNO },
	{ "fail-min", required_argument, NULL, OPT_FAIL_MIN },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static uint64_t parse_number(const char *text, const char *what)
{
	unsigned long long n;
	char *end;

	errno = 0;
	n = strtoull(text, &end, 0);
	if (errno || end == text || *end || strchr(text, '-'))
		errx(2, "%s '%s' is not a number", what, text);
	return n;
}

static int parse_errno(const char *text)
{
	uint64_t n = parse_number(text, "errno");

	/* The runtime repeats a call that was refused with one of these for ever. */
	if (n == EAGAIN || n == EINTR)
		errx(2, "errno %s would make the runtime spin", text);
	if (n < 1 || n > 4095)
		errx(2, "errno '%s' is out of range", text);
	return n;
}

static const char *parse_options(int argc, char **argv, struct table_rules *rules)
{
	int c;

	while ((c = getopt_long(argc, argv, "h", options, NULL)) != -1) {
		switch (c) {
		case OPT_LIMIT:
			rules->limit_bytes = parse_number(optarg, "limit");
			break;
		case OPT_ERRNO:
			rules->refuse_errno = parse_errno(optarg);
			break;
		case OPT_FAIL_MIN:
			rules->fail_min_bytes = parse_number(optarg, "size");
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fputs(usage, stderr);
			exit(2);
		}
	}
	if (optind + 1 != argc) {
		fputs(usage, stderr);
		exit(2);
	}
	return argv[optind];
}

static int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	if (sigprocmask(SIG_BLOCK, &set, NULL))
		return -errno;
	signal(SIGPIPE, SIG_IGN);
	return signalfd(-1, &set, SFD_CLOEXEC);
}

/* Until a signal or until the mount is gone; both are a good end. */
static int serve(struct fuse_file *file, int signal_fd)
{
	struct pollfd fds[] = {
		{ .fd = signal_fd, .events = POLLIN },
		{ .fd = fuse_file_fd(file), .events = POLLIN },
	};
	int err;

	for (;;) {
		if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
			return -errno;
		if (fds[0].revents)
			return 0;
		err = fuse_file_serve(file);
		if (err)
			return err == -ENODEV ? 0 : err;
	}
}

int main(int argc, char **argv)
{
	struct table_rules rules = { .refuse_errno = ENOMEM };
	const char *path = parse_options(argc, argv, &rules);
	struct fuse_file *file;
	struct table *table;
	int signal_fd, ret;

	signal_fd = open_signals();
	if (signal_fd < 0)
		errx(1, "cannot wait for signals");
	ret = table_new(&table, &rules);
	if (ret)
		errx(1, "out of memory");
	ret = fuse_file_open(&file, path, table);
	if (ret)
		errx(1, "mount '%s': %s (needs root and /dev/fuse)", path, strerror(-ret));

	puts("ready");
	fflush(stdout);
	ret = serve(file, signal_fd);
	if (ret)
		warnx("serve '%s': %s", path, strerror(-ret));

	/* The kernel sends nothing more once the mount is closed. */
	fuse_file_close(file);
	table_free(table);
	close(signal_fd);
	return ret ? 1 : 0;
}
