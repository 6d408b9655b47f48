/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "userspace/common/clock.h"
#include "userspace/daemon/budgets.h"

/* Ids are inode numbers, handed out in turn. */
static struct list *bucket(struct budgets *bs, uint64_t cgid)
{
	return &bs->ids[cgid % BUDGETS_BUCKETS];
}

void budgets_init(struct budgets *bs)
{
	*bs = (struct budgets){ 0 };
	list_init(&bs->all);
	for (size_t i = 0; i < BUDGETS_BUCKETS; i++)
		list_init(&bs->ids[i]);
}

void budgets_done(struct budgets *bs)
{
	while (!list_is_empty(&bs->all))
		budget_free(bs, budgets_of(bs->all.next));
}

struct budget *budgets_of(struct list *in_all)
{
	return container_of(in_all, struct budget, in_all);
}

struct budget *budgets_find(struct budgets *bs, uint64_t cgid)
{
	struct list *head = bucket(bs, cgid);

	for (struct list *l = head->next; l != head; l = l->next) {
		struct budget *b = container_of(l, struct budget, in_ids);

		if (b->cgid == cgid)
			return b;
	}
	return NULL;
}

static struct budget *find_path(struct budgets *bs, const char *cgpath)
{
	for (struct list *l = bs->all.next; l != &bs->all; l = l->next)
		if (streq(budgets_of(l)->cgpath, cgpath))
			return budgets_of(l);
	return NULL;
}

static int make_scope(struct budgets *bs, struct notify *n, struct budget *b)
{
	int err = notify_scope_new(&b->scope, n, b->cgpath);
	struct budget *old;

	if (err != -EEXIST)
		return err;
	old = find_path(bs, b->cgpath);
	if (old)
		budget_free(bs, old);
	return notify_scope_new(&b->scope, n, b->cgpath);
}

int budget_new(struct budget **ret, struct budgets *bs, struct notify *n, uint64_t cgid,
	       const char *cgpath)
{
	struct budget *b = calloc(1, sizeof(*b));
	int err;

	if (!b)
		return -ENOMEM;
	b->cgpath = strdup(cgpath);
	err = b->cgpath ? make_scope(bs, n, b) : -ENOMEM;
	if (err) {
		free(b->cgpath);
		free(b);
		return err;
	}
	b->cgid = cgid;
	b->made_ms = clock_ms();
	b->pass = bs->pass;
	b->is_awake = true;
	list_add_behind(&bs->all, &b->in_all);
	list_add_behind(bucket(bs, cgid), &b->in_ids);
	bs->count++;
	*ret = b;
	return 0;
}

void budget_free(struct budgets *bs, struct budget *b)
{
	list_take_out(&b->in_all);
	list_take_out(&b->in_ids);
	bs->count--;
	notify_scope_free(b->scope);
	free(b->cgpath);
	free(b);
}
