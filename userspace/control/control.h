/* SPDX-License-Identifier: MIT */
/*
 * The daemon's end of the control socket: who asks, by the kernel's word; whether he may
 * (control_auth.h); and the reply (control_wire.h). Reads counters itself; what
 * changes something, its host does.
 *
 * Nobody is waited for: a connection that has not asked within two seconds is closed, and
 * a reply fits into an empty socket.
 */
#ifndef PINCAP_CONTROL_H
#define PINCAP_CONTROL_H

#include <systemd/sd-event.h>

#include "userspace/control/control_wire.h"
#include "userspace/control/kernel.h"

#define CONTROL_MAX_CALLERS  64 /* connected at a time ... */
#define CONTROL_MAX_PER_USER 8	/* ... of these, of one user who is not root */

#define CONTROL_NO_GROUP ((gid_t)-1)

struct control;

/* All return 0 or a negative errno. `text` (CONTROL_TEXT bytes) takes a reason. */
struct control_ops {
	int (*set)(void *ctx, const char *cgpath, const struct pincap_set_budget *b);
	bool (*has_rule)(void *ctx, const char *cgpath);
	int (*reload)(void *ctx, char *text);
	void (*status)(void *ctx, struct control_status *ret, char *text);
};

/* Listens on a socket at `path`, made with mode 0666. -EADDRINUSE: the path is there;
 * -ENAMETOOLONG. `ops` and `ctx` are kept. */
int control_new(struct control **ret, sd_event *event, const char *path, struct kernel *k,
		const struct control_ops *ops, void *ctx);

/* Whose members may read everything; CONTROL_NO_GROUP: root alone. */
void control_set_group(struct control *c, gid_t gid);

/* Closes everything and removes the socket. Accepts NULL, returns it. */
struct control *control_free(struct control *c);

#endif
