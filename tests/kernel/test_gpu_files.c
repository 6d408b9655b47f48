/* SPDX-License-Identifier: MIT */
/*
 * Buffers of the KFD and of render nodes, and the files they hang on: closed in every
 * way, left to others, and opened again at the same address.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <cmocka.h>

#include "tests/kernel/gpu.h"

#define RW   (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)

/* The KFD's state is the address space's: the last close frees nothing, and the next
 * open finds it. */
static void close_kfd(const struct cg *cg)
{
	char *a = mmap(NULL, 8 * PAGE, RW, ANON, -1, 0);
	int kfd = gpu_open();
	uint64_t handle;

	handle = gpu_alloc_gtt(16 * PAGE);
	gpu_allow(a, 8);
	NOW_PAGES(cg, 24);
	close(kfd);
	pincap_sweep();
	NOW_PAGES(cg, 24);
	CHILD_EQUAL(munmap(a, 4 * PAGE), 0);
	NOW_PAGES(cg, 20);
	kfd = gpu_open();
	CHILD_EQUAL(gpu_free(handle), 0);
	NOW_PAGES(cg, 4);
	gpu_alloc_gtt(8 * PAGE);
	close(kfd);
	NOW_PAGES(cg, 12);
}

static void close_in_turn(const struct cg *cg)
{
	int a = gpu_open_render(), b = gpu_open_render(), copy = dup(a);

	gpu_create_gem(a, 8);
	gpu_create_gem(b, 4);
	NOW_PAGES(cg, 12);
	close(a);
	SWEPT_PAGES(cg, 12);
	gpu_close_gem(copy, gpu_create_gem(copy, 2));
	NOW_PAGES(cg, 12);
	close(copy);
	SWEPT_PAGES(cg, 4);
	dup2(0, b); /* closes it */
	SWEPT_PAGES(cg, 0);
	a = gpu_open_render();
	b = gpu_open_render();
	gpu_create_gem(a, 8);
	gpu_create_gem(b, 4);
	CHILD_EQUAL(syscall(SYS_close_range, a, b, 0), 0);
	SWEPT_PAGES(cg, 0);
}

/* Another process has the file, which need not be in the cgroup. */
static void leave_to_child(const struct cg *cg)
{
	int fd = gpu_open_render(), status;
	pid_t pid;

	gpu_create_gem(fd, 8);
	pid = fork();
	if (!pid)
		for (;;)
			pause();
	close(fd);
	SWEPT_PAGES(cg, 8);
	SWEPT_PAGES(cg, 8);
	kill(pid, SIGKILL);
	CHILD_EQUAL(waitpid(pid, &status, 0), pid);
	SWEPT_PAGES(cg, 0);
}

static void send_fd(int to, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec iov = { &(char){ 0 }, 1 };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	CHILD_EQUAL(sendmsg(to, &msg, 0), 1);
}

/* Nobody's descriptor, on its way: still open. */
static void keep_in_message(const struct cg *cg)
{
	int fd = gpu_open_render(), pair[2];

	CHILD_EQUAL(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	gpu_create_gem(fd, 8);
	send_fd(pair[0], fd);
	close(fd);
	SWEPT_PAGES(cg, 8);
	close(pair[0]);
	close(pair[1]);
	driver_wait(0); /* the kernel drops messages when it gets round to it */
	SWEPT_PAGES(cg, 0);
}

/* The first of the files that are known: its address. */
static uint64_t known_file(void)
{
	uint64_t address = 0;

	bpf_map_get_next_key(map_fd("files"), NULL, &address);
	return address;
}

#define OPENS 64

/* The next open is handed the address that was just given back. Its buffers are its
 * own from the first moment. */
static void open_again(const struct cg *cg)
{
	cpu_set_t one;
	int same = 0;

	CPU_ZERO(&one);
	CPU_SET(0, &one);
	sched_setaffinity(0, sizeof(one), &one);
	for (size_t i = 0; i < OPENS; i++) {
		int fd = gpu_open_render();
		uint64_t was, is;

		gpu_create_gem(fd, 16);
		gpu_create_gem(fd, 16);
		was = known_file();
		close(fd);
		fd = gpu_open_render();
		gpu_create_gem(fd, 1);
		is = known_file();
		if (is == was && map_count("files") == 1) {
			same++;
			NOW_PAGES(cg, 1);
		}
		close(fd);
		if (i % 16 == 0)
			SWEPT_PAGES(cg, 0);
	}
	SWEPT_PAGES(cg, 0);
	/* Kernels that free files by RCU hand out no address again so soon. */
	fprintf(stderr, "# the same address %d times of %d\n", same, OPENS);
}

static void open_files(void **state)
{
	static void (*const ways[])(const struct cg *) = {
		close_kfd, close_in_turn, leave_to_child, keep_in_message, open_again,
	};
	struct cg cg;

	(void)state;
	cg_make(&cg, NULL, "files");
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		child_run(&cg, ways[i], &cg);
		map_wait(&cg, 0, 0);
	}
	assert_int_equal(map_count("buffers"), 0);
	pincap_sweep();
	assert_int_equal(map_count("files"), 0);
	assert_int_equal(map_stats().files_full, 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(open_files, test_teardown),
	};

	harness_init(argc, argv);
	return cmocka_run_group_tests(tests, gpu_setup, gpu_teardown);
}
