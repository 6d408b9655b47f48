/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include "userspace/common/cgproc.h"
#include "userspace/common/util.h"
#include "userspace/control/control_auth.h"

#define SETTABLE                                                                  \
	(PINCAP_SET_LIMIT | PINCAP_SET_HIGH | PINCAP_SET_MIN | PINCAP_SET_ALLOC | \
	 PINCAP_SET_RELEASE)
#define OF_USERS (PINCAP_SET_LIMIT | PINCAP_SET_HIGH)

static bool is_above(uint64_t bytes, uint64_t bound)
{
	return bytes != PINCAP_UNLIMITED && bytes > bound;
}

int control_may_set(const struct control_facts *f, const struct pincap_set_budget *b,
		    const char **ret_why)
{
	*ret_why = "";
	if (!b->mask || b->mask & ~(uint32_t)SETTABLE) {
		*ret_why = "there is nothing to set, or something that this version does not know";
		return -EINVAL;
	}
	if (!f->uid)
		return 0;
	*ret_why = "only limit and high are a user's to set";
	if (b->mask & ~(uint32_t)OF_USERS)
		return -EPERM;
	*ret_why = "it is not below a cgroup whose directory is yours";
	if (!f->is_owned_above)
		return -EPERM;
	*ret_why = "its budget is set by a rule of the configuration";
	if (f->has_rule)
		return -EPERM;
	*ret_why = "it would be above the limit of a cgroup further up";
	if ((b->mask & PINCAP_SET_LIMIT && is_above(b->limit, f->bound)) ||
	    (b->mask & PINCAP_SET_HIGH && is_above(b->high, f->bound)))
		return -ERANGE;
	return 0;
}

bool control_may_read(const struct control_reader *r, const char *cgpath, bool is_owned)
{
	return !r->uid || r->is_of_group || is_owned || streq(cgpath, "/") ||
	       cgproc_below(r->cgpath, cgpath);
}
