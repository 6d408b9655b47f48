/* SPDX-License-Identifier: MIT */
/*
 * kfd-driver: an AMD GPU driver without a GPU. It mounts one regular file whose
 * ioctls behave as those of /dev/kfd do: they come back from the kernel with 0
 * or with an error, buffers get handles, a limit can refuse them, and all of
 * them go with the address space. Reading the file shows what is held, for
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
			    "       [--fail-svm] [--render MOUNTFILE]\n"
			    "Prints \"ready\" once mounted; ends on SIGTERM and SIGINT.\n";

#define FILES 2 /* the KFD, and the render node if it is wanted */

enum { OPT_LIMIT = 1, OPT_ERRNO, OPT_FAIL_MIN, OPT_FAIL_SVM, OPT_RENDER };

static const struct option options[] = {
	{ "limit", required_argument, NULL, OPT_LIMIT },
	{ "errno", required_argument, NULL, OPT_ERRNO },
	{ "fail-min", required_argument, NULL, OPT_FAIL_MIN },
	{ "fail-svm", no_argument, NULL, OPT_FAIL_SVM },
	{ "render", required_argument, NULL, OPT_RENDER },
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

static const char *parse_options(int argc, char **argv, struct table_rules *rules,
				 const char **ret_render)
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
		case OPT_FAIL_SVM:
			rules->is_svm_refused = true;
			break;
		case OPT_RENDER:
			*ret_render = optarg;
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

/* Nothing that was closed before a report was asked for shows in it: reports are read
 * from the KFD, so all that waits at the render node comes before the next request. */
static int serve_next(struct fuse_file *files[static FILES])
{
	int err = 1;

	while (files[1] && err > 0)
		err = fuse_file_serve(files[1]);
	return err < 0 ? err : fuse_file_serve(files[0]);
}

/* Until a signal or until a mount is gone; both are a good end. */
static int serve(struct fuse_file *files[static FILES], int signal_fd)
{
	struct pollfd fds[1 + FILES] = { { .fd = signal_fd, .events = POLLIN } };
	int err, i;

	for (i = 0; i < FILES; i++)
		fds[1 + i] = (struct pollfd){ .fd = files[i] ? fuse_file_fd(files[i]) : -1,
					      .events = POLLIN };
	for (;;) {
		if (poll(fds, ARRAY_SIZE(fds), -1) < 0 && errno != EINTR)
			return -errno;
		if (fds[0].revents)
			return 0;
		err = serve_next(files);
		if (err < 0)
			return err == -ENODEV ? 0 : err;
	}
}

static void open_file(struct fuse_file **ret, const char *path, struct table *table,
		      enum opener_kind kind)
{
	int err = fuse_file_open(ret, path, table, kind);

	if (err)
		warnx("mount '%s': %s (needs root and /dev/fuse)", path, strerror(-err));
}

int main(int argc, char **argv)
{
	struct table_rules rules = { .refuse_errno = ENOMEM };
	struct fuse_file *files[FILES] = { NULL };
	const char *render = NULL, *path;
	struct table *table;
	int signal_fd, ret = -1;

	path = parse_options(argc, argv, &rules, &render);
	signal_fd = open_signals();
	if (signal_fd < 0)
		errx(1, "cannot wait for signals");
	if (table_new(&table, &rules))
		errx(1, "out of memory");
	open_file(&files[0], path, table, OPENER_KFD);
	if (files[0] && render)
		open_file(&files[1], render, table, OPENER_RENDER);

	if (files[0] && (files[1] || !render)) {
		puts("ready");
		fflush(stdout);
		ret = serve(files, signal_fd);
		if (ret)
			warnx("serve '%s': %s", path, strerror(-ret));
	}

	/* The kernel sends nothing more once the mounts are closed. */
	fuse_file_close(files[1]);
	fuse_file_close(files[0]);
	table_free(table);
	close(signal_fd);
	return ret ? 1 : 0;
}
