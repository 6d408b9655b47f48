/* SPDX-License-Identifier: MIT */
#include <argp.h>
#include <errno.h>

#include "userspace/cli/adopt.h"
#include "userspace/cli/cli.h"
#include "userspace/cli/remote.h"
#include "userspace/common/cgroup.h"
#include "userspace/common/hostmem.h"
#include "userspace/common/log.h"
#include "userspace/common/size.h"
#include "userspace/control/kernel.h"

struct set_args {
	const char *path;
	struct pincap_set_budget budget;
};

static void parse_setting(struct argp_state *state, struct pincap_set_budget *b, const char *arg)
{
	const struct setting {
		const char *key;
		__u64 *bytes;
		uint32_t mask;
	} settings[] = {
		{ "limit=", &b->limit, PINCAP_SET_LIMIT },
		{ "high=", &b->high, PINCAP_SET_HIGH },
		{ "min=", &b->min, PINCAP_SET_MIN },
	};
	const struct setting *s = NULL;
	uint64_t bytes;
	int err;

	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		if (!strncmp(arg, settings[i].key, strlen(settings[i].key)))
			s = &settings[i];
	if (!s) {
		argp_failure(state, CLI_USAGE, 0,
			     "'%s': expected limit=SIZE, high=SIZE or min=SIZE", arg);
		return;
	}
	if (b->mask & s->mask)
		argp_failure(state, CLI_USAGE, 0, "'%s': given twice", arg);
	err = size_parse(arg + strlen(s->key), hostmem_ram(), &bytes);
	if (err)
		argp_failure(state, CLI_USAGE, 0,
			     "'%s': %s; sizes are 8G, 512M, 1.5GiB, 40%%, infinity", arg,
			     err == -ERANGE ? "out of range" : "not a size");
	*s->bytes = bytes;
	b->mask |= s->mask;
}

static error_t parse_set(int key, char *arg, struct argp_state *state)
{
	struct set_args *a = state->input;

	switch (key) {
	case ARGP_KEY_ARG:
		if (state->arg_num == 0)
			a->path = arg;
		else
			parse_setting(state, &a->budget, arg);
		return 0;
	case ARGP_KEY_END:
		if (!a->budget.mask)
			argp_failure(state, CLI_USAGE, 0,
				     "nothing to set: expected CGROUP limit=SIZE");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

struct set_place {
	char *cgpath;
	uint64_t chain[PINCAP_MAX_DEPTH];
	unsigned int depth;
};

static int find(const struct set_args *a, struct set_place *ret)
{
	int err = cgroup_path_parse(a->path, &ret->cgpath);

	if (!err)
		err = cgroup_chain(ret->cgpath, ret->chain, PINCAP_MAX_DEPTH, &ret->depth);
	return err ? log_ret(err, "cgroup '%s'", a->path) : 0;
}

static int set_directly(const struct set_args *a, const struct set_place *p)
{
	_cleanup_(kernel_closep) struct kernel *k = NULL;
	int err;

	if (cli_adopt(&k))
		return CLI_FAILURE;
	err = kernel_set_budget(k, p->chain, p->depth, &a->budget);
	if (err)
		log_ret(err, "set the budget of '%s'", p->cgpath);
	return err ? CLI_FAILURE : CLI_OK;
}

static int set_by_daemon(const struct set_args *a, const struct set_place *p)
{
	char text[SIZE_FORMAT_BYTES];
	uint64_t bound;
	int err = remote_set(p->chain[0], &a->budget, &bound);

	if (err == -ERANGE)
		pr_err("set the budget of '%s': a cgroup further up has a limit of %s; no more "
		       "than that",
		       p->cgpath, size_format(bound, text));
	return err ? CLI_FAILURE : CLI_OK;
}

int cmd_set(int argc, char **argv)
{
	static const struct argp argp = {
		.parser = parse_set,
		.args_doc = "CGROUP [limit=SIZE] [high=SIZE] [min=SIZE]",
		.doc = "Change the budget of a cgroup while it runs. SIZE: 8G, 512M, 1.5GiB, 40% "
		       "(of the smaller of RAM and the tightest memory.max above), infinity. A "
		       "limit below what is pinned takes nothing away: nothing more is admitted "
		       "until usage falls. Above high the libraries are asked to give memory "
		       "back. Up to min the host's reserve refuses nothing. A user may set limit "
		       "and high below cgroups whose directory is his, through pincapd, never "
		       "above "
		       "a limit further up.",
	};
	struct set_args args = { 0 };
	struct set_place place = { 0 };
	int code = CLI_FAILURE;

	argp_parse(&argp, argc, argv, 0, NULL, &args);
	if (!find(&args, &place))
		code = cli_is_privileged() ? set_directly(&args, &place)
					   : set_by_daemon(&args, &place);
	free(place.cgpath);
	return code;
}
