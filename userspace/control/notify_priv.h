/* SPDX-License-Identifier: MIT */
/* What notify.c and its neighbours share. */
#ifndef PINCAP_NOTIFY_PRIV_H
#define PINCAP_NOTIFY_PRIV_H

#include "userspace/common/list.h"
#include "userspace/control/notify.h"
#include "userspace/control/peer.h"
#include "userspace/control/scope.h"

#define NOTIFY_PID_BUCKETS 1024

struct notify {
	sd_event *event;
	sd_event_source *listener;
	char *path;
	char *cgpath;
	int fd;
	uint64_t epoch; /* the last one given out */
	struct scope_tree scopes;
	struct list peers; /* connected; the one looked at longest ago first */
	struct list gone;  /* newest first */
	struct list pids[NOTIFY_PID_BUCKETS];
	unsigned int connected;
	unsigned int remembered;
	unsigned int turned_away;
};

static inline struct peer *notify_of_all(struct list *l)
{
	return container_of(l, struct peer, in_all);
}

static inline struct list *notify_pids(struct notify *n, pid_t pid)
{
	return &n->pids[(unsigned int)pid % NOTIFY_PID_BUCKETS];
}

/* Tells a peer what its scopes say by now. `epoch`: 0, for one of its own. */
void notify_settle(struct peer *p, uint64_t epoch);

/* Calls fn for every record of the scope and those below, gone ones included,
 * until it returns non-zero. fn may move the record, and no other. */
int notify_each(struct notify_scope *top, int (*fn)(struct peer *p, void *ctx), void *ctx);

#endif
