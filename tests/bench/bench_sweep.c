/* SPDX-License-Identifier: MIT */
/*
 * What a sweep takes with many address spaces that hold something: makes as many
 * processes as it is told, each with a locked page, and prints the milliseconds of each
 * of ten sweeps, from the call to its end.
 *
 * usage: bench_sweep PROCESSES
 */
#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "userspace/control/kernel.h"

#define SWEEPS 10

static void hold_a_page(int ready)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (mlock(p, 4096) || write(ready, "", 1) != 1)
		_exit(1);
	for (;;)
		pause();
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int count(const struct pincap_process *p, void *ctx)
{
	*(int *)ctx += p->locked > 0;
	return 0;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 0, ready[2], records = 0;
	struct kernel *k;
	pid_t *pids;
	char c;

	pids = calloc((size_t)n, sizeof(*pids));
	if (n <= 0 || !pids || pipe(ready) || kernel_adopt(&k))
		errx(1, "usage: bench_sweep PROCESSES, with pincap loaded");
	for (int i = 0; i < n; i++) {
		pids[i] = fork();
		if (!pids[i])
			hold_a_page(ready[1]);
		if (pids[i] < 0 || read(ready[0], &c, 1) != 1)
			err(1, "process %d", i);
	}
	for (int i = 0; i < SWEEPS; i++) {
		double start = now_ms();

		if (kernel_sweep(k))
			errx(1, "the sweep failed");
		printf("%.3f\n", now_ms() - start);
	}
	kernel_each_process(k, count, &records);
	for (int i = 0; i < n; i++) {
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
	}
	kernel_close(k);
	free(pids);
	if (records < n)
		errx(1, "%d of %d have a record", records, n);
	return 0;
}
