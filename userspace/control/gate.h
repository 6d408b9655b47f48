/* SPDX-License-Identifier: MIT */
/*
 * What a controller says to the kernel side from moment to moment, and what the
 * kernel side tells it: headroom, heartbeat, up to which cgroup budgets are
 * decided, and the ring of events. One controller at a time: gate_open() takes the
 * lock for as long as it is open.
 *
 * All calls return 0 or a negative errno and stay silent.
 */
#ifndef PINCAP_GATE_H
#define PINCAP_GATE_H

#include "bpf/intf.h"
#include "userspace/control/kernel.h"

struct gate;

/* Called for each event; `path` is NULL but for MKDIR. A path of
 * PINCAP_EVENT_PATH - 1 bytes may have been cut. */
typedef void (*gate_event_fn)(const struct pincap_event *e, const char *path, void *ctx);

/* -EBUSY: another controller has it. */
int gate_open(struct gate **ret, struct kernel *k, gate_event_fn fn, void *ctx);

/* Withdraws the headroom and the heartbeat. Accepts NULL. */
struct gate *gate_close(struct gate *g);
void gate_closep(struct gate **g);

/* Readable when events wait; then gate_dispatch(). */
int gate_fd(const struct gate *g);
int gate_dispatch(struct gate *g);

/* To be called at least every PINCAP_HEARTBEAT_NS / 4. From the first on, charges
 * of cgroups above gate_decided() are held up (-EINPROGRESS), and mkdir is told. */
void gate_beat(struct gate *g);

/* Budgets are decided for every cgroup whose id is `cgid` or below. */
void gate_decided(struct gate *g, uint64_t cgid);

/* Cgroups made that no event told of, so far. */
uint64_t gate_lost(const struct gate *g);

/* Bytes admitted so far; to be read before MemAvailable is. */
uint64_t gate_admitted(const struct gate *g);

/* Requests that an observed headroom would have refused, so far. */
uint64_t gate_observed(const struct gate *g);

/* Takes bytes, snapshot, share and observe; fills in the rest. Returns the epoch. */
uint32_t gate_publish(struct gate *g, const struct pincap_headroom *room);

/* No reserve: nothing is refused on the host's behalf. */
void gate_withdraw(struct gate *g);

#endif
