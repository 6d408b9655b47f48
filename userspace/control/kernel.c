/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "userspace/common/log.h"
#include "userspace/control/kernel_trigger.h"

#define LOCK_TRIES   100
#define LOCK_WAIT_NS 50000000L /* 5 s in all */

static int print_libbpf(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	/* What libbpf calls a warning is our caller's to judge and to word. */
	if (level == LIBBPF_DEBUG || !log_enabled(LOG_LEVEL_DEBUG))
		return 0;
	return vfprintf(stderr, fmt, ap);
}

static int open_lock(const char *path)
{
	int fd;

	if (mkdir(RUN_DIR, 0755) && errno != EEXIST)
		return -errno;
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd < 0 ? -errno : fd;
}

/* Somebody may be between his look and his lock: wait a little, not for ever. */
static int lock_exclusive(int fd)
{
	const struct timespec wait = { .tv_nsec = LOCK_WAIT_NS };

	for (int i = 0; i < LOCK_TRIES; i++) {
		if (!flock(fd, LOCK_EX | LOCK_NB))
			return 0;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return -errno;
		nanosleep(&wait, NULL);
	}
	return -EBUSY;
}

static int lock_shared(int fd)
{
	while (flock(fd, LOCK_SH))
		if (errno != EINTR)
			return -errno;
	return 0;
}

int kernel_get_pinned(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), PIN_DIR "/%s", name);
	return bpf_obj_get(path);
}

static bool value_size_is(int fd, size_t size)
{
	struct bpf_map_info info = {};
	uint32_t len = sizeof(info);

	return fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &len) && info.value_size == size;
}

/* -ENOENT: nothing is pinned. -ESTALE: something of another layout is. */
static int attach_to_pins(struct kernel *k)
{
	struct pincap_config cfg;

	k->config_fd = kernel_get_pinned("maps/config");
	if (k->config_fd < 0)
		return k->config_fd;
	k->processes_fd = kernel_get_pinned("maps/processes");
	k->cgroups_fd = kernel_get_pinned("maps/cgroups");
	k->threads_fd = kernel_get_pinned("maps/threads");
	k->buffers_fd = kernel_get_pinned("maps/buffers");
	k->ranges_fd = kernel_get_pinned("maps/ranges");
	k->stats_fd = kernel_get_pinned("maps/stats");
	k->sweep_fd = kernel_get_pinned("links/sweep");
	k->set_budget_fd = kernel_get_pinned("progs/set_budget");
	if (k->sweep_fd < 0 || k->set_budget_fd < 0 ||
	    !value_size_is(k->config_fd, sizeof(struct pincap_config)) ||
	    !value_size_is(k->processes_fd, sizeof(struct pincap_process)) ||
	    !value_size_is(k->cgroups_fd, sizeof(struct pincap_cgroup)) ||
	    !value_size_is(k->threads_fd, sizeof(struct pincap_thread)) ||
	    !value_size_is(k->buffers_fd, sizeof(struct pincap_buffer)) ||
	    !value_size_is(k->ranges_fd, sizeof(struct pincap_range)) ||
	    !value_size_is(k->stats_fd, sizeof(struct pincap_stats)))
		return -ESTALE;
	if (kernel_get_config(k, &cfg) || cfg.abi != PINCAP_ABI)
		return -ESTALE;
	return 0;
}

static void drop_fds(struct kernel *k)
{
	int *const fds[] = { &k->processes_fd, &k->cgroups_fd, &k->threads_fd,
			     &k->buffers_fd,   &k->ranges_fd,  &k->stats_fd,
			     &k->config_fd,    &k->sweep_fd,   &k->set_budget_fd };

	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		closep(fds[i]);
		*fds[i] = -1;
	}
}

static int kernel_new(struct kernel **ret)
{
	_cleanup_free_ struct kernel *k = malloc(sizeof(*k));

	if (!k)
		return -ENOMEM;
	libbpf_set_print(print_libbpf);
	memset(k, 0xff, sizeof(*k)); /* every descriptor -1 */
	k->lock_fd = open_lock(LOCK_FILE);
	if (k->lock_fd < 0)
		return k->lock_fd;
	*ret = TAKE_PTR(k);
	return 0;
}

struct kernel *kernel_close(struct kernel *k)
{
	if (!k)
		return NULL;
	drop_fds(k);
	closep(&k->lock_fd);
	free(k);
	return NULL;
}

void kernel_closep(struct kernel **k)
{
	*k = kernel_close(*k);
}

/* Of a layout that is to come. */
static bool is_newer(struct kernel *k)
{
	char value[1024] = { 0 }; /* whatever its size is then */
	struct bpf_map_info info = {};
	uint32_t len = sizeof(info), zero = 0;

	return k->config_fd >= 0 && !bpf_obj_get_info_by_fd(k->config_fd, &info, &len) &&
	       info.value_size <= sizeof(value) &&
	       !bpf_map_lookup_elem(k->config_fd, &zero, value) &&
	       ((struct pincap_config *)value)->abi > PINCAP_ABI;
}

/* Load under the exclusive lock, unless somebody was faster. */
static int load_once(struct kernel *k, bool persistent)
{
	int err = lock_exclusive(k->lock_fd);

	if (err == -EBUSY)
		return log_ret(err, "another pincap of a different version is in use");
	if (err)
		return log_ret(err, "lock '" LOCK_FILE "'");
	kernel_finish(); /* of an upgrade that was killed */
	err = attach_to_pins(k);
	if (err && is_newer(k)) {
		pr_err("a newer pincap is loaded: use that one, or have it unloaded");
		err = -ESTALE;
	} else if (err) {
		err = kernel_upgrade(persistent);
	}
	drop_fds(k);
	return err;
}

static int adopt_or_load(struct kernel *k, bool persistent)
{
	/* The step from exclusive to shared is not atomic: look again, thrice. */
	for (int i = 0; i < 3; i++) {
		int err = lock_shared(k->lock_fd);

		if (err)
			return log_ret(err, "lock '" LOCK_FILE "'");
		if (!attach_to_pins(k))
			return 0;
		drop_fds(k);
		err = load_once(k, persistent);
		if (err)
			return err;
	}
	return log_ret(-EBUSY, "the kernel side is being unloaded again and again");
}

int kernel_update_config(struct kernel *k, kernel_config_fn fn, void *ctx)
{
	_cleanup_close_ int lock = open_lock(CONFIG_LOCK);
	struct pincap_config cfg;
	uint32_t zero = 0;
	int err;

	if (lock < 0)
		return lock;
	while (flock(lock, LOCK_EX))
		if (errno != EINTR)
			return -errno;
	err = kernel_get_config(k, &cfg);
	if (err)
		return err;
	fn(&cfg, ctx);
	err = bpf_map_update_elem(k->config_fd, &zero, &cfg, BPF_EXIST);
	return err ? err : TAKE_FD(lock);
}

static void next_generation(struct pincap_config *cfg, void *ctx)
{
	(void)ctx;
	cfg->generation++;
}

int kernel_sweep(struct kernel *k)
{
	_cleanup_close_ int lock = kernel_update_config(k, next_generation, NULL);
	_cleanup_close_ int iter = -1;
	uint32_t tids[1024];
	ssize_t n;
	int err = 0;

	if (lock < 0)
		return lock;
	iter = bpf_iter_create(k->sweep_fd);
	if (iter < 0)
		return iter;
	do {
		n = read(iter, tids, sizeof(tids));
		for (ssize_t i = 0; !err && i < n / (ssize_t)sizeof(*tids); i++)
			err = kernel_find_holes(tids[i]);
	} while (!err && (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN))));
	return n < 0 ? -errno : err;
}

static void set_persistent(struct pincap_config *cfg, void *ctx)
{
	(void)ctx;
	cfg->flags |= PINCAP_CONFIG_PERSISTENT;
}

int kernel_open(struct kernel **ret, bool persistent, const struct kernel_devices *extra)
{
	_cleanup_(kernel_closep) struct kernel *k = NULL;
	int err = kernel_new(&k);

	if (err)
		return log_ret(err, "open '" LOCK_FILE "' (needs root)");
	err = adopt_or_load(k, persistent);
	if (!err)
		err = trigger_check();
	if (err)
		return err;
	if (persistent) {
		_cleanup_close_ int lock = kernel_update_config(k, set_persistent, NULL);

		if (lock < 0)
			return log_ret(lock, "mark the kernel side to stay");
	}
	err = kernel_watch_gpu(k, extra);
	if (err)
		return err;
	err = kernel_sweep(k);
	if (err)
		return log_ret(err, "sweep");
	*ret = TAKE_PTR(k);
	return 0;
}

int kernel_adopt(struct kernel **ret)
{
	_cleanup_(kernel_closep) struct kernel *k = NULL;
	int err = kernel_new(&k);

	if (!err)
		err = lock_shared(k->lock_fd);
	if (!err)
		err = attach_to_pins(k);
	if (!err)
		*ret = TAKE_PTR(k);
	return err;
}

void kernel_release(struct kernel *k)
{
	struct pincap_config cfg;

	if (!k)
		return;
	if (!kernel_get_config(k, &cfg) && !(cfg.flags & PINCAP_CONFIG_PERSISTENT) &&
	    !flock(k->lock_fd, LOCK_EX | LOCK_NB)) {
		drop_fds(k);
		kernel_remove();
	}
	kernel_close(k);
}

int kernel_unload(void)
{
	_cleanup_close_ int lock = open_lock(LOCK_FILE);
	int err;

	if (lock < 0)
		return lock;
	err = lock_exclusive(lock);
	if (err)
		return err;
	kernel_finish();
	return kernel_remove();
}

int kernel_get_config(struct kernel *k, struct pincap_config *ret)
{
	uint32_t zero = 0;

	return bpf_map_lookup_elem(k->config_fd, &zero, ret);
}

int kernel_get_stats(struct kernel *k, struct pincap_stats *ret)
{
	uint32_t zero = 0;

	return bpf_map_lookup_elem(k->stats_fd, &zero, ret);
}

bool kernel_has_link(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), PIN_DIR "/links/%s", name);
	return access(path, F_OK) == 0;
}
