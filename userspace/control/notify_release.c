/* SPDX-License-Identifier: MIT */
/* Who hears RELEASE. */
#include <errno.h>

#include "userspace/control/notify_priv.h"

static struct peer *of_pid(struct notify *n, pid_t pid, struct peer *after)
{
	struct list *head = notify_pids(n, pid);

	for (struct list *l = after ? after->in_pids.next : head->next; l != head; l = l->next) {
		struct peer *p = container_of(l, struct peer, in_pids);

		if (p->id.pid == pid && p->fd >= 0 && p->greeted)
			return p;
	}
	return NULL;
}

struct visit {
	notify_peer_fn fn;
	void *ctx;
};

static int on_visit(struct peer *p, void *ctx)
{
	const struct visit *v = ctx;
	const bool asked = p->release_bytes > 0;
	const struct notify_peer view = {
		.pid = p->id.pid,
		.cgpath = p->cgpath,
		.stopped = p->want_stop,
		.release_epoch = asked ? p->release_epoch : 0,
		.release_bytes = p->release_bytes,
		.release_had_bytes = p->release_had_bytes,
		.release_heard = asked && p->acked_epoch >= p->release_epoch,
		.given_count = asked ? p->given_count : 0,
		.given_bytes = asked ? p->given_bytes : 0,
	};

	/* Of several connections of a process, one will do. */
	if (p != of_pid(p->owner, p->id.pid, NULL))
		return 0;
	return v->fn(&view, v->ctx);
}

int notify_each_peer(struct notify_scope *s, notify_peer_fn fn, void *ctx)
{
	return notify_each(s, on_visit, &(struct visit){ fn, ctx });
}

int notify_release(struct notify *n, pid_t pid, uint64_t bytes, uint64_t had_bytes)
{
	struct peer *p = of_pid(n, pid, NULL);
	const uint64_t epoch = n->epoch + 1;

	if (!p)
		return -ESRCH;
	n->epoch = epoch;
	/* Which of them has somebody who can give is not known. */
	for (; p; p = of_pid(n, pid, p)) {
		peer_ask(p, bytes, had_bytes, epoch);
		peer_flush(p);
	}
	return 0;
}

static int on_withdraw(struct peer *p, void *ctx)
{
	const uint64_t *epoch = ctx;

	if (!p->release_bytes || p->fd < 0)
		return 0;
	if (peer_owes(p)) {
		peer_ask(p, 0, 0, *epoch);
		peer_flush(p);
	} else {
		p->release_bytes = p->release_had_bytes = 0;
	}
	return 0;
}

void notify_scope_withdraw(struct notify_scope *s)
{
	uint64_t epoch = ++s->owner->epoch;

	notify_each(s, on_withdraw, &epoch);
}
