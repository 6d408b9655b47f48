/* SPDX-License-Identifier: MIT */
#include "userspace/common/cgproc.h"
#include "userspace/control/scope.h"

static const char *path_of(const struct notify_scope *s)
{
	return s->parent ? s->cgpath : "/";
}

/* FNV-1a */
static struct list *bucket(struct scope_tree *t, const char *cgpath, size_t len)
{
	uint32_t hash = 2166136261U;

	for (size_t i = 0; i < len; i++)
		hash = (hash ^ (unsigned char)cgpath[i]) * 16777619U;
	return &t->paths[hash % SCOPE_BUCKETS];
}

static void init_links(struct notify_scope *s)
{
	list_init(&s->children);
	list_init(&s->in_parent);
	list_init(&s->in_paths);
	list_init(&s->peers);
}

void scope_tree_init(struct scope_tree *t, struct notify *owner)
{
	init_links(&t->root);
	t->root.owner = owner;
	for (size_t i = 0; i < SCOPE_BUCKETS; i++)
		list_init(&t->paths[i]);
}

static struct notify_scope *get(struct scope_tree *t, const char *cgpath, size_t len)
{
	const struct list *head = bucket(t, cgpath, len);

	for (struct list *l = head->next; l != head; l = l->next) {
		struct notify_scope *s = container_of(l, struct notify_scope, in_paths);

		if (!strncmp(s->cgpath, cgpath, len) && !s->cgpath[len])
			return s;
	}
	return NULL;
}

struct notify_scope *scope_get(struct scope_tree *t, const char *cgpath)
{
	return get(t, cgpath, strlen(cgpath));
}

struct notify_scope *scope_find(struct scope_tree *t, const char *cgpath)
{
	size_t len = strlen(cgpath);

	/* "/a/b", "/a", and then "/" */
	while (len > 1) {
		struct notify_scope *s = get(t, cgpath, len);

		if (s)
			return s;
		while (len && cgpath[--len] != '/')
			continue;
	}
	return &t->root;
}

static void move_peer(struct peer *p, struct notify_scope *to)
{
	list_take_out(&p->in_scope);
	list_add_before(&to->peers, &p->in_scope);
	p->scope = to;
}

static void move_scope(struct notify_scope *s, struct notify_scope *to)
{
	list_take_out(&s->in_parent);
	list_add_before(&to->children, &s->in_parent);
	s->parent = to;
}

/* All of `from` that is at or below `to`. */
static void move_below(struct notify_scope *from, struct notify_scope *to)
{
	struct list *l, *next;

	for (l = from->peers.next; l != &from->peers; l = next) {
		struct peer *p = container_of(l, struct peer, in_scope);

		next = l->next;
		if (cgproc_below(p->cgpath, path_of(to)))
			move_peer(p, to);
	}
	for (l = from->children.next; l != &from->children; l = next) {
		struct notify_scope *s = container_of(l, struct notify_scope, in_parent);

		next = l->next;
		if (s != to && cgproc_below(s->cgpath, path_of(to)))
			move_scope(s, to);
	}
}

void scope_insert(struct scope_tree *t, struct notify_scope *s)
{
	struct notify_scope *parent = scope_find(t, s->cgpath);

	init_links(s);
	list_add_behind(bucket(t, s->cgpath, strlen(s->cgpath)), &s->in_paths);
	move_scope(s, parent);
	move_below(parent, s);
}

struct notify_scope *scope_remove(struct notify_scope *s)
{
	struct notify_scope *parent = s->parent;

	while (!list_is_empty(&s->peers))
		move_peer(container_of(s->peers.next, struct peer, in_scope), parent);
	while (!list_is_empty(&s->children))
		move_scope(container_of(s->children.next, struct notify_scope, in_parent), parent);
	peer_totals_merge(&parent->faded, &s->faded);
	list_take_out(&s->in_parent);
	list_take_out(&s->in_paths);
	return parent;
}

void scope_place(struct scope_tree *t, struct peer *p)
{
	move_peer(p, scope_find(t, p->cgpath));
}

bool scope_is_stopped(const struct notify_scope *s, uint64_t *ret_bytes)
{
	bool spared = false;

	for (; s; s = s->parent) {
		spared = spared || s->is_protected;
		if (s->stopped && !(spared && s->reach == NOTIFY_UNPROTECTED)) {
			*ret_bytes = s->over_bytes;
			return true;
		}
	}
	*ret_bytes = 0;
	return false;
}

struct notify_scope *scope_next(const struct notify_scope *top, struct notify_scope *s)
{
	if (!list_is_empty(&s->children))
		return container_of(s->children.next, struct notify_scope, in_parent);
	for (; s != top; s = s->parent)
		if (s->in_parent.next != &s->parent->children)
			return container_of(s->in_parent.next, struct notify_scope, in_parent);
	return NULL;
}
