/* SPDX-License-Identifier: MIT */
/*
 * The scopes of a notify as a tree of paths, with "/" always there: which one is
 * nearest to a cgroup, and what those on the way up say together. Knows no
 * sockets and sends nothing.
 */
#ifndef PINCAP_SCOPE_H
#define PINCAP_SCOPE_H

#include "userspace/common/list.h"
#include "userspace/control/notify.h"
#include "userspace/control/peer.h"

#define SCOPE_BUCKETS 1024

struct notify_scope {
	struct notify *owner;
	struct notify_scope *parent; /* NULL: "/" */
	struct list children;
	struct list in_parent;
	struct list in_paths; /* of those whose paths hash alike */
	struct list peers;    /* those with no nearer scope, gone ones included */
	char *cgpath;
	bool stopped;
	bool is_protected;
	enum notify_reach reach;
	uint64_t over_bytes;
	unsigned int stops;
	unsigned int resumes;
	struct peer_totals faded; /* of records that were dropped */
};

struct scope_tree {
	struct notify_scope root; /* cgpath NULL until somebody made "/" */
	struct list paths[SCOPE_BUCKETS];
};

void scope_tree_init(struct scope_tree *t, struct notify *owner);

/* The nearest at or above. */
struct notify_scope *scope_find(struct scope_tree *t, const char *cgpath);

/* NULL where there is none at just this path. */
struct notify_scope *scope_get(struct scope_tree *t, const char *cgpath);

/* Puts it into the tree; what lay nearest to its parent and is below it moves. */
void scope_insert(struct scope_tree *t, struct notify_scope *s);

/* Takes it out: its scopes, peers and totals go to its parent, which is returned. */
struct notify_scope *scope_remove(struct notify_scope *s);

/* Puts a peer where it belongs. */
void scope_place(struct scope_tree *t, struct peer *p);

/* Is one stopped whose nearest scope is `s`? *ret_bytes: how far over. */
bool scope_is_stopped(const struct notify_scope *s, uint64_t *ret_bytes);

/* The next of `top` and all below it; NULL: that was all. */
struct notify_scope *scope_next(const struct notify_scope *top, struct notify_scope *s);

#endif
