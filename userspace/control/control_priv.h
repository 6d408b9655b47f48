/* SPDX-License-Identifier: MIT */
/* What control.c and control_answer.c share. */
#ifndef PINCAP_CONTROL_PRIV_H
#define PINCAP_CONTROL_PRIV_H

#include "userspace/common/list.h"
#include "userspace/control/control.h"
#include "userspace/control/control_auth.h"

struct control {
	struct list callers;
	unsigned int count;
	sd_event *event;
	sd_event_source *listener;
	char *path;
	struct kernel *kernel;
	const struct control_ops *ops;
	void *ctx;
	gid_t gid;
	int fd;
};

/* Who asks. */
struct caller {
	struct list in_all;
	struct control *owner;
	sd_event_source *io, *timeout;
	uid_t uid;
	bool is_of_group;
	char *cgpath;
	int fd;
};

/* Fills in the reply. Returns the descriptor that goes with it, or -1. */
int control_answer(const struct caller *who, const struct control_request *req,
		   struct control_reply *reply);

#endif
