/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>

#include "userspace/common/cgroup.h"
#include "userspace/common/clock.h"
#include "userspace/common/log.h"
#include "userspace/control/losses.h"
#include "userspace/daemon/caps.h"
#include "userspace/daemon/daemon.h"
#include "userspace/daemon/discover.h"
#include "userspace/daemon/look.h"
#include "userspace/daemon/over.h"
#include "userspace/daemon/reload.h"
#include "userspace/daemon/remote.h"
#include "userspace/daemon/socket.h"

/* It has little to do, and that when all others fight for the processors: whoever pins
 * on all of them must not keep the reserve from being looked at. */
#define NICE (-10)

/* Of PINCAP_HEARTBEAT_NS a fifth: a busy machine may miss some. */
#define BEAT_USEC 200000

#define SCAN_MS	     1000
#define SCAN_SOON_MS 200 /* likewise when the reserve refused somebody */

/* The sweep costs this part of the time at most, unless the GPU holds ranges, whose
 * end nothing but it finds. */
#define SWEEP_MIN_MS 1000
#define SWEEP_MAX_MS 10000
#define SWEEP_PART   1000

#define LOSS_GAP_MS 200 /* between two sweeps that losses bring about */

#define REFRESH_PEERS 32 /* whose cgroup is looked up again with each scan */

static const int signals[] = { SIGTERM, SIGINT, SIGHUP };

bool daemon_is_dry(const struct daemon *d)
{
	return d->options.dry_run || d->config->dry_run;
}

void daemon_get_status(const struct daemon *d, struct daemon_status *ret)
{
	struct notify_stats stats;
	struct daemon_status st = {
		.signals = d->budgets.signals,
		.reserve_bytes = d->reserve.bytes,
		.above_bytes = d->reserve.above_bytes,
		.host_short = d->reserve.is_short,
		.transitions = d->reserve.transitions,
		.reloads = d->reloads,
		.dry_run = daemon_is_dry(d),
	};

	for (struct list *l = d->budgets.all.next; l != &d->budgets.all; l = l->next) {
		const struct budget *b = budgets_of(l);

		st.budgets += b->rule || b != d->root;
		st.stopped += b->past.stopped_for != DECIDE_FINE;
		st.over += b->over.since_ms != 0;
		st.deaf += b->deaf;
	}
	notify_get_stats(d->notify, &stats);
	st.libraries = stats.peers;
	strcpy(st.last_error, d->last_error);
	*ret = st;
}

/* ---- events ---- */

static void on_removed(struct daemon *d, uint64_t cgid)
{
	struct budget *b = budgets_find(&d->budgets, cgid);

	if (b && b != d->root)
		budget_free(&d->budgets, b);
}

static void on_refused(struct daemon *d, const struct pincap_event *e)
{
	bool is_reserve = e->err == -ENOMEM;
	struct budget *b = is_reserve ? d->root : budgets_find(&d->budgets, e->cgroup_id);

	if (is_reserve) /* who else asks? */
		d->scan_ms = MIN(d->scan_ms, d->scanned_ms + SCAN_SOON_MS);
	if (!b)
		return;
	report_refused(b, e);
	look_at(d, b);
}

static void on_gate_event(const struct pincap_event *e, const char *path, void *ctx)
{
	struct daemon *d = ctx;
	struct budget *b;

	switch (e->kind) {
	case PINCAP_EVENT_MKDIR:
		discover_made(d, e->cgroup_id, path ? path : "");
		break;
	case PINCAP_EVENT_RMDIR:
		on_removed(d, e->cgroup_id);
		break;
	case PINCAP_EVENT_REFUSED:
		on_refused(d, e);
		break;
	default:
		b = budgets_find(&d->budgets, e->cgroup_id);
		if (b)
			look_at(d, b);
		break;
	}
}

static int on_gate(sd_event_source *source, int fd, uint32_t events, void *ctx)
{
	struct daemon *d = ctx;
	int err = gate_dispatch(d->gate);

	(void)source;
	(void)fd;
	(void)events;
	if (err)
		return log_ret(err, "read events");
	discover_lost(d);
	return 0;
}

static int again(sd_event_source *source, uint64_t usec)
{
	int err = sd_event_source_set_time_relative(source, usec);

	return err < 0 ? err : sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static int on_beat(sd_event_source *source, uint64_t usec, void *ctx)
{
	struct daemon *d = ctx;

	(void)usec;
	gate_beat(d->gate);
	return again(source, BEAT_USEC);
}

/* ---- ticks ---- */

static void say_losses(const struct pincap_stats *st)
{
	struct loss losses[LOSSES_MAX];
	size_t n = losses_find(st, losses);

	for (size_t i = 0; i < n; i++)
		pr_warn("the kernel side lost account %llu times (%s): %s",
			(unsigned long long)losses[i].times, losses[i].name, losses[i].remedy);
}

/* A full map that the sweep itself meets is no news. */
static void sweep(struct daemon *d)
{
	const uint64_t begin = clock_ms();
	struct pincap_stats st;
	struct pincap_cgroup root;
	int err = kernel_sweep(d->kernel);

	if (err)
		pr_debug("sweep: %s, the next one retries", strerror(-err));
	if (!kernel_get_stats(d->kernel, &st))
		d->losses = losses_sum(&st);
	d->swept_ms = clock_ms();
	d->sweep_ms = d->swept_ms +
		      MIN(MAX((d->swept_ms - begin) * SWEEP_PART, SWEEP_MIN_MS), SWEEP_MAX_MS);
	if (!kernel_get_cgroup(d->kernel, d->root->cgid, &root) && root.gpu)
		d->sweep_ms = d->swept_ms + SWEEP_MIN_MS;
}

/* A map was full: count by a sweep what it had no room for, at once, but no oftener
 * than a flood may make us. */
static void sweep_after_losses(struct daemon *d, uint64_t now)
{
	struct pincap_stats st;

	if (now - d->swept_ms < LOSS_GAP_MS || kernel_get_stats(d->kernel, &st) ||
	    losses_sum(&st) == d->losses)
		return;
	if (report_may(&d->report))
		say_losses(&st);
	sweep(d);
}

static void scan(struct daemon *d, uint64_t now)
{
	look_at_all(d);
	notify_refresh(d->notify, REFRESH_PEERS);
	report_flush(d);
	d->scanned_ms = now;
	d->scan_ms = now + SCAN_MS;
	d->look_ms = now + d->config->tick_ms;
}

static int on_tick(sd_event_source *source, uint64_t usec, void *ctx)
{
	struct daemon *d = ctx;
	const uint64_t now = clock_ms();

	(void)usec;
	reserve_tick(d);
	sweep_after_losses(d, now);
	if (now >= d->sweep_ms)
		sweep(d);
	discover_lost(d);
	if (now >= d->scan_ms) {
		scan(d, now);
	} else if (now >= d->look_ms) {
		look_at_awake(d);
		d->look_ms = now + d->config->tick_ms;
	} else {
		look_at(d, d->root); /* near the reserve */
	}
	return again(source, reserve_tick_ms(d) * 1000);
}

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *si, void *ctx)
{
	struct daemon *d = ctx;

	(void)source;
	if (si->ssi_signo == SIGHUP)
		reload(d);
	else
		sd_event_exit(d->event, 0);
	return 0;
}

/* ---- begin and end ---- */

static int add_sources(struct daemon *d)
{
	sd_event_source *gate;
	int err;

	err = sd_event_add_io(d->event, &gate, gate_fd(d->gate), EPOLLIN, on_gate, d);
	if (err >= 0) /* a new cgroup waits for it */
		err = sd_event_source_set_priority(gate, SD_EVENT_PRIORITY_IMPORTANT);
	for (size_t i = 0; err >= 0 && i < ARRAY_SIZE(signals); i++)
		err = sd_event_add_signal(d->event, NULL, signals[i], on_signal, d);
	if (err >= 0)
		err = sd_event_add_time_relative(d->event, NULL, CLOCK_MONOTONIC, 0, 1000, on_beat,
						 d);
	if (err >= 0)
		err = sd_event_add_time_relative(d->event, &d->tick, CLOCK_MONOTONIC, 0, 1000,
						 on_tick, d);
	if (err >= 0)
		err = sd_event_set_watchdog(d->event, true);
	if (err < 0)
		return log_ret(err, "set up the event loop");
	return reserve_watch_pressure(d);
}

static int open_gate(struct daemon *d)
{
	int err = gate_open(&d->gate, d->kernel, on_gate_event, d);

	if (err == -EBUSY)
		return log_ret(err, "another pincapd runs; stop it first");
	return err ? log_ret(err, "open the gate of the kernel side") : 0;
}

/* The root's record is always there: the host's reserve is a matter of everybody. */
static int add_root(struct daemon *d)
{
	uint64_t cgid;
	int err = cgroup_id("/", &cgid);

	if (!err)
		err = budget_new(&d->root, &d->budgets, d->notify, cgid, "/");
	return err ? log_ret(err, "find the root of cgroup v2") : 0;
}

static int begin(struct daemon *d)
{
	const struct kernel_devices devices = { d->config->kfd, d->config->drm };
	int err;

	err = sd_event_default(&d->event);
	if (err < 0)
		return log_ret(err, "make an event loop");
	err = kernel_open(&d->kernel, true, &devices);
	if (!err)
		err = open_gate(d);
	if (!err)
		err = reload_settings(d, NULL);
	if (!err)
		err = socket_listen(d);
	if (!err)
		err = remote_listen(d);
	if (!err)
		err = add_root(d);
	if (err)
		return err;
	/* From now on new cgroups are told of, and wait until they are decided on. */
	gate_beat(d->gate);
	err = discover_all(d, false);
	if (!err)
		err = add_sources(d);
	if (err)
		return err;
	if (setpriority(PRIO_PROCESS, 0, NICE))
		pr_debug("nice %d: %m, ignoring", NICE);
	err = caps_drop();
	return err ? log_ret(err, "drop capabilities") : 0;
}

static void end(struct daemon *d)
{
	for (struct list *l = d->budgets.all.next; d->kernel && l != &d->budgets.all; l = l->next)
		over_end(d, budgets_of(l));
	budgets_done(&d->budgets);
	reserve_done(d);
	d->control = control_free(d->control);
	d->notify = notify_free(d->notify);
	d->gate = gate_close(d->gate);
	d->kernel = kernel_close(d->kernel);
	d->event = sd_event_unref(d->event);
	d->config = config_free(d->config);
}

static int run(struct daemon *d)
{
	int err;

	pr_info("%zu rule%s, %zu budgets%s", d->config->rules.count,
		d->config->rules.count == 1 ? "" : "s", d->budgets.count - 1,
		daemon_is_dry(d) ? "; dry run: nothing is refused" : "");
	malloc_trim(0); /* what loading took */
	sd_notify(0, "READY=1");
	err = sd_event_loop(d->event);
	sd_notify(0, "STOPPING=1");
	return err < 0 ? log_ret(err, "event loop") : 0;
}

int daemon_main(const struct daemon_options *options)
{
	struct daemon d = { .options = *options, .reserve = { .psi_fd = -1 } };
	struct config_error error;
	sigset_t set;
	int err;

	budgets_init(&d.budgets);
	/* One that comes early waits. */
	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		sigaddset(&set, signals[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	if (reload_read(options, &d.config, &error)) {
		fprintf(stderr, "%s\n", error.text);
		return 1;
	}
	err = begin(&d);
	if (!err)
		err = run(&d);
	end(&d);
	return err ? 1 : 0;
}
