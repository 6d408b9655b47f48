/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>
#include <bpf/bpf.h>
#include <cmocka.h>

#include "tests/kernel/harness.h"
#include "tests/kernel/sampler.h"

static struct {
	pthread_t thread;
	int fd;
	uint64_t cgid;
	struct sampler_seen seen;
	bool running;
	atomic_bool stop;
} sampler;

static void *sample(void *arg)
{
	const struct timespec moment = { .tv_nsec = 1000000 };
	struct sampler_seen *s = arg;
	struct pincap_cgroup m;

	while (!atomic_load(&sampler.stop)) {
		if (!bpf_map_lookup_elem(sampler.fd, &sampler.cgid, &m)) {
			s->lowest = m.current < s->lowest ? m.current : s->lowest;
			s->highest = m.current > s->highest ? m.current : s->highest;
			s->samples++;
		}
		nanosleep(&moment, NULL);
	}
	return NULL;
}

void sampler_start(const struct cg *cg)
{
	sampler.fd = map_fd("cgroups");
	sampler.cgid = cg->id;
	sampler.seen = (struct sampler_seen){ 0 };
	atomic_store(&sampler.stop, false);
	assert_int_equal(pthread_create(&sampler.thread, NULL, sample, &sampler.seen), 0);
	sampler.running = true;
}

void sampler_stop(void)
{
	if (!sampler.running)
		return;
	atomic_store(&sampler.stop, true);
	pthread_join(sampler.thread, NULL);
	sampler.running = false;
}

struct sampler_seen sampler_seen(void)
{
	return sampler.seen;
}
