/* SPDX-License-Identifier: MIT */
/* See workload.h. */
#include <poll.h>
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

#include "tests/daemon/workload.h"
#include "userspace/lib/pincap.h"

#define PIECE	   (1UL << 20)
#define READY_MS   20000
#define DISPATCHES 10 /* a second */

static volatile struct workload_shared *self;
static char *memory;

static void on_signal(int sig)
{
	(void)sig;
	self->signals++;
}

static void catch_all(void)
{
	const struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };

	for (int sig = 1; sig < NSIG; sig++)
		sigaction(sig, &sa, NULL);
}

static uint64_t give_back(uint64_t bytes, void *ctx)
{
	uint64_t given = 0;

	(void)ctx;
	while (given < bytes && self->locked_mib) {
		self->locked_mib--;
		munlock(memory + self->locked_mib * PIECE, PIECE);
		given += PIECE;
	}
	self->released += given > 0;
	return given;
}

static bool lock_one(enum workload_kind kind)
{
	char *piece = memory + self->locked_mib * PIECE;
	int rc = kind == WORKLOAD_UNMANAGED ? PINCAP_UNMANAGED
					    : pincap_charge(PIECE, PINCAP_KIND_LOCK);

	if (rc < 0)
		return false;
	rc = mlock(piece, PIECE);
	if (kind != WORKLOAD_UNMANAGED)
		pincap_settle();
	return !rc;
}

static void say_status(void)
{
	struct pincap_info info = { .size = sizeof(info) };

	if (pincap_status(&info))
		return;
	self->stopped = info.stopped;
	self->epoch = info.epoch;
}

static void live(enum workload_kind kind, unsigned int mib, int ready)
{
	memory =
		mmap(NULL, mib * PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (kind == WORKLOAD_GIVES)
		pincap_on_release(give_back, NULL);
	for (unsigned int i = 0; i < mib; i++) {
		if (lock_one(kind))
			self->locked_mib++;
		else
			self->refused++;
	}
	if (write(ready, "", 1) != 1)
		_exit(1);
	for (;;) {
		struct pollfd p = { .fd = -1, .events = POLLIN };

		if (kind == WORKLOAD_GIVES) {
			p.fd = pincap_fd();
			poll(&p, 1, 1000 / DISPATCHES);
			pincap_dispatch();
			say_status();
		} else {
			pause();
		}
	}
}

void workload_start(struct workload *w, const struct cg *cg, enum workload_kind kind,
		    unsigned int mib)
{
	struct pollfd p = { .events = POLLIN };
	int ready[2];

	w->shared = mmap(NULL, sizeof(*w->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(w->shared != MAP_FAILED);
	assert_int_equal(pipe(ready), 0);
	w->pid = cg_fork(cg);
	if (!w->pid) {
		self = w->shared;
		catch_all();
		live(kind, mib, ready[1]);
	}
	close(ready[1]);
	p.fd = ready[0];
	assert_int_equal(poll(&p, 1, READY_MS), 1);
	assert_int_equal(p.revents & POLLIN, POLLIN);
	close(ready[0]);
}

bool workload_becomes_stopped(const struct workload *w, bool stopped)
{
	struct deadline d = deadline_in(2000);

	while (w->shared->stopped != stopped)
		if (!deadline_open(&d))
			return false;
	return true;
}

bool workload_is_well(const struct workload *w)
{
	return !waitpid(w->pid, NULL, WNOHANG) && !w->shared->signals;
}

void workload_end(struct workload *w)
{
	kill(w->pid, SIGKILL);
	reap(w->pid);
	munmap((void *)w->shared, sizeof(*w->shared));
}
