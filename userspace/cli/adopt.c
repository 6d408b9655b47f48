/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <linux/capability.h>
#include <sys/syscall.h>

#include "userspace/cli/adopt.h"
#include "userspace/cli/cli.h"
#include "userspace/common/log.h"

bool cli_is_privileged(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	if (syscall(SYS_capget, &header, data))
		return true; /* then let the kernel say it */
	return data[CAP_TO_INDEX(CAP_BPF)].effective & CAP_TO_MASK(CAP_BPF) ||
	       data[CAP_TO_INDEX(CAP_SYS_ADMIN)].effective & CAP_TO_MASK(CAP_SYS_ADMIN);
}

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
