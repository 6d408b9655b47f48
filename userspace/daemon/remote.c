/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "userspace/common/cgroup.h"
#include "userspace/common/log.h"
#include "userspace/daemon/reload.h"
#include "userspace/daemon/remote.h"
#include "userspace/daemon/socket.h"

/* What it calls for shows at the next scan, which is made now. */
static int set(void *ctx, const char *cgpath, const struct pincap_set_budget *b)
{
	struct daemon *d = ctx;
	uint64_t chain[PINCAP_MAX_DEPTH];
	unsigned int depth;
	int err = cgroup_chain(cgpath, chain, PINCAP_MAX_DEPTH, &depth);

	if (!err)
		err = kernel_set_budget(d->kernel, chain, depth, b);
	if (!err)
		d->scan_ms = 0;
	return err;
}

static bool has_rule(void *ctx, const char *cgpath)
{
	const struct daemon *d = ctx;

	return rules_find(&d->config->rules, cgpath) != NULL;
}

static int reload_now(void *ctx, char *text)
{
	struct daemon *d = ctx;
	int err = reload(d);

	snprintf(text, CONTROL_TEXT, "%s", d->last_error);
	return err;
}

static void status(void *ctx, struct control_status *ret, char *text)
{
	struct daemon *d = ctx;
	struct daemon_status st;

	daemon_get_status(d, &st);
	*ret = (struct control_status){
		.budgets = st.budgets,
		.stopped = st.stopped,
		.over = st.over,
		.deaf = st.deaf,
		.libraries = st.libraries,
		.reserve_bytes = st.reserve_bytes,
		.above_bytes = st.above_bytes,
		.transitions = st.transitions,
		.reloads = st.reloads,
		.host_short = st.host_short,
		.dry_run = st.dry_run,
	};
	snprintf(ret->notify_socket, sizeof(ret->notify_socket), "%s", d->config->notify_socket);
	snprintf(text, CONTROL_TEXT, "%s", st.last_error);
}

static const struct control_ops ops = {
	.set = set,
	.has_rule = has_rule,
	.reload = reload_now,
	.status = status,
};

void remote_configure(struct daemon *d)
{
	control_set_group(d->control, d->config->group ? d->config->gid : CONTROL_NO_GROUP);
}

int remote_listen(struct daemon *d)
{
	const char *path = d->config->control_socket;
	int err = control_new(&d->control, d->event, path, d->kernel, &ops, d);

	if (err == -EADDRINUSE && socket_clear(path))
		err = control_new(&d->control, d->event, path, d->kernel, &ops, d);
	if (err == -EADDRINUSE)
		return log_ret(err,
			       "control_socket '%s': somebody else's is there; remove it, or "
			       "write another path",
			       path);
	if (err)
		return log_ret(err, "listen at control_socket '%s'", path);
	remote_configure(d);
	return 0;
}
