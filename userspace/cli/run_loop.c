/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "userspace/cli/run_loop.h"
#include "userspace/common/cgproc.h"
#include "userspace/common/cgroup.h"
#include "userspace/common/clock.h"
#include "userspace/common/log.h"
#include "userspace/common/size.h"
#include "userspace/control/decide.h"
#include "userspace/control/losses.h"
#include "userspace/control/release.h"

/* Admission binds at once; this is how late a library may learn why. */
#define LOOK_USEC  50000
#define SWEEP_USEC 1000000

#define LOSS_GAP_MS 200 /* between two sweeps that losses bring about */

/* Events taken after the command ended: its last records wait in the sockets. */
#define DRAIN_EVENTS (NOTIFY_MAX_PEERS * 2)

static const int forwarded[] = { SIGINT,  SIGTERM,  SIGHUP,  SIGQUIT, SIGUSR1,
				 SIGUSR2, SIGWINCH, SIGCONT, SIGTSTP };

void run_loop_signals(sigset_t *ret)
{
	sigemptyset(ret);
	for (size_t i = 0; i < ARRAY_SIZE(forwarded); i++)
		sigaddset(ret, forwarded[i]);
	sigaddset(ret, SIGCHLD);
	sigaddset(ret, SIGPIPE); /* a summary nobody reads is not worth the exit code */
}

static void say(const struct run_loop *r, const char *what, const struct decide_in *in)
{
	char a[SIZE_FORMAT_BYTES], b[SIZE_FORMAT_BYTES];

	log_printf(r->verbose ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG, "%s: %s of %s", what,
		   size_format(in->current_bytes, a), size_format(in->limit_bytes, b));
}

/* With nobody to ask, the decision stands all the same: it is repeated later. */
static void ask_back(struct run_loop *r, const struct decide_out *out)
{
	char a[SIZE_FORMAT_BYTES], b[SIZE_FORMAT_BYTES];
	uint64_t rest;
	int asked = release_ask(r->kernel, r->notify, r->scope, out->bytes, &rest);

	if (asked <= 0)
		return;
	r->releases++;
	log_printf(r->verbose ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG,
		   "RELEASE: %s, down to %s, asked of %d process%s", size_format(out->bytes, a),
		   size_format(out->target_bytes, b), asked, asked == 1 ? "" : "es");
}

static void act(struct run_loop *r, const struct decide_in *in, const struct decide_out *out)
{
	switch (out->action) {
	case DECIDE_NOTHING:
		break;
	case DECIDE_STOP:
		notify_scope_stop(r->scope, NOTIFY_ALL, out->bytes);
		say(r, "STOP", in);
		break;
	case DECIDE_RESUME:
		notify_scope_resume(r->scope);
		say(r, "RESUME", in);
		break;
	case DECIDE_RELEASE:
		ask_back(r, out);
		break;
	case DECIDE_WITHDRAW:
		notify_scope_withdraw(r->scope);
		break;
	}
}

void run_loop_look(struct run_loop *r)
{
	static const struct decide_rules rules = DECIDE_RULES_DEFAULT;
	const uint64_t now = clock_ms();
	struct pincap_cgroup cg;
	struct decide_out out;
	struct decide_in in;

	if (!r->notify || kernel_get_cgroup(r->kernel, r->place->chain[0], &cg))
		return;
	in = (struct decide_in){
		.current_bytes = (uint64_t)MAX(cg.current, 0),
		.limit_bytes = cg.limit,
		.high_bytes = cg.high,
	};
	do {
		decide_recall(&r->past, now, &in);
		out = decide(&rules, &in);
		act(r, &in, &out);
		decide_remember(&r->past, &in, &out, now);
	} while (out.action != DECIDE_NOTHING);
}

static int again(sd_event_source *source, uint64_t usec)
{
	int err = sd_event_source_set_time_relative(source, usec);

	return err < 0 ? err : sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

/* A full map that the sweep itself meets is no news. */
static void sweep(struct run_loop *r)
{
	int err = kernel_sweep(r->kernel);
	struct pincap_stats st;

	if (err)
		pr_debug("sweep: %s, the next one retries", strerror(-err));
	if (!kernel_get_stats(r->kernel, &st))
		r->losses = losses_sum(&st);
	r->swept_ms = clock_ms();
}

/* A map was full: count by a sweep what it had no room for, at once, but no oftener
 * than a flood may make us. */
static void sweep_after_losses(struct run_loop *r)
{
	struct pincap_stats st;

	if (clock_ms() - r->swept_ms >= LOSS_GAP_MS && !kernel_get_stats(r->kernel, &st) &&
	    losses_sum(&st) != r->losses)
		sweep(r);
}

static int on_look(sd_event_source *source, uint64_t usec, void *ctx)
{
	(void)usec;
	sweep_after_losses(ctx);
	run_loop_look(ctx);
	return again(source, LOOK_USEC);
}

static int on_sweep(sd_event_source *source, uint64_t usec, void *ctx)
{
	(void)usec;
	sweep(ctx);
	return again(source, SWEEP_USEC);
}

static void send_child(const struct run_loop *r, int sig)
{
	if (r->child.pidfd < 0 || syscall(SYS_pidfd_send_signal, r->child.pidfd, sig, NULL, 0))
		kill(r->child.pid, sig); /* not waited for yet: the pid is still its own */
}

/* A process of the workload that signals its group means itself, and was heard. */
static bool is_from_inside(const struct run_loop *r, uint32_t pid)
{
	_cleanup_free_ char *cgpath = NULL;

	return pid && !cgroup_of_pid((pid_t)pid, &cgpath) && cgproc_below(cgpath, r->place->cgpath);
}

/* What the terminal sends (ctrl-C and its kin) goes to the whole group, and so
 * has reached the command already: only what a process sent to us is handed on. */
static int on_signal(sd_event_source *source, const struct signalfd_siginfo *si, void *ctx)
{
	struct run_loop *r = ctx;

	(void)source;
	if (!r->ended && si->ssi_code <= 0 && !is_from_inside(r, si->ssi_pid))
		send_child(r, (int)si->ssi_signo);
	return 0;
}

/* Stopped by job control: stop too, or the shell would wait for us and never
 * take the terminal back. Its SIGCONT reaches the whole group. */
static int on_child(sd_event_source *source, const siginfo_t *si, void *ctx)
{
	struct run_loop *r = ctx;

	if (si->si_code == CLD_EXITED || si->si_code == CLD_KILLED || si->si_code == CLD_DUMPED) {
		sd_event_source_set_enabled(source, SD_EVENT_OFF);
		r->status = *si;
		r->ended = true;
	} else if (si->si_code == CLD_STOPPED &&
		   (si->si_status == SIGTSTP || si->si_status == SIGTTIN ||
		    si->si_status == SIGTTOU)) {
		kill(getpid(), SIGSTOP);
	}
	return 0;
}

static int add_sources(struct run_loop *r)
{
	int err;

	err = sd_event_add_child(r->event, &r->child_source, r->child.pid, WEXITED | WSTOPPED,
				 on_child, r);
	if (err >= 0) /* it may stop more than once */
		err = sd_event_source_set_enabled(r->child_source, SD_EVENT_ON);
	for (size_t i = 0; err >= 0 && i < ARRAY_SIZE(forwarded); i++)
		err = sd_event_add_signal(r->event, NULL, forwarded[i], on_signal, r);
	if (err >= 0 && r->kernel)
		err = sd_event_add_time_relative(r->event, NULL, CLOCK_MONOTONIC, LOOK_USEC, 1000,
						 on_look, r);
	if (err >= 0 && r->kernel)
		err = sd_event_add_time_relative(r->event, NULL, CLOCK_MONOTONIC, SWEEP_USEC, 10000,
						 on_sweep, r);
	return MIN(err, 0);
}

int run_loop(struct run_loop *r)
{
	int err = add_sources(r);

	while (err >= 0 && !r->ended)
		err = sd_event_run(r->event, UINT64_MAX);
	if (err < 0) {
		while (!r->ended && waitid(P_PID, (id_t)r->child.pid, &r->status, WEXITED) &&
		       errno == EINTR)
			continue;
		r->ended = true;
		return err;
	}
	for (unsigned int i = 0; i < DRAIN_EVENTS && sd_event_run(r->event, 0) > 0; i++)
		continue;
	return 0;
}
