/* SPDX-License-Identifier: MIT */
/*
 * The public functions of pincap.h. In the preload library too, under the same
 * symbol versions: a program that asks itself and is started under it then has
 * one connection, and is not asked for again what it has asked for.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "userspace/lib/advice.h"
#include "userspace/lib/client.h"
#include "userspace/lib/pincap.h"
#include "userspace/lib/release.h"

#ifndef PINCAP_VERSION
#define PINCAP_VERSION "0.1.0"
#endif

#define INFO_SIZE_1 104 /* of struct pincap_info as first published */

_Static_assert(offsetof(struct pincap_info, epoch) == INFO_SIZE_1, "append-only");
_Static_assert(sizeof(struct pincap_info) == INFO_SIZE_1 + 16, "append-only");

static __thread bool asking __attribute__((tls_model("initial-exec")));

bool api_is_asking(void)
{
	return asking;
}

int pincap_charge(uint64_t bytes, int kind)
{
	int rc = client_charge(bytes, kind);

	if (rc == CLIENT_STOPPED) {
		advice_withheld(bytes);
		return -EDQUOT;
	}
	if (rc == 0)
		asking = true;
	return rc;
}

int64_t pincap_settle(void)
{
	asking = false;
	return client_settle();
}

int pincap_uncharge(uint64_t bytes)
{
	return client_uncharge(bytes);
}

int pincap_status(struct pincap_info *ret)
{
	struct pincap_status status;
	struct pincap_info info = {};
	int rc;

	if (!ret || ret->size < INFO_SIZE_1)
		return -EINVAL;
	rc = client_status(&status);
	if (rc)
		return rc;

	info.size = ret->size < sizeof(info) ? ret->size : (uint32_t)sizeof(info);
	info.stopped = advice_poll();
	info.cgroup_id = status.cgroup_id;
	info.bound_id = status.bound_id;
	info.bound_level = status.level;
	info.limit = status.limit;
	info.current_bytes = status.current_bytes;
	info.room = status.room;
	info.locked = status.locked;
	info.pinned = status.pinned;
	info.gpu = status.gpu;
	info.held = status.held;
	advice_totals(&info.refused_count, &info.refused_bytes);
	advice_release(&info.epoch, &info.release_bytes);
	memcpy(ret, &info, info.size);
	return 0;
}

int pincap_fd(void)
{
	return advice_fd();
}

int pincap_dispatch(void)
{
	return advice_dispatch();
}

int pincap_on_release(pincap_release_fn fn, void *ctx)
{
	return release_set_function(fn, ctx);
}

const char *pincap_version(void)
{
	return PINCAP_VERSION;
}
