/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-journal.h>

#include "userspace/common/clock.h"
#include "userspace/common/comm.h"
#include "userspace/common/log.h"
#include "userspace/common/size.h"
#include "userspace/daemon/daemon.h"

/* Of all cgroups together; a flood of tenants' doings fills no disk. */
#define WINDOW_MS	 10000
#define LINES_PER_WINDOW 50

#define REFUSALS_GAP_MS 10000 /* between two lines on one cgroup's refusals */

/* Of `event` in on_over: journalctl -f MESSAGE_ID=... */
#define OVER_MESSAGE_ID "b3f1c5c2f0f34e0d8f4a8e0c6d6a7b15"

bool report_may(struct report *r)
{
	uint64_t now = clock_ms();

	if (!r->window_ms || now - r->window_ms >= WINDOW_MS) {
		if (r->suppressed)
			pr_warn("%u lines like these left out", r->suppressed);
		r->window_ms = now;
		r->lines = r->suppressed = 0;
	}
	if (r->lines < LINES_PER_WINDOW) {
		r->lines++;
		return true;
	}
	r->suppressed++;
	return false;
}

static void remember(struct told *t, const struct pincap_cgroup *cg, uint64_t observed)
{
	t->is_known = true;
	t->limit_hits = cg->limit_hits;
	t->reserve_hits = cg->reserve_hits;
	t->would_refuse = cg->would_refuse + observed;
}

static void name_last(const struct told *t, char *buf, size_t size)
{
	buf[0] = '\0';
	if (t->pid)
		snprintf(buf, size, "; last %s[%u]", t->comm, t->pid);
}

static void say_count(const struct budget *b, uint64_t n, const char *verb, const char *why)
{
	char last[48];

	name_last(&b->told, last, sizeof(last));
	pr_info("%s %" PRIu64 " request%s in '%s': %s%s", verb, n, n == 1 ? "" : "s", b->cgpath,
		why, last);
}

/* What the reserve refused is said of the root, for all. */
void report_refusals(struct daemon *d, struct budget *b, const struct pincap_cgroup *cg,
		     uint64_t now)
{
	const bool is_root = b == d->root;
	const uint64_t observed = is_root ? gate_observed(d->gate) : 0;
	const uint64_t would = cg->would_refuse + observed - b->told.would_refuse;
	const uint64_t limit = cg->limit_hits - b->told.limit_hits;
	const uint64_t reserve = is_root ? cg->reserve_hits - b->told.reserve_hits : 0;
	char text[SIZE_FORMAT_BYTES], why[64];

	if (!b->told.is_known) {
		remember(&b->told, cg, observed);
		return;
	}
	if (!(limit | reserve | would) || (b->told.ms && now - b->told.ms < REFUSALS_GAP_MS) ||
	    !report_may(&d->report))
		return;
	snprintf(why, sizeof(why), "its limit of %s is reached", size_format(cg->limit, text));
	if (limit)
		say_count(b, limit, "refused", why);
	if (reserve)
		say_count(b, reserve, "refused", "the host is at its reserve");
	if (would)
		say_count(b, would, "would refuse",
			  is_root && observed ? "the host is at its reserve" : why);
	remember(&b->told, cg, observed);
	b->told.ms = now;
	b->told.pid = 0;
}

void report_refused(struct budget *b, const struct pincap_event *e)
{
	b->told.pid = e->tgid;
	memcpy(b->told.comm, e->comm, sizeof(b->told.comm));
	b->told.comm[sizeof(b->told.comm) - 1] = '\0';
}

static void over_text(const struct budget *b, const struct pincap_cgroup *cg, char *buf,
		      size_t size)
{
	char now[SIZE_FORMAT_BYTES], limit[SIZE_FORMAT_BYTES], over[SIZE_FORMAT_BYTES];

	snprintf(buf, size, "'%s' is over: %s in use, limit %s, over by %s", b->cgpath,
		 size_format((uint64_t)cg->current, now), size_format(cg->limit, limit),
		 size_format((uint64_t)cg->current - cg->limit, over));
}

bool report_over(struct daemon *d, const struct budget *b, const struct pincap_cgroup *cg)
{
	char text[1024];

	if (!report_may(&d->report))
		return false;
	over_text(b, cg, text, sizeof(text));
	pr_warn("%s", text);
	return true;
}

/* For programs, and at their priority: people have the log. Without a journal nobody
 * listens. */
void report_over_event(const struct budget *b, const struct pincap_cgroup *cg)
{
	char text[1024], line[2048];

	over_text(b, cg, text, sizeof(text));
	log_escape(text, line, sizeof(line));
	sd_journal_send("MESSAGE=%s", line, "MESSAGE_ID=" OVER_MESSAGE_ID, "PRIORITY=7",
			"PINCAP_EVENT=over", "PINCAP_CGROUP=%s", b->cgpath,
			"PINCAP_CURRENT_BYTES=%" PRId64, (int64_t)cg->current,
			"PINCAP_LIMIT_BYTES=%" PRIu64, (uint64_t)cg->limit, NULL);
}

void report_below(struct daemon *d, const struct budget *b, const struct pincap_cgroup *cg,
		  uint64_t after_ms)
{
	char now[SIZE_FORMAT_BYTES], limit[SIZE_FORMAT_BYTES];

	if (report_may(&d->report))
		pr_info("'%s' is within its limit again after %" PRIu64 ".%" PRIu64
			" s: %s in use, limit %s",
			b->cgpath, after_ms / 1000, after_ms % 1000 / 100,
			size_format((uint64_t)cg->current, now), size_format(cg->limit, limit));
}

struct deaf {
	unsigned int count;
	pid_t first;
	uint64_t bytes;
};

static int on_peer(const struct notify_peer *p, void *ctx)
{
	struct deaf *deaf = ctx;

	if (!p->release_bytes || p->release_heard)
		return 0;
	if (!deaf->count++)
		deaf->first = p->pid;
	deaf->bytes += p->release_had_bytes;
	return 0;
}

void report_deaf(struct daemon *d, struct budget *b, uint64_t now)
{
	char text[SIZE_FORMAT_BYTES], comm[COMM_BYTES];
	struct deaf deaf = { 0 };

	if (b->told.release_ms == b->past.release_ms ||
	    now - b->past.release_ms < d->config->release_timeout_ms)
		return;
	b->told.release_ms = b->past.release_ms;
	notify_each_peer(b->scope, on_peer, &deaf);
	b->deaf = deaf.count;
	if (!deaf.count || b->told.deaf || !report_may(&d->report))
		return;
	b->told.deaf = true;
	pr_warn("'%s': %u process%s asked for memory did not answer within %u ms, %s[%d]%s; "
		"%s stay where they are",
		b->cgpath, deaf.count, deaf.count == 1 ? "" : "es", d->config->release_timeout_ms,
		comm_of_pid(deaf.first, comm), (int)deaf.first, deaf.count > 1 ? " and others" : "",
		size_format(deaf.bytes, text));
}

static void host_text(const struct daemon_status *st, char *buf, size_t size)
{
	char text[SIZE_FORMAT_BYTES];

	if (!st->reserve_bytes)
		snprintf(buf, size, "no reserve");
	else if (st->host_short)
		snprintf(buf, size, "host below its reserve");
	else
		snprintf(buf, size, "host above its reserve of %s",
			 size_format(st->reserve_bytes, text));
}

/* Without figures that change all the time: systemd hears of changes alone. */
static void tell_systemd(struct daemon *d)
{
	struct daemon_status st;
	char text[sizeof(d->report.status)], host[96];

	daemon_get_status(d, &st);
	host_text(&st, host, sizeof(host));
	snprintf(text, sizeof(text),
		 "STATUS=%s%" PRIu64 " budgets, %" PRIu64 " stopped, %" PRIu64 " over; %" PRIu64
		 " libraries, %" PRIu64 " deaf; %s%s",
		 st.dry_run ? "dry run: " : "", st.budgets, st.stopped, st.over, st.libraries,
		 st.deaf, host, *st.last_error ? "; last reload failed" : "");
	if (streq(text, d->report.status))
		return;
	strcpy(d->report.status, text);
	sd_notify(0, text);
}

void report_flush(struct daemon *d)
{
	if (d->report.suppressed && clock_ms() - d->report.window_ms >= WINDOW_MS)
		report_may(&d->report);
	tell_systemd(d);
}
