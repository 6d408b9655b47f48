/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>

#include "userspace/common/clock.h"
#include "userspace/common/cgroup.h"
#include "userspace/common/hostmem.h"
#include "userspace/common/log.h"
#include "userspace/common/size.h"
#include "userspace/daemon/daemon.h"

/* As fast as all others together can eat memory, generously: a core zeroes some
 * 4 GiB a second. What is further from the reserve than this can go in two ticks is
 * not near. */
#define EATEN_PER_MS (8ULL << 20)
#define NEAR_TICK_MS 25

/* The host has memory again this far above the reserve, or a tenth of it. Less than
 * the jitter of MemAvailable would flap. */
#define PLAY_MAX_BYTES (256ULL << 20)
#define PLAY_MIN_BYTES (16ULL << 20)

/* In flight for so long: whoever asked does not pin, or will not soon. */
#define OVERDUE_MS	2000
#define OVERDUE_LOOK_MS 1000

/* Others fight for memory already. The window that a kernel gives to whoever lacks
 * CAP_SYS_RESOURCE is 2 s; a shorter one is looked at oftener. */
#define PSI_FILE "/proc/pressure/memory"
static const char *const psi_triggers[] = { "some 50000 500000", "some 100000 2000000" };

/* gate.bpf.h: the epoch in the upper 16 bits */
#define TAKEN_EPOCH_SHIFT 48

int reserve_configure(struct daemon *d)
{
	struct reserve *r = &d->reserve;
	struct hostmem m;
	int err = hostmem_read(&m);

	if (err)
		return log_ret(err, "read how much memory there is");
	/* of the host, not of the daemon's own cgroup */
	r->host = (struct rule_base){ .ram_bytes = m.total_bytes, .swap_bytes = m.swap_bytes };
	err = rule_size_resolve(&d->config->reserve, &r->host, &r->bytes);
	return err ? log_ret(err, "reserve") : 0;
}

static int on_pressure(sd_event_source *source, int fd, uint32_t events, void *ctx)
{
	struct daemon *d = ctx;

	(void)fd;
	if (events & (EPOLLERR | EPOLLHUP))
		return sd_event_source_set_enabled(source, SD_EVENT_OFF);
	reserve_tick(d);
	return 0;
}

static int open_trigger(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(psi_triggers); i++) {
		_cleanup_close_ int fd = open(PSI_FILE, O_RDWR | O_NONBLOCK | O_CLOEXEC);

		if (fd >= 0 && write(fd, psi_triggers[i], strlen(psi_triggers[i]) + 1) > 0)
			return TAKE_FD(fd);
	}
	return -errno;
}

/* A kernel without pressure figures has the ticks alone. */
int reserve_watch_pressure(struct daemon *d)
{
	struct reserve *r = &d->reserve;
	int err;

	r->psi_fd = open_trigger();
	if (r->psi_fd < 0) {
		pr_debug("watch " PSI_FILE ": %s, memory is looked at with the ticks alone",
			 strerror(-r->psi_fd));
		return 0;
	}
	err = sd_event_add_io(d->event, &r->psi, r->psi_fd, EPOLLPRI, on_pressure, d);
	return err < 0 ? log_ret(err, "watch " PSI_FILE) : 0;
}

void reserve_done(struct daemon *d)
{
	d->reserve.psi = sd_event_source_disable_unref(d->reserve.psi);
	closep(&d->reserve.psi_fd);
}

/*
 * What was admitted and is not pinned yet, as far as MemAvailable will show it soon.
 * Read after the snapshot and before MemAvailable: what was admitted before the one
 * is in this, or pinned and missing from the other.
 */
static uint64_t in_flight(struct daemon *d, uint64_t now)
{
	struct reserve *r = &d->reserve;
	struct pincap_cgroup root;

	if (kernel_get_cgroup(d->kernel, d->root->cgid, &root) || !root.in_flight) {
		r->idle_ms = now;
		r->overdue_bytes = 0;
		return 0;
	}
	if (now - r->idle_ms > OVERDUE_MS && now - r->overdue_ms > OVERDUE_LOOK_MS) {
		kernel_get_overdue(d->kernel, (now - OVERDUE_MS) * 1000000, &r->overdue_bytes);
		r->overdue_ms = now;
	}
	return (uint64_t)root.in_flight - MIN(r->overdue_bytes, (uint64_t)root.in_flight);
}

static uint64_t play(const struct daemon *d)
{
	uint64_t part = d->reserve.bytes / 100 * d->config->hysteresis_percent;

	return MAX(MIN(part, PLAY_MAX_BYTES), PLAY_MIN_BYTES);
}

static void say(const struct daemon *d, bool is_short)
{
	char a[SIZE_FORMAT_BYTES], b[SIZE_FORMAT_BYTES];
	const struct reserve *r = &d->reserve;
	const char *left = size_format((uint64_t)MAX(r->above_bytes + (int64_t)r->bytes, 0), a);

	if (is_short)
		pr_warn("the host is below its reserve of %s: %s available; %s",
			size_format(r->bytes, b), left,
			daemon_is_dry(d) ? "nothing is refused (dry run)"
					 : "nobody may pin more but what is protected");
	else
		pr_info("the host is above its reserve of %s again: %s available",
			size_format(r->bytes, b), left);
}

static void judge(struct daemon *d)
{
	struct reserve *r = &d->reserve;
	bool is_short = r->is_short ? r->above_bytes < (int64_t)play(d) : r->above_bytes <= 0;

	r->is_near = r->above_bytes < (int64_t)(EATEN_PER_MS * 2 * d->config->tick_ms);
	if (is_short == r->is_short)
		return;
	r->is_short = is_short;
	r->transitions++;
	say(d, is_short);
}

static void withdraw(struct daemon *d)
{
	struct reserve *r = &d->reserve;

	if (r->is_published)
		gate_withdraw(d->gate);
	r->is_published = r->is_short = r->is_near = false;
}

/* One asks alone: he has it all. Of several each has his part, until the next. */
static uint64_t share(const struct reserve *r)
{
	/* all but PINCAP_UNLIMITED, with which nobody's part is noted */
	if (r->asking < 2)
		return PINCAP_UNLIMITED - 1;
	return (uint64_t)MAX(r->above_bytes, 0) / r->asking;
}

static void publish(struct daemon *d, uint64_t snapshot, uint64_t flying, uint64_t now)
{
	struct reserve *r = &d->reserve;
	const struct pincap_headroom room = {
		.bytes = r->above_bytes - (int64_t)flying,
		.snapshot = snapshot,
		.share = share(r),
		.observe = daemon_is_dry(d),
	};

	r->epoch = gate_publish(d->gate, &room);
	r->is_published = true;
	if (now / 1000 != r->second) {
		r->second = now / 1000;
		r->epochs[r->second % RESERVE_SECONDS] = r->epoch;
	}
}

void reserve_tick(struct daemon *d)
{
	struct reserve *r = &d->reserve;
	const uint64_t now = clock_ms(), snapshot = gate_admitted(d->gate);
	uint64_t available, flying;
	int err;

	if (!r->bytes) {
		withdraw(d);
		return;
	}
	flying = in_flight(d, now);
	err = hostmem_available(&available);
	if (err) {
		if (!r->is_unreadable)
			log_ret(err, "read MemAvailable, the reserve holds nobody");
		r->is_unreadable = true;
		withdraw(d);
		return;
	}
	r->is_unreadable = false;
	r->above_bytes = (int64_t)available - (int64_t)r->bytes;
	publish(d, snapshot, flying, now);
	judge(d);
}

uint64_t reserve_tick_ms(const struct daemon *d)
{
	return d->reserve.is_near ? MIN(NEAR_TICK_MS, d->config->tick_ms) : d->config->tick_ms;
}

bool reserve_is_asking(const struct reserve *r, uint64_t taken)
{
	const uint32_t oldest = r->epochs[(r->second + 1) % RESERVE_SECONDS];
	const uint16_t age = (uint16_t)(r->epoch - (uint32_t)(taken >> TAKEN_EPOCH_SHIFT));

	return taken && r->epoch && age <= MIN(r->epoch - oldest, (uint32_t)UINT16_MAX);
}
