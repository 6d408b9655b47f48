/* SPDX-License-Identifier: MIT */
#include <argp.h>
#include <errno.h>
#include <grp.h>

#include "userspace/cli/cli.h"
#include "userspace/common/log.h"
#include "userspace/control/kernel.h"

static const struct argp_option load_options[] = {
	{ "kfd", 'k', "PATH", 0,
	  "Read the GPU driver's ioctls on this file too, besides /dev/kfd (default: $PINCAP_KFD)",
	  0 },
	{ "drm", 'd', "PATH", 0,
	  "The same for a render node, besides those of amdgpu (default: $PINCAP_DRM)", 0 },
	{ "group", 'g', "GROUP", 0,
	  "Let this group read /sys/fs/bpf/pincap/iters/{processes,cgroups} (default: root alone)",
	  0 },
	{ "trigger", 't', "KIND", 0,
	  "What counting wakes up on: fexit (the system calls that lock memory), mmap_lock (every "
	  "change of a mapping), or auto: the first that this kernel takes (default: "
	  "$PINCAP_TRIGGER)",
	  0 },
	{ "gpu-trigger", 'T', "KIND", 0,
	  "The same for the GPU driver: driver (amdgpu's own functions), syscall (ioctl and what "
	  "unmaps), tracepoint (every system call), or auto (default: $PINCAP_GPU_TRIGGER)",
	  0 },
	{ 0 },
};

struct load_args {
	struct kernel_devices devices;
	const char *group;
};

static int share(const char *name)
{
	const struct group *g = getgrnam(name);

	if (g)
		return kernel_share(g->gr_gid);
	pr_err("--group '%s': there is no such group", name);
	return -ENOENT;
}

static error_t parse_load(int key, char *arg, struct argp_state *state)
{
	struct load_args *a = state->input;

	switch (key) {
	case 'k':
		a->devices.kfd = arg;
		return 0;
	case 'd':
		a->devices.drm = arg;
		return 0;
	case 'g':
		a->group = arg;
		return 0;
	case 't':
		return setenv(KERNEL_TRIGGER_ENV, arg, 1) ? errno : 0;
	case 'T':
		return setenv(KERNEL_GPU_TRIGGER_ENV, arg, 1) ? errno : 0;
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
	struct load_args a = { .devices = { getenv("PINCAP_KFD"), getenv("PINCAP_DRM") } };

	argp_parse(&argp, argc, argv, 0, NULL, &a);
	if (kernel_open(&k, true, &a.devices))
		return CLI_FAILURE;
	return a.group && share(a.group) ? CLI_FAILURE : CLI_OK;
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
		pr_err("in use: end what uses it first, pincapd or a 'pincap run'");
	else
		log_ret(err, "unload");
	return 1;
}
