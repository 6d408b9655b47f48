/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "userspace/control/decide.h"
#include "userspace/control/release.h"

struct holders {
	struct decide_holder *items;
	size_t count;
	size_t room;
};

static int on_peer(const struct notify_peer *p, void *ctx)
{
	struct holders *h = ctx;

	if (h->count == h->room) {
		size_t room = h->room ? 2 * h->room : 64;
		struct decide_holder *items = reallocarray(h->items, room, sizeof(*items));

		if (!items)
			return -ENOMEM;
		h->items = items;
		h->room = room;
	}
	h->items[h->count++] = (struct decide_holder){
		.id = p->pid,
		.asked_bytes = p->release_had_bytes,
	};
	return 0;
}

static int by_id(const void *a, const void *b)
{
	const struct decide_holder *x = a, *y = b;

	return x->id < y->id ? -1 : x->id > y->id;
}

/* A process may have several address spaces: what it held before an exec. */
static int on_process(const struct pincap_process *p, void *ctx)
{
	const struct decide_holder key = { .id = (int32_t)p->tgid };
	struct holders *h = ctx;
	struct decide_holder *found;

	found = bsearch(&key, h->items, h->count, sizeof(key), by_id);
	if (found)
		found->bytes += p->locked + p->pinned + p->gpu + p->held;
	return 0;
}

static int ask(struct notify *n, const struct holders *h)
{
	int asked = 0;

	for (size_t i = 0; i < h->count; i++) {
		const struct decide_holder *o = &h->items[i];

		if (o->give_bytes && !notify_release(n, (pid_t)o->id, o->give_bytes, o->bytes))
			asked++;
	}
	return asked;
}

int release_ask(struct kernel *k, struct notify *n, struct notify_scope *s, uint64_t bytes,
		uint64_t *ret_rest)
{
	struct holders h = { 0 };
	int rc;

	rc = notify_each_peer(s, on_peer, &h);
	if (!rc && h.count) {
		qsort(h.items, h.count, sizeof(*h.items), by_id);
		rc = kernel_each_process(k, on_process, &h);
	}
	if (!rc) {
		*ret_rest = decide_share(h.items, h.count, bytes);
		rc = ask(n, &h);
	}
	free(h.items);
	return rc;
}
