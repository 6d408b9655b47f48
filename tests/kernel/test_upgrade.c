/* SPDX-License-Identifier: MIT */
/*
 * A kernel side of an older layout is replaced by ours while it is in use: counts,
 * budgets, holds and buffers go on, requests are answered by one side or the other, and
 * a kill at any moment leaves one of them.
 *
 * Environment: PINCAP_OLD (build/old/pincap, whose layout lacks a field),
 * PINCAP_TEST_KILLS (20).
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <bpf/bpf.h>
#include <cmocka.h>

#include "tests/kernel/ask.h"
#include "tests/kernel/gpu.h"
#include "tests/kernel/play.h"
#include "tests/kernel/stage.h"

#define RW     (PROT_READ | PROT_WRITE)
#define ASKERS 16
#define KILLS  ((int)harness_number("PINCAP_TEST_KILLS", 20))
#define LIMIT  (64 * MIB)

static const char *program(bool old)
{
	const char *env = getenv(old ? "PINCAP_OLD" : "PINCAP");

	return env && *env ? env : old ? "build/old/pincap" : "build/pincap";
}

static int run(bool old, const char *args)
{
	char line[1024];
	int status;

	snprintf(line, sizeof(line), "%s %s", program(old), args);
	status = system(line); /* NOLINT(cert-env33-c) */
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void begin_old(void)
{
	char line[256];

	maps_forget();
	if (!access("/sys/fs/bpf/pincap", F_OK))
		assert_int_equal(run(false, "unload"), 0);
	snprintf(line, sizeof(line), "load --kfd %s", gpu_device());
	assert_int_equal(run(true, line), 0);
}

static void upgrade(void)
{
	maps_forget();
	assert_int_equal(run(false, "load"), 0);
}

static void set_by(bool old, const struct cg *cg, const char *what)
{
	char line[700];

	snprintf(line, sizeof(line), "set '%s' %s", cg->dir, what);
	assert_int_equal(run(old, line), 0);
}

/* Locks, holds, and has the driver hold, then waits. */
static void hold_all(const struct stage *s)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char *p = mmap(NULL, 16 * MIB, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t handle;

	CHILD_EQUAL(mlock2(p, 4 * MIB, MLOCK_ONFAULT), 0);
	CHILD_EQUAL(ask_charge(fd, 8 * MIB, PINCAP_DRIVER), 0);
	CHILD_EQUAL(ask_settle(fd), 8 * MIB);
	gpu_open();
	handle = gpu_alloc_gtt(2 * MIB);
	gpu_allow(p + 8 * MIB, 256);
	CHILD_EQUAL(ask_charge(fd, 16 * MIB, PINCAP_DRIVER), 0); /* under way */
	stage_point(s, 1);
	CHILD_EQUAL(ask_settle(fd), 16 * MIB);
	CHILD_EQUAL(ask_uncharge(fd, 24 * MIB), 0);
	CHILD_EQUAL(gpu_free(handle), 0);
	stage_point(s, 2);
	CHILD_EQUAL(munmap(p, 16 * MIB), 0);
	stage_point(s, 3);
	_exit(0);
}

static void everything_goes_on(void **state)
{
	struct pincap_cgroup m;
	struct cg parent, cg;
	struct stage s;
	struct stat st;
	pid_t pid;

	(void)state;
	begin_old();
	cg_make(&parent, NULL, "upgrade");
	cg_make(&cg, &parent, "in");
	set_by(true, &cg, "limit=64M high=48M min=1M");
	set_by(true, &parent, "limit=80M");
	assert_int_equal(run(true, "load --group nogroup"), 0);
	stage_make(&s);
	pid = cg_fork(&cg);
	if (!pid)
		hold_all(&s);
	assert_int_equal(stage_hear(&s), 1);
	upgrade();
	assert_true(map_cgroup(&cg, &m));
	assert_int_equal(m.limit, 64 * MIB);
	assert_int_equal(m.high, 48 * MIB);
	assert_int_equal(m.min, MIB);
	assert_int_equal(m.charges, 2);
	assert_int_equal(m.locked, 4 * MIB);
	assert_int_equal(m.gpu, 3 * MIB);
	assert_int_equal(m.held, 24 * MIB);
	assert_int_equal(m.current, 31 * MIB);
	assert_int_equal(m.in_flight, 16 * MIB);
	assert_int_equal(m.records, 1);
	assert_true(map_cgroup(&parent, &m));
	assert_int_equal(m.limit, 80 * MIB);
	assert_int_equal(m.current, 31 * MIB);
	assert_int_equal(map_count("buffers"), 1);
	assert_int_equal(map_count("ranges"), 1);
	assert_int_equal(stat("/sys/fs/bpf/pincap/iters/processes", &st), 0);
	assert_int_equal(st.st_gid, 65534);
	assert_int_equal(st.st_mode & 0777, 0440);
	stage_go(&s);
	assert_int_equal(stage_hear(&s), 2);
	map_wait(&cg, 5 * MIB, 0);
	stage_go(&s);
	assert_int_equal(stage_hear(&s), 3);
	map_wait(&cg, 0, 0);
	stage_go(&s);
	assert_int_equal(reap(pid), 0);
	stage_close(&s);
	map_wait(&parent, 0, 0);
	assert_int_equal(map_count("buffers") + map_count("ranges"), 0);
}

/* What the limit leaves is asked for, held for a moment and given back, all the time. */
struct crowd {
	atomic_bool stop;
	atomic_ulong admitted, refused, put_off, wrong;
	atomic_llong held; /* as they know */
};

static void *ask_for_ever(void *arg)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct crowd *c = arg;

	while (!atomic_load(&c->stop)) {
		int err = ask_charge(fd, 8 * MIB, PINCAP_DRIVER);
		int64_t stays;

		usleep(100); /* somebody else must load a kernel side meanwhile */
		if (err == -EDQUOT)
			atomic_fetch_add(&c->refused, 1);
		else if (err == -EINPROGRESS)
			atomic_fetch_add(&c->put_off, 1);
		else if (err)
			atomic_fetch_add(&c->wrong, 1);
		if (err)
			continue;
		atomic_fetch_add(&c->admitted, 1);
		if (atomic_fetch_add(&c->held, 8 * MIB) + 8 * MIB > LIMIT)
			atomic_fetch_add(&c->wrong, 1);
		while ((stays = ask_settle(fd)) == -EINPROGRESS)
			usleep(100);
		if (stays != 8 * MIB)
			atomic_fetch_add(&c->wrong, 1);
		atomic_fetch_sub(&c->held, 8 * MIB);
		while (ask_uncharge(fd, 8 * MIB) == -EINPROGRESS)
			usleep(100);
	}
	return NULL;
}

static void ask_all(struct crowd *c)
{
	pthread_t threads[ASKERS];

	for (int i = 0; i < ASKERS; i++)
		CHILD_EQUAL(pthread_create(&threads[i], NULL, ask_for_ever, c), 0);
	for (int i = 0; i < ASKERS; i++)
		pthread_join(threads[i], NULL);
	_exit(0);
}

/* Never more than the limit, whoever answers; what they get is a refusal at the worst. */
static void under_load(void **state)
{
	struct crowd *c = mmap(NULL, sizeof(*c), RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct pincap_cgroup m;
	unsigned long before;
	struct deadline d;
	struct cg cg;
	pid_t pid;

	(void)state;
	begin_old();
	cg_make(&cg, NULL, "load");
	set_by(true, &cg, "limit=64M");
	pid = cg_fork(&cg);
	if (!pid)
		ask_all(c);
	d = deadline_in(10000);
	while (atomic_load(&c->admitted) < 1000 && deadline_open(&d))
		;
	upgrade();
	before = atomic_load(&c->admitted);
	d = deadline_in(10000);
	while (atomic_load(&c->admitted) < before + 1000 && deadline_open(&d))
		;
	assert_true(atomic_load(&c->admitted) >= before + 1000);
	atomic_store(&c->stop, true);
	assert_int_equal(reap(pid), 0);
	print_message("# %lu admitted, %lu refused, %lu put off\n", c->admitted, c->refused,
		      c->put_off);
	assert_int_equal(c->wrong, 0);
	assert_true(map_cgroup(&cg, &m));
	assert_true(m.peak <= LIMIT);
	map_wait(&cg, 0, 0);
	munmap(c, sizeof(*c));
}

static void kill_after(unsigned int us)
{
	pid_t pid = fork();

	if (!pid) {
		execl(program(false), "pincap", "load", NULL);
		_exit(127);
	}
	usleep(us);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* Whichever is there then, the next one finds all of it. */
static void killed_at_any_moment(void **state)
{
	int64_t start, took;
	struct pincap_cgroup m;
	struct actor p;
	struct cg cg;

	(void)state;
	begin_old();
	start = now_ns();
	upgrade();
	took = (now_ns() - start) / 1000;
	for (int i = 0; i < KILLS; i++) {
		begin_old();
		cg_make(&cg, NULL, "killed");
		set_by(true, &cg, "limit=16M");
		actor_start(&p, &cg, false);
		actor_must(&p, 0, "charge %lld %d", 8 * MIB, PINCAP_DRIVER);
		actor_must(&p, 8 * MIB, "settle");
		kill_after((unsigned int)(took * (i + 1) / KILLS));
		upgrade();
		assert_true(map_cgroup(&cg, &m));
		assert_int_equal(m.limit, 16 * MIB);
		assert_int_equal(m.held, 8 * MIB);
		assert_int_equal(m.current, 8 * MIB);
		actor_fails(&p, EDQUOT, "charge %lld %d", 9 * MIB, PINCAP_DRIVER);
		actor_must(&p, 0, "charge %lld %d", 8 * MIB, PINCAP_DRIVER);
		actor_exit(&p);
		map_wait(&cg, 0, 0);
		cg_remove(&cg);
	}
}

/* What comes after us is left alone. */
static void newer_stays(void **state)
{
	struct pincap_config cfg;
	uint32_t zero = 0;
	int fd;

	(void)state;
	begin_old();
	upgrade();
	fd = bpf_obj_get("/sys/fs/bpf/pincap/maps/config");
	assert_int_equal(bpf_map_lookup_elem(fd, &zero, &cfg), 0);
	cfg.abi = PINCAP_ABI + 1;
	assert_int_equal(bpf_map_update_elem(fd, &zero, &cfg, BPF_EXIST), 0);
	assert_int_equal(run(false, "load 2>&1 | grep -q 'a newer pincap is loaded'"), 0);
	assert_int_equal(bpf_map_lookup_elem(fd, &zero, &cfg), 0);
	assert_int_equal(cfg.abi, PINCAP_ABI + 1);
	cfg.abi = PINCAP_ABI;
	assert_int_equal(bpf_map_update_elem(fd, &zero, &cfg, BPF_EXIST), 0);
	close(fd);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(everything_goes_on, test_teardown),
		cmocka_unit_test_teardown(under_load, test_teardown),
		cmocka_unit_test_teardown(killed_at_any_moment, test_teardown),
		cmocka_unit_test_teardown(newer_stays, test_teardown),
	};

	harness_init(argc, argv);
	if (!access("/sys/fs/bpf/pincap", F_OK)) {
		puts("1..1\nok 1 - upgrade # SKIP a kernel side is loaded");
		return 0;
	}
	return cmocka_run_group_tests(tests, gpu_setup, gpu_teardown);
}
