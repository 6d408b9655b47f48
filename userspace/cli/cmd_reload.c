/* SPDX-License-Identifier: MIT */
#include <argp.h>

#include "userspace/cli/cli.h"
#include "userspace/cli/remote.h"
#include "userspace/common/log.h"

int cmd_reload(int argc, char **argv)
{
	static const struct argp argp = {
		.doc = "Have pincapd read its configuration again. With a fault in it, the one "
		       "line "
		       "that says which, exit code 1, and the daemon goes on with what it had.",
	};
	const struct control_request req = { .kind = CONTROL_RELOAD };
	struct control_reply reply;
	int err;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	err = control_ask(&req, &reply);
	if (control_is_absent(err)) {
		pr_err("reload: pincapd does not run here");
		return CLI_FAILURE;
	}
	if (err)
		return remote_explain(err, &reply, "reload"), CLI_FAILURE;
	pr_info("reloaded");
	return CLI_OK;
}
