/* SPDX-License-Identifier: MIT */
#include <argp.h>
#include <errno.h>

#include "userspace/cli/cli.h"
#include "userspace/common/log.h"
#include "userspace/control/kernel.h"

static const struct argp_option load_options[] = {
	{ "kfd", 'k', "PATH", 0,
	  "Read the GPU driver's ioctls on this file too, besides /dev/kfd (default: $PINCAP_KFD)",
	  0 },
	{ 0 },
};

static error_t parse_load(int key, char *arg, struct argp_state *state)
{
	const char **kfd = state->input;

	switch (key) {
	case 'k':
		*kfd = arg;
		return 0;
	case ARGP_KEY_ARG:
		argp_failure(state, CLI_USAGE, 0, "too many arguments: '%s'", arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_load(int argc, char **argv)
{
	static const struct argp argp = {
		.options = load_options,
		.parser = parse_load,
		.doc = "Load the kernel side and leave it loaded: counting and admission go on "
		       "until 'pincap unload'.",
	};
	_cleanup_(kernel_closep) struct kernel *k = NULL;
	const char *kfd = getenv("PINCAP_KFD");

	argp_parse(&argp, argc, argv, 0, NULL, &kfd);
	return kernel_open(&k, true, kfd) ? 1 : 0;
}

int cmd_unload(int argc, char **argv)
{
	static const struct argp argp = {
		.doc = "Remove the kernel side with its counters and budgets. Workloads go on, "
		       "unmanaged.",
	};
	int err;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	err = kernel_unload();
	if (!err)
		return 0;
	if (err == -ENOENT)
		pr_err("nothing is loaded");
	else if (err == -EBUSY)
		pr_err("in use: a 'pincap run' is under way; end it first");
	else
		log_ret(err, "unload");
	return 1;
}
