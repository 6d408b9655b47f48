/* SPDX-License-Identifier: MIT */
/*
 * The 32-bit entry into the kernel, which a 64-bit program has by int 0x80: its
 * system calls lock memory like the others, through functions of their own.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>

#include "tests/kernel/child.h"
#include "tests/kernel/harness.h"

/* arch/x86/entry/syscalls/syscall_32.tbl */
enum {
	I386_BRK = 45,
	I386_MMAP = 90,
	I386_MUNMAP = 91,
	I386_MLOCK = 150,
	I386_MUNLOCK = 151,
	I386_MLOCKALL = 152,
	I386_MUNLOCKALL = 153,
	I386_MREMAP = 163,
	I386_MMAP2 = 192,
	I386_MLOCK2 = 376,
};

#define MIB  (1024LL * 1024)
#define RW   (PROT_READ | PROT_WRITE)
#define ANON (MAP_PRIVATE | MAP_ANONYMOUS)
#define SIZE (4 * MIB)

/* What i386's old mmap takes by pointer. */
struct mmap_args {
	uint32_t addr, len, prot, flags, fd, offset;
};

static long call32(long nr, long bx, long cx, long dx, long si)
{
	long ret;

	__asm__ volatile("int $0x80"
			 : "=a"(ret)
			 : "a"(nr), "b"(bx), "c"(cx), "d"(dx), "S"(si), "D"(-1L)
			 : "memory", "r8", "r9", "r10", "r11");
	return (int)ret;
}

/* bp carries the sixth argument: the offset. */
static long map32(long len, long flags)
{
	long ret;

	__asm__ volatile("push %%rbp; xor %%ebp, %%ebp; int $0x80; pop %%rbp"
			 : "=a"(ret)
			 : "a"((long)I386_MMAP2), "b"(0L), "c"(len), "d"((long)RW), "S"(flags),
			   "D"(-1L)
			 : "memory", "r8", "r9", "r10", "r11");
	return ret & 0xffffffff;
}

static bool has_entry(void)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		_exit(call32(I386_MUNLOCKALL, 0, 0, 0, 0) ? 1 : 0);
	}
	return waitpid(pid, &status, 0) == pid && !status;
}

static long low_memory(void)
{
	return (long)mmap(NULL, SIZE, RW, ANON | MAP_32BIT, -1, 0);
}

static void lock(void)
{
	CHILD_EQUAL(call32(I386_MLOCK, low_memory(), SIZE, 0, 0), 0);
}

static void lock2(void)
{
	CHILD_EQUAL(call32(I386_MLOCK2, low_memory(), SIZE, 1, 0), 0);
}

static void unlock(void)
{
	long p = low_memory();

	CHILD_EQUAL(mlock((void *)p, SIZE), 0);
	CHILD_EQUAL(call32(I386_MUNLOCK, p + SIZE / 2, SIZE / 2, 0, 0), 0);
}

static void unlock_all(void)
{
	lock();
	CHILD_EQUAL(call32(I386_MUNLOCKALL, 0, 0, 0, 0), 0);
}

static void map_locked(void)
{
	CHILD_EQUAL(map32(SIZE, ANON | MAP_LOCKED) % 4096, 0);
}

static void old_map_locked(void)
{
	struct mmap_args *a = (void *)low_memory();

	*a = (struct mmap_args){ .len = SIZE, .prot = RW, .flags = ANON | MAP_LOCKED, .fd = -1U };
	CHILD_EQUAL(call32(I386_MMAP, (long)a, 0, 0, 0) == -1, 0);
}

static void unmap(void)
{
	long p = low_memory();

	CHILD_EQUAL(mlock((void *)p, SIZE), 0);
	CHILD_EQUAL(call32(I386_MUNMAP, p, SIZE / 2, 0, 0), 0);
}

static void shrink(void)
{
	long p = low_memory();

	CHILD_EQUAL(mlock((void *)p, SIZE), 0);
	CHILD_EQUAL(call32(I386_MREMAP, p, SIZE, SIZE / 2, 0), (int)p);
}

static const struct way {
	const char *name;
	void (*fn)(void);
	int64_t locked;
} ways[] = {
	{ "mlock", lock, SIZE },	 { "mlock2", lock2, SIZE },
	{ "munlock", unlock, SIZE / 2 }, { "munlockall", unlock_all, 0 },
	{ "mmap2", map_locked, SIZE },	 { "mmap", old_map_locked, SIZE },
	{ "munmap", unmap, SIZE / 2 },	 { "mremap", shrink, SIZE / 2 },
};

struct step {
	void (*fn)(void);
	int ready[2];
};

static void take(const struct step *s)
{
	s->fn();
	CHILD_EQUAL(write(s->ready[1], "r", 1), 1);
	for (;;)
		pause();
}

static void by_int80(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct step s = { .fn = ways[i].fn };
		struct cg cg;
		pid_t pid;
		char c;

		print_message("# %s\n", ways[i].name);
		assert_int_equal(pipe(s.ready), 0);
		cg_make(&cg, NULL, ways[i].name);
		pid = cg_fork(&cg);
		if (!pid)
			take(&s);
		close(s.ready[1]);
		assert_int_equal(read(s.ready[0], &c, 1), 1);
		map_wait(&cg, ways[i].locked, 0); /* before any sweep */
		assert_usage(&cg, ways[i].locked, 0);
		kill(pid, SIGKILL);
		assert_true(WIFSIGNALED(reap(pid)));
		assert_usage(&cg, 0, 0);
		cg_remove(&cg);
		close(s.ready[0]);
	}
}

static const struct CMUnitTest tests[] = { cmocka_unit_test_teardown(by_int80, test_teardown) };

/* cmocka's own skip() says "not ok", without a reason. */
int main(int argc, char **argv)
{
	if (!has_entry()) {
		puts("1..1\nok 1 - by_int80 # SKIP this kernel has no 32-bit entry");
		return 0;
	}
	harness_init(argc, argv);
	return cmocka_run_group_tests(tests, harness_setup, harness_teardown);
}
