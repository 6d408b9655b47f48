/* SPDX-License-Identifier: MIT */
/* Who hears STOP and RESUME: scopes, and peers that move between them. */
#include <errno.h>

#include "userspace/control/notify_priv.h"

void notify_settle(struct peer *p, uint64_t epoch)
{
	uint64_t bytes;
	bool stop = scope_is_stopped(p->scope, &bytes);

	if (p->fd < 0 || !p->greeted || stop == p->want_stop)
		return;
	peer_want(p, stop, bytes, epoch ? epoch : ++p->owner->epoch);
	peer_flush(p);
}

/* Where it is now, and what it is told there. */
static void look_again(struct peer *p)
{
	if (!peer_has_moved(p))
		return;
	scope_place(&p->owner->scopes, p);
	notify_settle(p, 0);
}

void notify_refresh(struct notify *n, unsigned int max)
{
	for (max = MIN(max, n->connected); max; max--) {
		struct peer *p = notify_of_all(n->peers.next);

		list_take_out(&p->in_all);
		list_add_before(&n->peers, &p->in_all);
		look_again(p);
	}
}

void notify_moved(struct notify *n, pid_t pid)
{
	struct list *head = notify_pids(n, pid);

	for (struct list *l = head->next; l != head; l = l->next) {
		struct peer *p = container_of(l, struct peer, in_pids);

		if (p->id.pid == pid && p->fd >= 0)
			look_again(p);
	}
}

int notify_each(struct notify_scope *top, int (*fn)(struct peer *p, void *ctx), void *ctx)
{
	int rc;

	for (struct notify_scope *s = top; s; s = scope_next(top, s)) {
		struct list *next;

		for (struct list *l = s->peers.next; l != &s->peers; l = next) {
			next = l->next;
			rc = fn(container_of(l, struct peer, in_scope), ctx);
			if (rc)
				return rc;
		}
	}
	return 0;
}

static int on_look_again(struct peer *p, void *ctx)
{
	(void)ctx;
	if (p->fd >= 0)
		look_again(p);
	return 0;
}

static int on_settle(struct peer *p, void *ctx)
{
	notify_settle(p, *(uint64_t *)ctx);
	return 0;
}

/* One epoch for all who hear of it. Those who left are told what holds where they
 * are now; nobody leaves "/". */
static void settle_all(struct notify_scope *s)
{
	uint64_t epoch;

	if (s->parent)
		notify_each(s, on_look_again, NULL);
	epoch = ++s->owner->epoch;
	notify_each(s, on_settle, &epoch);
}

int notify_scope_new(struct notify_scope **ret, struct notify *n, const char *cgpath)
{
	const size_t len = strlen(cgpath);
	struct notify_scope *s = &n->scopes.root;

	if (cgpath[0] != '/' || (len > 1 && cgpath[len - 1] == '/'))
		return -EINVAL;
	if (len > 1 ? scope_get(&n->scopes, cgpath) != NULL : s->cgpath != NULL)
		return -EEXIST;
	if (len > 1)
		s = calloc(1, sizeof(*s));
	if (s)
		s->cgpath = strdup(cgpath);
	if (!s || !s->cgpath) {
		if (len > 1)
			free(s);
		return -ENOMEM;
	}
	s->owner = n;
	if (len > 1)
		scope_insert(&n->scopes, s);
	*ret = s;
	return 0;
}

struct notify_scope *notify_scope_free(struct notify_scope *s)
{
	if (!s)
		return NULL;
	s->stopped = s->is_protected = false;
	settle_all(s);
	free(TAKE_PTR(s->cgpath));
	if (s->parent) {
		scope_remove(s);
		free(s);
	}
	return NULL;
}

void notify_scope_stop(struct notify_scope *s, enum notify_reach reach, uint64_t over_bytes)
{
	s->stopped = true;
	s->reach = reach;
	s->over_bytes = over_bytes;
	s->stops++;
	settle_all(s);
}

void notify_scope_resume(struct notify_scope *s)
{
	s->stopped = false;
	s->resumes++;
	settle_all(s);
}

void notify_scope_protect(struct notify_scope *s, bool is_protected)
{
	if (s->is_protected == is_protected)
		return;
	s->is_protected = is_protected;
	settle_all(s);
}

struct sums {
	struct notify_stats stats;
	struct peer_totals totals;
};

static int on_count(struct peer *p, void *ctx)
{
	struct sums *sums = ctx;

	peer_totals_add(&sums->totals, p);
	if (p->fd < 0)
		return 0;
	sums->stats.peers += p->greeted;
	sums->stats.acked += p->told_epoch && p->acked_epoch >= p->told_epoch;
	return 0;
}

void notify_scope_get_stats(struct notify_scope *top, struct notify_stats *ret)
{
	struct sums sums = { 0 };

	for (struct notify_scope *s = top; s; s = scope_next(top, s)) {
		peer_totals_merge(&sums.totals, &s->faded);
		sums.stats.stops += s->stops;
		sums.stats.resumes += s->resumes;
	}
	notify_each(top, on_count, &sums);
	*ret = sums.stats;
	ret->epoch = top->owner->epoch;
	ret->turned_away = top->owner->turned_away;
	ret->told = sums.totals.told;
	ret->obeyed = sums.totals.obeyed;
	ret->asked = sums.totals.asked;
	ret->heard = sums.totals.heard;
	ret->given_bytes = sums.totals.given_bytes;
	ret->withheld_count = sums.totals.withheld_count;
	ret->withheld_bytes = sums.totals.withheld_bytes;
}

void notify_get_stats(struct notify *n, struct notify_stats *ret)
{
	notify_scope_get_stats(&n->scopes.root, ret);
}
