/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "userspace/common/util.h"
#include "userspace/daemon/caps.h"

#define BIT(cap) (1ULL << (cap))

/* The same as in configs/systemd/pincapd.service.in. */
#define KEPT                                                                            \
	(BIT(CAP_BPF) | BIT(CAP_PERFMON) |  /* maps, programs, the sweep */             \
	 BIT(CAP_NET_ADMIN) |		    /* admission, should it be attached anew */ \
	 BIT(CAP_DAC_READ_SEARCH) |	    /* cgroups by id, delegated ones */         \
	 BIT(CAP_DAC_OVERRIDE) |	    /* freeze and kill in delegated cgroups */  \
	 BIT(CAP_CHOWN) | BIT(CAP_FOWNER) | /* `group` in a reload */                   \
	 BIT(CAP_SYS_PTRACE) |		    /* mappings of SVM ranges */                \
	 BIT(CAP_KILL))			    /* signals of on_over */

static int drop_bounding(void)
{
	for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++) {
		if (KEPT & BIT(cap) || !prctl(PR_CAPBSET_READ, cap, 0, 0, 0))
			continue;
		/* without CAP_SETPCAP systemd has done it */
		if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) && errno != EPERM)
			return -errno;
	}
	return 0;
}

int caps_drop(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	int err = drop_bounding();

	if (err)
		return err;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_capget, &head, data))
		return -errno;
	for (size_t i = 0; i < ARRAY_SIZE(data); i++) {
		const uint32_t kept = (uint32_t)(KEPT >> (32 * i));

		data[i].effective &= kept;
		data[i].permitted &= kept;
		data[i].inheritable = 0;
	}
	return syscall(SYS_capset, &head, data) ? -errno : 0;
}
