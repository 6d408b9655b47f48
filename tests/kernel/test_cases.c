/* SPDX-License-Identifier: MIT */
/*
 * What the kernel changes without a call to lock, what outlives a mapping, what was
 * there before us, and cgroups that come and go: T12, T20, T22, T25 and T26.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <cmocka.h>

#include "tests/kernel/ask.h"
#include "tests/kernel/child.h"
#include "tests/kernel/harness.h"
#include "tests/kernel/play.h"
#include "tests/kernel/stage.h"

#define RW     (PROT_READ | PROT_WRITE)
#define ANON   (MAP_PRIVATE | MAP_ANONYMOUS)
#define LOADS  5
#define RMDIRS 100

/* An actor that has mapped 8 MiB twice. */
static void open_scene(struct cg *cg, struct actor *a, const char *name)
{
	cg_make(cg, NULL, name);
	actor_start(a, cg, false);
	actor_must(a, 0, "map 0 %lld %d 0", 8 * MIB, RW);
	actor_must(a, 0, "map 1 %lld %d 0", 8 * MIB, RW);
}

static void close_scene(struct cg *cg, struct actor *a)
{
	actor_exit(a);
	assert_usage(cg, 0, 0);
	cg_remove(cg);
}

/* A pin that a ring drops in the background is seen by the next sweep. */
static void wait_swept(const struct cg *cg, int64_t pinned)
{
	struct deadline d = deadline_in(2000);

	while (usage_by_stat(cg).pinned != pinned && deadline_open(&d))
		;
	assert_usage(cg, 0, pinned);
}

static unsigned int count_maps(const char *name)
{
	struct bpf_map_info info;
	unsigned int n = 0;
	__u32 id = 0;

	while (!bpf_map_get_next_id(id, &id)) {
		__u32 len = sizeof(info);
		int fd = bpf_map_get_fd_by_id(id);

		memset(&info, 0, sizeof(info));
		if (fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &len))
			n += !strcmp(info.name, name);
		if (fd >= 0)
			close(fd);
	}
	return n;
}

/* The kernel frees maps in its own time. */
static void wait_maps(const char *name, unsigned int want)
{
	struct deadline d = deadline_in(5000);

	while (count_maps(name) != want && deadline_open(&d))
		;
	assert_int_equal(count_maps(name), want);
}

/* Killed wherever it is. What it came to is the next one's to clean up. */
static void load_and_kill(unsigned int after_us)
{
	const struct timespec ts = { .tv_nsec = after_us * 1000L };
	const char *pincap = getenv("PINCAP");
	pid_t pid = fork();

	if (!pid) {
		execl(pincap && *pincap ? pincap : "build/pincap", "pincap", "load", NULL);
		_exit(127);
	}
	nanosleep(&ts, NULL); /* not for luck: any moment will do */
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void t12_before_and_again(void **state)
{
	struct actor p;
	struct cg cg;

	(void)state;
	if (!harness_is_owner()) {
		print_message("# somebody else holds pincap loaded\n");
		skip();
	}
	harness_unload();
	open_scene(&cg, &p, "t12");
	actor_must(&p, 0, "lock 0 0 %lld", 8 * MIB);
	actor_must(&p, 0, "lock 1 0 %lld", 8 * MIB);
	actor_must(&p, 0, "ring 0");
	actor_must(&p, 0, "register 0 0 0 %lld", 4 * MIB);
	harness_load();
	assert_usage(&cg, 16777216, 4194304);
	harness_unload();
	actor_must(&p, 0, "map 2 %lld %d %d", 8 * MIB, RW, MAP_LOCKED);
	for (int i = 0; i < LOADS; i++)
		load_and_kill(5000 + i * 60000);
	harness_load();
	assert_usage(&cg, 25165824, 4194304);
	harness_load(); /* is loaded already, and stays */
	assert_usage(&cg, 25165824, 4194304);
	wait_maps("processes", 1);
	wait_maps("cgroups", 1);
	actor_must(&p, 0, "unlock 0 0 %lld", 8 * MIB);
	assert_usage(&cg, 16777216, 4194304);
	actor_exit(&p);
	assert_usage(&cg, 0, 0);
}

/* The call that rises by itself, and by how much at least. */
#define RISES(least, ...)                                           \
	do {                                                        \
		struct reply r_ = actor_do(&p, __VA_ARGS__);        \
		assert_int_equal(r_.ret, 0);                        \
		assert_in_range(r_.locked - last, least, 64 * MIB); \
		last = r_.locked;                                   \
		assert_usage(&cg, last, 0);                         \
	} while (0)

static void t20_future(void **state)
{
	struct actor p;
	int64_t last = 0;
	struct cg cg;

	(void)state;
	open_scene(&cg, &p, "t20");
	actor_must(&p, 0, "lockall %d", MCL_FUTURE);
	RISES(8388608, "map 2 %lld %d 0", 8 * MIB, RW);
	RISES(8388608, "map 3 %lld %d 0", 8 * MIB, PROT_NONE);
	RISES(8388608, "thread %lld", 8 * MIB);
	RISES(1048576, "brk %lld", MIB);
	actor_must(&p, 0, "unlockall");
	assert_usage(&cg, 0, 0);
	actor_must(&p, 0, "map 4 %lld %d 0", 8 * MIB, RW);
	assert_usage(&cg, 0, 0);
	close_scene(&cg, &p);
}

static void t22_ring_life(void **state)
{
	struct actor p;
	struct cg cg;

	(void)state;
	open_scene(&cg, &p, "t22");
	actor_must(&p, 0, "ring 0");
	actor_must(&p, 0, "register 0 0 0 %lld", 8 * MIB);
	assert_usage(&cg, 0, 8388608);
	actor_must(&p, 0, "ring 1");
	actor_must(&p, 0, "register 1 0 0 %lld", 8 * MIB);
	assert_usage(&cg, 0, 16777216);
	actor_must(&p, 0, "unmap 0 0 %lld", 8 * MIB);
	assert_usage(&cg, 0, 16777216);
	actor_must(&p, 0, "unregister 0");
	assert_usage(&cg, 0, 8388608);
	actor_must(&p, 0, "unring 1");
	wait_swept(&cg, 0);
	close_scene(&cg, &p);
}

/* The directory goes the moment that it can. */
static void t25_remove_and_reuse(void **state)
{
	struct cg parent, cg, before = { .id = 0 };
	struct pincap_cgroup m;

	(void)state;
	cg_make(&parent, NULL, "t25");
	for (int i = 0; i < RMDIRS; i++) {
		struct deadline d = deadline_in(2000);
		struct actor p;

		cg_make(&cg, &parent, "g");
		assert_int_not_equal(cg.id, before.id);
		assert_false(map_cgroup(&cg, &m));
		actor_start(&p, &cg, false);
		actor_must(&p, 0, "map 0 %lld %d 0", 8 * MIB, RW);
		actor_must(&p, 0, "lock 0 0 %lld", 8 * MIB);
		map_wait(&cg, 8 * MIB, 0);
		kill(p.pid, SIGKILL);
		cg_remove(&cg); /* waits until it is empty, no longer */
		actor_kill(&p);
		while (map_cgroup(&cg, &m) && deadline_open(&d))
			usage_by_stat(&parent);
		assert_false(map_cgroup(&cg, &m));
		map_wait(&parent, 0, 0);
		before = cg;
	}
	assert_usage(&parent, 0, 0);
}

struct heir {
	struct stage stage;
	const struct cg *cg;
};

static int heir_main(void *arg)
{
	struct heir *h = arg;

	prctl(PR_SET_PDEATHSIG, 0);
	cg_move(h->cg, getpid());
	stage_point(&h->stage, getpid());
	_exit(0);
}

/* Its address space stays behind, with another process in another cgroup. */
static void leave_heir(struct heir *h)
{
	static char stack[65536] __attribute__((aligned(16)));
	char *p = mmap(NULL, 8 * MIB, RW, ANON, -1, 0);

	CHILD_EQUAL(mlock(p, 8 * MIB), 0);
	if (clone(heir_main, stack + sizeof(stack), CLONE_VM | SIGCHLD, h) < 0)
		_exit(1);
	for (;;)
		pause();
}

static void t25_residual(void **state)
{
	struct deadline d = deadline_in(2000);
	struct heir h = { .cg = NULL };
	struct cg parent, a, b;
	struct pincap_cgroup m;
	pid_t pid;

	(void)state;
	cg_make(&parent, NULL, "t25");
	cg_make(&a, &parent, "a");
	cg_make(&b, &parent, "b");
	h.cg = &b;
	stage_make(&h.stage);
	pid = cg_fork(&a);
	if (!pid)
		leave_heir(&h);
	stage_hear(&h.stage);
	assert_usage(&parent, 8388608, 0);
	map_wait(&a, 8 * MIB, 0); /* the owner's, though two hold it */
	map_wait(&b, 0, 0);
	kill(pid, SIGKILL);
	cg_remove(&a);
	reap(pid);
	map_wait(&parent, 8 * MIB, 0);
	while (map_cgroup(&a, &m) && deadline_open(&d))
		usage_by_stat(&b);
	assert_false(map_cgroup(&a, &m));
	assert_usage(&b, 8388608, 0);
	assert_usage(&parent, 8388608, 0);
	stage_go(&h.stage);
	assert_usage(&b, 0, 0);
	stage_close(&h.stage);
}

static void *lock_in_thread(void *arg)
{
	struct stage *s = arg;
	char *p = mmap(NULL, 8 * MIB, RW, ANON, -1, 0);

	stage_point(s, syscall(SYS_gettid));
	CHILD_EQUAL(mlock(p, 8 * MIB), 0);
	stage_point(s, 0);
	return NULL;
}

static void lock_by_thread(struct stage *s)
{
	pthread_t thread;

	CHILD_EQUAL(pthread_create(&thread, NULL, lock_in_thread, s), 0);
	pthread_join(thread, NULL);
	_exit(0);
}

static void write_to(const struct cg *cg, const char *file, const char *text)
{
	char path[600];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", cg->dir, file);
	f = fopen(path, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

/* A thread in a cgroup of its own: the address space is its owner's. */
static void t25_threaded(void **state)
{
	struct cg domain, inner;
	struct stage s;
	char tid[24];
	pid_t pid;

	(void)state;
	cg_make(&domain, NULL, "t25");
	cg_make(&inner, &domain, "inner");
	write_to(&inner, "cgroup.type", "threaded");
	stage_make(&s);
	pid = cg_fork(&domain);
	if (!pid)
		lock_by_thread(&s);
	snprintf(tid, sizeof(tid), "%" PRId64, stage_hear(&s));
	write_to(&inner, "cgroup.threads", tid);
	stage_go(&s);
	assert_int_equal(stage_hear(&s), 0);
	assert_usage(&domain, 8388608, 0);
	map_wait(&inner, 0, 0);
	assert_int_equal(map_count_processes(inner.id), 0);
	assert_int_equal(map_count_processes(domain.id), 1);
	stage_go(&s);
	assert_int_equal(reap(pid), 0);
	assert_usage(&domain, 0, 0);
	stage_close(&s);
}

/* The kernel counts both, and so do we. */
static void t26_counted_twice(void **state)
{
	struct actor p;
	struct cg cg;

	(void)state;
	open_scene(&cg, &p, "t26");
	actor_must(&p, 0, "lock 0 0 %lld", 8 * MIB);
	actor_must(&p, 0, "ring 0");
	actor_must(&p, 0, "register 0 0 0 %lld", 8 * MIB);
	assert_usage(&cg, 8388608, 8388608);
	actor_must(&p, 0, "unregister 0");
	actor_must(&p, 0, "unlock 0 0 %lld", 8 * MIB);
	assert_usage(&cg, 0, 0);
	actor_must(&p, 0, "mapfile 2 %lld %lld", 8 * MIB, 8 * MIB);
	actor_must(&p, 0, "twin 3 2 %lld", 8 * MIB);
	actor_must(&p, 0, "lock 2 0 %lld", 8 * MIB);
	actor_must(&p, 0, "lock 3 0 %lld", 8 * MIB);
	assert_usage(&cg, 16777216, 0);
	actor_must(&p, 0, "unlock 3 0 %lld", 8 * MIB);
	assert_usage(&cg, 8388608, 0);
	actor_must(&p, 0, "fork 2 %lld", 8 * MIB);
	assert_usage(&cg, 16777216, 0);
	actor_must(&p, 0, "unfork");
	assert_usage(&cg, 8388608, 0);
	close_scene(&cg, &p);
}

#define TEST(fn)                                   \
	{                                          \
#fn, fn, NULL, test_teardown, NULL \
	}

static const struct CMUnitTest tests[] = {
	TEST(t12_before_and_again), TEST(t20_future),	TEST(t22_ring_life),
	TEST(t25_remove_and_reuse), TEST(t25_residual), TEST(t25_threaded),
	TEST(t26_counted_twice),
};

HARNESS_MAIN(tests)
