/* SPDX-License-Identifier: MIT */
/*
 * A doubly linked ring: the head and the links inside the members are one type.
 * Owns nothing.
 */
#ifndef PINCAP_LIST_H
#define PINCAP_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *next;
	struct list *prev;
};

#define container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

static inline void list_init(struct list *head)
{
	head->next = head->prev = head;
}

static inline bool list_is_empty(const struct list *head)
{
	return head->next == head;
}

/* `pos` may be the head: behind it is first, before it is last. */
static inline void list_add_behind(struct list *pos, struct list *l)
{
	l->prev = pos;
	l->next = pos->next;
	pos->next->prev = l;
	pos->next = l;
}

static inline void list_add_before(struct list *pos, struct list *l)
{
	list_add_behind(pos->prev, l);
}

/* Leaves a ring of its own, so that taking it out again does nothing. */
static inline void list_take_out(struct list *l)
{
	l->prev->next = l->next;
	l->next->prev = l->prev;
	list_init(l);
}

#endif
