/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <systemd/sd-bus.h>

#include "userspace/cli/scope.h"
#include "userspace/common/util.h"

#define WAIT_USEC 5000000

struct job {
	const char *path;
	bool done, well;
};

static int on_removed(sd_bus_message *m, void *ctx, sd_bus_error *error)
{
	struct job *job = ctx;
	const char *path, *result;
	uint32_t id;

	(void)error;
	if (sd_bus_message_read(m, "uoss", &id, &path, NULL, &result) < 0 || !job->path ||
	    !streq(path, job->path))
		return 0;
	job->done = true;
	job->well = streq(result, "done");
	return 0;
}

static int start(sd_bus *bus, sd_bus_message **ret_reply)
{
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *m = NULL;
	char name[64];
	int err;

	snprintf(name, sizeof(name), "pincap-run-%d.scope", (int)getpid());
	err = sd_bus_message_new_method_call(bus, &m, "org.freedesktop.systemd1",
					     "/org/freedesktop/systemd1",
					     "org.freedesktop.systemd1.Manager",
					     "StartTransientUnit");
	if (err >= 0)
		err = sd_bus_message_append(m, "ssa(sv)a(sa(sv))", name, "fail", 4, "Description",
					    "s", "pincap run", "PIDs", "au", 1, (uint32_t)getpid(),
					    "Delegate", "b", 1, "CollectMode", "s",
					    "inactive-or-failed", 0);
	return err < 0 ? err : sd_bus_call(bus, m, WAIT_USEC, NULL, ret_reply);
}

/* The unit is there when its job is removed. */
static int wait_for(sd_bus *bus, const struct job *job)
{
	while (!job->done) {
		int n = sd_bus_process(bus, NULL);

		if (n == 0)
			n = sd_bus_wait(bus, WAIT_USEC);
		if (n <= 0)
			return n < 0 ? n : -ETIMEDOUT;
	}
	return job->well ? 0 : -EIO;
}

int scope_enter(void)
{
	_cleanup_(sd_bus_message_unrefp) sd_bus_message *reply = NULL;
	_cleanup_(sd_bus_flush_close_unrefp) sd_bus *bus = NULL;
	struct job job = { 0 };
	int err = sd_bus_open_user(&bus);

	if (err >= 0)
		err = sd_bus_match_signal(bus, NULL, "org.freedesktop.systemd1",
					  "/org/freedesktop/systemd1",
					  "org.freedesktop.systemd1.Manager", "JobRemoved",
					  on_removed, &job);
	if (err >= 0)
		err = start(bus, &reply);
	if (err >= 0)
		err = sd_bus_message_read(reply, "o", &job.path);
	return err < 0 ? err : wait_for(bus, &job);
}
