/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "userspace/cli/adopt.h"
#include "userspace/cli/cli.h"
#include "userspace/common/log.h"

int cli_adopt(struct kernel **ret)
{
	int err = kernel_adopt(ret);

	if (!err)
		return 0;
	if (err == -ENOENT)
		pr_err("not loaded: start a workload with 'pincap run', or 'pincap load' first");
	else if (err == -ESTALE)
		pr_err("another version of pincap is loaded: 'pincap unload' it, then 'pincap "
		       "load'");
	else if (err == -EPERM || err == -EACCES)
		pr_err("needs root");
	else
		log_ret(err, "open what is pinned under /sys/fs/bpf/pincap");
	return 1;
}
