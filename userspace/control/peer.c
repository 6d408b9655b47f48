/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>

#include "userspace/control/peer.h"

static uint64_t plus(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

int peer_id_read(pid_t pid, struct peer_id *ret)
{
	_cleanup_fclose_ FILE *f = NULL;
	struct peer_id id = { .pid = pid };
	char name[64], text[1024];
	const char *p;
	size_t len;

	snprintf(name, sizeof(name), "/proc/%d/stat", (int)pid);
	f = fopen(name, "re");
	if (!f)
		return errno == ENOENT ? -ESRCH : -errno;
	len = fread(text, 1, sizeof(text) - 1, f);
	text[len] = '\0';
	/* The name, field 2, may contain anything; field 3 follows its last bracket. */
	p = strrchr(text, ')');
	if (!p)
		return -ESRCH;
	p += strspn(p, ") ");
	for (unsigned int field = 3; *p && field <= 28; field++) {
		if (field == 22)
			id.start_ticks = strtoull(p, NULL, 10);
		if (field == 28)
			id.start_stack = strtoull(p, NULL, 10);
		p += strcspn(p, " ");
		p += strspn(p, " ");
	}
	*ret = id;
	return 0;
}

bool peer_id_equal(const struct peer_id *a, const struct peer_id *b)
{
	return a->pid == b->pid && a->start_ticks == b->start_ticks &&
	       a->start_stack == b->start_stack;
}

void peer_report(struct peer *p, const struct wire_msg *msg)
{
	if (msg->kind == WIRE_ACK && msg->epoch <= p->sent_epoch)
		p->acked_epoch = MAX(p->acked_epoch, msg->epoch);
	p->withheld_count = MAX(p->withheld_count, msg->count);
	p->withheld_bytes = MAX(p->withheld_bytes, msg->bytes);
}

void peer_totals_add(struct peer_totals *t, const struct peer *p)
{
	t->told += p->stop_epoch != 0;
	t->obeyed += p->stop_epoch && p->acked_epoch >= p->stop_epoch;
	t->withheld_count = plus(t->withheld_count, p->withheld_count);
	t->withheld_bytes = plus(t->withheld_bytes, p->withheld_bytes);
}
