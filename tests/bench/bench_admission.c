/* SPDX-License-Identifier: MIT */
/*
 * What admission costs: charge + settle against two bare getsockopt calls on a
 * level nobody knows, interleaved in one run. Prints the median ratio of the
 * rounds and their quartiles; absolute times mean nothing on a shared machine.
 *
 * usage: bench_admission [ROUNDS]
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#include "bpf/intf.h"

#define CALLS	      5000 /* a round: some milliseconds, shorter than a time slice */
#define UNKNOWN_LEVEL 0x12345678
#define MAX_ROUNDS    10000

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static uint64_t time_bare(int fd)
{
	uint64_t start = now_ns(), value = 0;
	socklen_t len = sizeof(value);

	for (int i = 0; i < 2 * CALLS; i++)
		getsockopt(fd, UNKNOWN_LEVEL, 1, &value, &len);
	return now_ns() - start;
}

static uint64_t time_admission(int fd)
{
	struct pincap_charge charge = { .bytes = 4096, .kind = PINCAP_LOCK };
	uint64_t start = now_ns(), stays = 0;
	socklen_t len = sizeof(stays);

	for (int i = 0; i < CALLS; i++) {
		if (setsockopt(fd, SOL_PINCAP, PINCAP_CHARGE, &charge, sizeof(charge)) ||
		    getsockopt(fd, SOL_PINCAP, PINCAP_SETTLE, &stays, &len)) {
			perror("bench_admission: charge and settle");
			exit(1);
		}
	}
	return now_ns() - start;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 200;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	double *ratio;

	if (rounds < 4 || rounds > MAX_ROUNDS || fd < 0) {
		fprintf(stderr, "usage: bench_admission [ROUNDS, 4 to %d]\n", MAX_ROUNDS);
		return 2;
	}
	ratio = calloc((size_t)rounds, sizeof(*ratio));
	if (!ratio)
		return 1;
	time_bare(fd);
	time_admission(fd);
	for (int i = 0; i < rounds; i++) {
		double bare = (double)time_bare(fd);

		ratio[i] = (double)time_admission(fd) / bare;
	}
	qsort(ratio, (size_t)rounds, sizeof(*ratio), compare);
	printf("charge + settle against two bare getsockopt: %.2f times (median of %d rounds of "
	       "%d; "
	       "quartiles %.2f to %.2f)\n",
	       ratio[rounds / 2], rounds, CALLS, ratio[rounds / 4], ratio[3 * rounds / 4]);
	free(ratio);
	return 0;
}
