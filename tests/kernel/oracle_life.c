/* SPDX-License-Identifier: MIT */
/*
 * Operations on lives: children, threads, siblings that share the address space,
 * other images, ends, and moves. See oracle_world.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kernel/oracle_world.h"

#define THREAD_STACK (64 * 1024)
#define BURST	     8

int futex_wait(atomic_uint *word, unsigned int value)
{
	return (int)syscall(SYS_futex, word, FUTEX_WAIT, value, NULL, NULL, 0);
}

void futex_wake_all(atomic_uint *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, WORKERS, NULL, NULL, 0);
}

static void burst(uint64_t seed)
{
	struct dice d = { .state = seed };

	for (int i = 0; i < BURST; i++)
		ops_memory(&d);
}

/* May fail: the directory comes and goes. */
static void move_to(const char *dir, const char *pid)
{
	char path[600];
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.procs", dir);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)!write(fd, pid, strlen(pid));
	close(fd);
}

static void op_move(struct self *s, struct dice *d)
{
	const char *dir = s->world->dirs[dice_roll(d, CGROUPS)];
	int child = atomic_load(&s->worker->child);
	char text[16] = "0";

	if (child && dice_roll(d, 4) == 0)
		snprintf(text, sizeof(text), "%d", child);
	move_to(dir, text);
}

static void op_fork(struct self *s, struct dice *d)
{
	uint64_t seed = dice_roll(d, UINT64_MAX);
	pid_t pid = fork();

	(void)s;
	if (!pid) {
		burst(seed);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static void end_of(atomic_int *who)
{
	int pid = atomic_exchange(who, 0);

	if (!pid)
		return;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* A child that stays, with locks of its own and our rings. */
static void op_child(struct self *s, struct dice *d)
{
	uint64_t seed = dice_roll(d, UINT64_MAX);
	pid_t parent = getpid(), pid;

	end_of(&s->worker->child);
	pid = fork();
	if (pid) {
		atomic_store(&s->worker->child, pid < 0 ? 0 : pid);
		return;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	burst(seed);
	for (;;)
		pause();
}

static void op_vfork(struct self *s, struct dice *d)
{
	uint64_t seed = dice_roll(d, UINT64_MAX);
	pid_t pid = vfork();

	(void)s;
	if (!pid) {
		burst(seed);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

struct sibling {
	const char *dir;
	pid_t parent;
};

static int sibling_main(void *arg)
{
	const struct sibling *s = arg;

	syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
	if (syscall(SYS_getppid) != s->parent)
		syscall(SYS_exit_group, 0);
	move_to(s->dir, "0");
	while (syscall(SYS_pause))
		;
	return 0;
}

/* The kernel itself writes the number where it is not lost if we are killed now. */
static void op_sibling(struct self *s, struct dice *d)
{
	static char stack[32768] __attribute__((aligned(16)));
	static struct sibling what;

	end_of(&s->worker->sibling);
	atomic_store(&s->worker->orphan, false);
	what = (struct sibling){ s->world->dirs[dice_roll(d, CGROUPS)], getpid() };
	clone(sibling_main, stack + sizeof(stack), CLONE_VM | CLONE_PARENT_SETTID | SIGCHLD, &what,
	      (pid_t *)&s->worker->sibling);
}

static void op_end_sibling(struct self *s, struct dice *d)
{
	(void)d;
	end_of(&s->worker->sibling);
	atomic_store(&s->worker->orphan, false);
}

static void *thread_main(void *arg)
{
	burst(*(uint64_t *)arg);
	return NULL;
}

static void op_thread(struct self *s, struct dice *d)
{
	uint64_t seeds[2] = { dice_roll(d, UINT64_MAX), dice_roll(d, UINT64_MAX) };
	pthread_attr_t attr;
	pthread_t thread;
	bool made;

	(void)s;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, THREAD_STACK);
	made = !pthread_create(&thread, &attr, thread_main, &seeds[0]);
	burst(seeds[1]);
	if (made)
		pthread_join(thread, NULL);
	pthread_attr_destroy(&attr);
}

static void op_exec(struct self *s, struct dice *d)
{
	char fd[16], index[16];

	if (dice_roll(d, 4))
		op_end_sibling(s, d);
	snprintf(fd, sizeof(fd), "%d", s->fd);
	snprintf(index, sizeof(index), "%d", s->index);
	if (atomic_load(&s->worker->sibling))
		atomic_store(&s->worker->orphan, true);
	execl("/proc/self/exe", "test_oracle", "--worker", fd, index, NULL);
	_exit(1);
}

static void op_end(struct self *s, struct dice *d)
{
	uint64_t how = dice_roll(d, 3);

	atomic_store(&s->worker->dying, true);
	if (how)
		kill(getpid(), how == 1 ? SIGKILL : SIGSEGV);
	_exit(0);
}

static const struct {
	unsigned int weight;
	void (*fn)(struct self *s, struct dice *d);
} ops[] = {
	{ 25, op_move },   { 20, op_fork },   { 8, op_child },
	{ 15, op_vfork },  { 8, op_sibling }, { 4, op_end_sibling },
	{ 15, op_thread }, { 3, op_exec },    { 2, op_end },
};

/* One operation in ten is of this kind. */
void life_op(struct self *s, struct dice *d)
{
	uint64_t pick = dice_roll(d, 100);

	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		if (pick < ops[i].weight) {
			ops[i].fn(s, d);
			return;
		}
		pick -= ops[i].weight;
	}
}

static void park(struct self *s)
{
	unsigned int round = atomic_load(&s->world->round);

	/* A target of the next round may have been set meanwhile: then not yet. */
	if (atomic_load(&s->worker->done) < atomic_load(&s->worker->target))
		return;
	atomic_store(&s->worker->parked, round);
	futex_wait(&s->world->round, round);
}

void world_worker(int fd, int index)
{
	const struct rlimit none = { 0 };
	struct self s = { .fd = fd, .index = index };

	for (int i = 1; i < 32; i++)
		signal(i, SIG_DFL); /* cmocka's handlers are not for here */
	setrlimit(RLIMIT_CORE, &none);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	s.world = mmap(NULL, sizeof(*s.world), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (s.world == MAP_FAILED)
		_exit(1);
	s.worker = &s.world->workers[index];
	ops_init(index);
	for (;;) {
		struct dice d = { .state = s.world->seed + ((uint64_t)(index + 1) << 40) };
		unsigned int i = atomic_load(&s.worker->done);

		if (i >= atomic_load(&s.worker->target)) {
			park(&s);
			continue;
		}
		atomic_store(&s.worker->done, i + 1);
		d.state = dice_roll(&d, UINT64_MAX) + i * 0x2545f4914f6cdd1dULL;
		if (dice_roll(&d, 10))
			ops_memory(&d);
		else
			life_op(&s, &d);
	}
}
