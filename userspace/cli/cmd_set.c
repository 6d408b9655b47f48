/* SPDX-License-Identifier: MIT */
#include <argp.h>
#include <errno.h>

#include "userspace/cli/adopt.h"
#include "userspace/cli/cli.h"
#include "userspace/common/cgroup.h"
#include "userspace/common/hostmem.h"
#include "userspace/common/log.h"
#include "userspace/common/size.h"
#include "userspace/control/kernel.h"

struct set_args {
	const char *path;
	uint64_t limit, high;
	bool has_limit, has_high;
};

static void parse_setting(struct argp_state *state, struct set_args *a, const char *arg)
{
	const char *value = strchr(arg, '=');
	bool is_limit = !strncmp(arg, "limit=", 6), is_high = !strncmp(arg, "high=", 5);
	uint64_t bytes = 0;
	int err;

	if (!value || (!is_limit && !is_high))
		argp_failure(state, CLI_USAGE, 0, "'%s': expected limit=SIZE or high=SIZE", arg);
	err = value ? size_parse(value + 1, hostmem_ram(), &bytes) : -EINVAL;
	if (err)
		argp_failure(state, CLI_USAGE, 0,
			     "'%s': %s; sizes are 8G, 512M, 1.5GiB, 40%%, infinity", arg,
			     err == -ERANGE ? "out of range" : "not a size");
	if (is_limit) {
		a->limit = bytes;
		a->has_limit = true;
	} else {
		a->high = bytes;
		a->has_high = true;
	}
}

static error_t parse_set(int key, char *arg, struct argp_state *state)
{
	struct set_args *a = state->input;

	switch (key) {
	case ARGP_KEY_ARG:
		if (state->arg_num == 0)
			a->path = arg;
		else
			parse_setting(state, a, arg);
		return 0;
	case ARGP_KEY_END:
		if (!a->has_limit && !a->has_high)
			argp_failure(state, CLI_USAGE, 0,
				     "nothing to set: expected CGROUP limit=SIZE");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int set_budget(struct kernel *k, const struct set_args *a)
{
	_cleanup_free_ char *cgpath = NULL;
	uint64_t chain[PINCAP_MAX_DEPTH];
	struct pincap_cgroup cg;
	unsigned int depth;
	int err;

	err = cgroup_path_parse(a->path, &cgpath);
	if (!err)
		err = cgroup_chain(cgpath, chain, PINCAP_MAX_DEPTH, &depth);
	if (err)
		return log_ret(err, "cgroup '%s'", a->path);
	err = kernel_get_cgroup(k, chain[0], &cg);
	if (err) {
		cg.limit = PINCAP_UNLIMITED;
		cg.high = PINCAP_UNLIMITED;
	}
	err = kernel_set_budget(k, chain, depth, a->has_limit ? a->limit : cg.limit,
				a->has_high ? a->high : cg.high);
	return err ? log_ret(err, "set the budget of '%s'", cgpath) : 0;
}

int cmd_set(int argc, char **argv)
{
	static const struct argp argp = {
		.parser = parse_set,
		.args_doc = "CGROUP limit=SIZE [high=SIZE]",
		.doc = "Change the budget of a cgroup while it runs. SIZE: 8G, 512M, 1.5GiB, 40% "
		       "(of the smaller of RAM and the tightest memory.max above), infinity. A "
		       "limit below what is pinned takes nothing away: nothing more is admitted "
		       "until usage falls.",
	};
	_cleanup_(kernel_closep) struct kernel *k = NULL;
	struct set_args args = { 0 };
	int err;

	argp_parse(&argp, argc, argv, 0, NULL, &args);
	err = cli_adopt(&k);
	return err ? err : set_budget(k, &args) ? 1 : 0;
}
