/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "userspace/cli/remote.h"
#include "userspace/common/log.h"

int remote_explain(int err, const struct control_reply *reply, const char *what)
{
	if (control_is_absent(err))
		pr_err("%s: needs root, or pincapd to ask, which does not run here", what);
	else if (err == -EBUSY || err == -ETIMEDOUT)
		pr_err("%s: pincapd does not answer; try again", what);
	else if (err == -EPROTO)
		pr_err("%s: pincapd is of another version; restart it", what);
	else if (reply && reply->text[0])
		pr_err("%s: %s", what, reply->text);
	else
		log_ret(err, "%s", what);
	return err;
}

int remote_status(struct control_status *ret)
{
	const struct control_request req = { .kind = CONTROL_STATUS };
	struct control_reply reply;
	int err = control_ask(&req, &reply);

	*ret = reply.status;
	return err;
}

int remote_set(uint64_t cgid, const struct pincap_set_budget *b, uint64_t *ret_bound)
{
	const struct control_request req = {
		.kind = CONTROL_SET,
		.cgroup_id = cgid,
		.budget = *b,
	};
	struct control_reply reply;
	int err = control_ask(&req, &reply);

	*ret_bound = reply.bound;
	return err && err != -ERANGE ? remote_explain(err, &reply, "set a budget") : err;
}
