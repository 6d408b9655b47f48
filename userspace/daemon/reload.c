/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <systemd/sd-daemon.h>

#include "userspace/common/clock.h"
#include "userspace/common/log.h"
#include "userspace/daemon/discover.h"
#include "userspace/daemon/reload.h"
#include "userspace/daemon/remote.h"

int reload_read(const struct daemon_options *options, struct config **ret,
		struct config_error *error)
{
	int err;

	/* Its drop-ins may be all there is of it; without the file none is looked for. */
	if (options->is_default && access(options->path, F_OK) && errno == ENOENT) {
		err = config_new(ret);
		if (err)
			snprintf(error->text, sizeof(error->text), "%s", strerror(-err));
		return err;
	}
	return config_load(options->path, ret, error);
}

static void share(struct daemon *d, const struct config *old)
{
	if (d->config->group)
		kernel_share(d->config->gid);
	else if (old && old->group)
		kernel_share(0);
}

static void warn_of_socket(const char *key, const char *now, const char *then)
{
	if (!streq(now, then))
		pr_warn("%s: '%s' is in use from the next start on, '%s' until then", key, now,
			then);
}

int reload_settings(struct daemon *d, const struct config *old)
{
	const struct kernel_devices devices = { d->config->kfd, d->config->drm };
	int err = reserve_configure(d);

	if (err)
		return err;
	log_set_level(getenv("PINCAP_DEBUG") ? LOG_LEVEL_DEBUG : d->config->log);
	share(d, old);
	if (!old)
		return 0;
	kernel_watch_gpu(d->kernel, &devices);
	remote_configure(d);
	warn_of_socket("notify_socket", d->config->notify_socket, old->notify_socket);
	warn_of_socket("control_socket", d->config->control_socket, old->control_socket);
	return 0;
}

static void forget_rules(struct daemon *d)
{
	for (struct list *l = d->budgets.all.next; l != &d->budgets.all; l = l->next)
		budgets_of(l)->rule = NULL;
}

/* From here on the old rules are nobody's. */
static int exchange(struct daemon *d, struct config *config)
{
	struct config *old = d->config;
	int err;

	d->config = config;
	err = reload_settings(d, old);
	if (err) {
		d->config = old;
		return err;
	}
	forget_rules(d);
	err = discover_all(d, false);
	/* Where the sockets are does not change. */
	free(config->notify_socket);
	free(config->control_socket);
	config->notify_socket = TAKE_PTR(old->notify_socket);
	config->control_socket = TAKE_PTR(old->control_socket);
	config_free(old);
	return err;
}

static void tell_begin(void)
{
	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, clock_ns() / 1000);
}

int reload(struct daemon *d)
{
	struct config *config = NULL;
	struct config_error error;
	int err;

	tell_begin();
	err = reload_read(&d->options, &config, &error);
	if (err) {
		/* as --check says it, for who looks for the file in it */
		pr_err("reload: %s; the last good configuration stays", error.text);
		snprintf(d->last_error, sizeof(d->last_error), "%s", error.text);
	} else {
		err = exchange(d, config);
		if (d->config != config)
			config_free(config);
		snprintf(d->last_error, sizeof(d->last_error), "%s", err ? strerror(-err) : "");
	}
	if (!err) {
		d->reloads++;
		pr_info("reload: %zu rule%s, %zu budgets", d->config->rules.count,
			d->config->rules.count == 1 ? "" : "s", d->budgets.count - 1);
	}
	report_flush(d);
	sd_notify(0, "READY=1");
	return err;
}
