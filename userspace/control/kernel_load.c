/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/magic.h>

#include "userspace/common/cgroup.h"
#include "userspace/common/log.h"
#include "userspace/control/kernel_carry.h"
#include "userspace/control/kernel_trigger.h"
#include "userspace/control/probe.h"
#include "pincap.skel.h" /* names types of intf.h */

#define SHUT_SECONDS 5 /* at the most, between two programs that answer requests */

/* Programs that print: pinned for people, under the rest of their name. */
#define SHOW_PREFIX "show_"

/* One entry per address space and per thread with a request under way. */
#define MIN_TASKS 4096U
#define MAX_TASKS 65536U

static int mount_bpffs(void)
{
	struct statfs fs;

	if (!statfs(BPFFS, &fs) && fs.f_type == BPF_FS_MAGIC)
		return 0;
	if (mount("bpf", BPFFS, "bpf", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0700"))
		return log_ret(-errno, "mount bpffs on " BPFFS);
	return 0;
}

static uint32_t task_entries(void)
{
	_cleanup_fclose_ FILE *f = fopen("/proc/sys/kernel/threads-max", "re");
	unsigned int n;

	if (!f || fscanf(f, "%u", &n) != 1)
		return MAX_TASKS;
	return MIN(MAX(n, MIN_TASKS), MAX_TASKS);
}

/* For tests, which cannot fill maps of the proper size: bounds on their entries, as in
 * "processes=64 cgroups=32". */
#define MAX_ENTRIES_ENV "PINCAP_MAX_ENTRIES"

static void bound_entries(struct pincap_bpf *skel)
{
	const char *bound = getenv(MAX_ENTRIES_ENV);
	char name[32];
	unsigned int most;
	int n;

	for (; bound && sscanf(bound, " %31[a-z]=%u%n", name, &most, &n) == 2; bound += n) {
		struct bpf_map *map = bpf_object__find_map_by_name(skel->obj, name);

		if (map && bpf_map__max_entries(map) > most)
			bpf_map__set_max_entries(map, most);
	}
	skel->rodata->processes_max = bpf_map__max_entries(skel->maps.processes);
}

static void say_why_not(int err)
{
	if (!probe_is_new_enough())
		pr_err("this kernel is too old: pincap needs Linux 6.1 or later (bpf_loop, "
		       "bpf_get_current_task_btf, atomic operations that fetch)");
	else if (err == -EPERM)
		pr_err("the kernel does not permit eBPF here: needs root, or CAP_BPF, "
		       "CAP_PERFMON and CAP_NET_ADMIN");
	else
		log_ret(err, "load the eBPF programs (see 'pincap doctor')");
}

static struct pincap_bpf *open_and_load(struct triggers *t)
{
	struct pincap_bpf *skel = pincap_bpf__open();
	int err;

	if (!skel) {
		log_ret(-errno, "open the eBPF object");
		return NULL;
	}
	skel->rodata->page_shift = __builtin_ctzl(sysconf(_SC_PAGESIZE));
	snprintf((char *)skel->rodata->bpf_metadata_version, 32, "%s", PINCAP_VERSION);
	bpf_map__set_max_entries(skel->maps.processes, task_entries());
	bpf_map__set_max_entries(skel->maps.threads, task_entries());
	bound_entries(skel);

	bpf_program__set_autoload(skel->progs.show_cgroups, !probe_iter("cgroup"));
	err = trigger_choose(skel->obj, t);
	if (!err) {
		err = pincap_bpf__load(skel);
		if (!err)
			return skel;
		say_why_not(err);
	}
	errno = -err;
	pincap_bpf__destroy(skel);
	return NULL;
}

static int init_config(struct pincap_bpf *skel, bool persistent, const struct carry *c)
{
	struct pincap_config cfg = { 0 };
	uint32_t zero = 0;

	if (c)
		carry_config(c, &cfg);
	cfg.abi = PINCAP_ABI;
	cfg.flags |= persistent ? PINCAP_CONFIG_PERSISTENT : 0;
	snprintf(cfg.version, sizeof(cfg.version), "%s", PINCAP_VERSION);
	return bpf_map_update_elem(bpf_map__fd(skel->maps.config), &zero, &cfg, BPF_ANY);
}

static bool is_to_show(const struct bpf_program *prog)
{
	return !strncmp(bpf_program__name(prog), SHOW_PREFIX, strlen(SHOW_PREFIX));
}

static bool is_gpu(const struct bpf_program *prog)
{
	return !strncmp(bpf_program__name(prog), "gpu_", 4);
}

/* Cgroups below the root, each before its children. */
static struct bpf_link *attach_cgroup_iter(struct bpf_program *prog, int root_fd)
{
	union bpf_iter_link_info info = {
		.cgroup = { .order = BPF_CGROUP_ITER_DESCENDANTS_PRE, .cgroup_fd = root_fd },
	};
	LIBBPF_OPTS(bpf_iter_attach_opts, opts, .link_info = &info, .link_info_len = sizeof(info));

	return bpf_program__attach_iter(prog, &opts);
}

/* Attach one program the way its type asks for. NULL with errno 0: it is not one
 * to attach. */
static struct bpf_link *attach(struct bpf_program *prog, int root_fd)
{
	errno = 0;
	if (!bpf_program__autoload(prog))
		return NULL;
	if (!strcmp(bpf_program__section_name(prog), "iter/cgroup"))
		return attach_cgroup_iter(prog, root_fd);
	switch (bpf_program__type(prog)) {
	case BPF_PROG_TYPE_CGROUP_SOCKOPT:
		return bpf_program__attach_cgroup(prog, root_fd);
	case BPF_PROG_TYPE_SYSCALL:
		return NULL;
	default:
		/* Every system call on the machine pays for these: kernel_attach_gpu. */
		return is_gpu(prog) ? NULL : bpf_program__attach(prog);
	}
}

static bool is_pinned(const char *dir, const char *kind, const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s/%s", dir, kind, name);
	return access(path, F_OK) == 0;
}

static int pin_link(struct bpf_program *prog, int root_fd, const char *dir)
{
	struct bpf_link *link;
	const char *name;
	char path[256];
	int err;

	if (is_pinned(dir, "links", bpf_program__name(prog)))
		return 0; /* taken over */
	link = attach(prog, root_fd);

	if (!link && errno && is_to_show(prog)) {
		pr_debug("attach %s: %s, ignoring", bpf_program__name(prog), strerror(errno));
		return 0;
	}
	if (!link)
		return errno ? log_ret(-errno, "attach %s", bpf_program__name(prog)) : 0;
	name = bpf_program__name(prog);
	if (is_to_show(prog))
		snprintf(path, sizeof(path), "%s/iters/%s", dir, name + strlen(SHOW_PREFIX));
	else
		snprintf(path, sizeof(path), "%s/links/%s", dir, name);
	err = bpf_link__pin(link, path);
	bpf_link__destroy(link); /* the pin keeps it */
	return err ? log_ret(err, "pin '%s'", path) : 0;
}

static int pin_maps_and_progs(struct pincap_bpf *skel, const char *dir)
{
	struct bpf_program *prog;
	struct bpf_map *map;
	char path[256];
	int err;

	bpf_object__for_each_map(map, skel->obj)
	{
		if (bpf_map__is_internal(map))
			continue;
		snprintf(path, sizeof(path), "%s/maps/%s", dir, bpf_map__name(map));
		err = bpf_map__pin(map, path);
		if (err)
			return log_ret(err, "pin '%s'", path);
	}
	bpf_object__for_each_program(prog, skel->obj)
	{
		if (!bpf_program__autoload(prog) ||
		    (!is_gpu(prog) && bpf_program__type(prog) != BPF_PROG_TYPE_SYSCALL))
			continue;
		snprintf(path, sizeof(path), "%s/progs/%s", dir, bpf_program__name(prog));
		err = bpf_program__pin(prog, path);
		if (err)
			return log_ret(err, "pin '%s'", path);
	}
	return 0;
}

static bool is_admission(const struct bpf_program *prog)
{
	return bpf_program__type(prog) == BPF_PROG_TYPE_CGROUP_SOCKOPT;
}

/* Of all triggers, or of the programs that answer requests. */
static int pin_links(struct pincap_bpf *skel, const char *dir, bool admission)
{
	_cleanup_close_ int root_fd = cgroup_open("/");
	struct bpf_program *prog;
	int err;

	if (root_fd < 0)
		return log_ret(root_fd, "open the root of cgroup v2 (is it mounted?)");
	bpf_object__for_each_program(prog, skel->obj)
	{
		if (is_admission(prog) != admission)
			continue;
		err = pin_link(prog, root_fd, dir);
		if (err)
			return err;
	}
	return 0;
}

/* ---- taking over ---- */

/* Requests are put off (EINPROGRESS) until the gate is opened, or for some seconds
 * should we die. */
static void shut_gate(struct pincap_bpf *skel, bool shut)
{
	struct pincap_gate gate = { 0 };
	struct timespec now;
	uint32_t zero = 0;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (shut) {
		gate.shut = 1;
		gate.heartbeat_ns = (uint64_t)(now.tv_sec + SHUT_SECONDS) * 1000000000ULL;
	}
	bpf_map_update_elem(bpf_map__fd(skel->maps.gate), &zero, &gate, BPF_ANY);
}

/* One program answers at any time: the link stays, what it runs is exchanged. */
struct exchange {
	struct bpf_program *prog;
	int link_fd, old_prog_fd;
};

static int exchange(struct exchange *x, const char *dir)
{
	const char *name = bpf_program__name(x->prog);
	struct bpf_link_info info = {};
	uint32_t len = sizeof(info);
	char path[256];

	snprintf(path, sizeof(path), PIN_DIR "/links/%s", name);
	x->link_fd = bpf_obj_get(path);
	if (x->link_fd < 0)
		return 0; /* it had none: attached like the others */
	if (bpf_obj_get_info_by_fd(x->link_fd, &info, &len))
		return -errno;
	x->old_prog_fd = bpf_prog_get_fd_by_id(info.prog_id);
	if (x->old_prog_fd < 0 || bpf_link_update(x->link_fd, bpf_program__fd(x->prog), NULL))
		return log_ret(-errno, "exchange the program of '%s'", path);
	snprintf(path, sizeof(path), "%s/links/%s", dir, name);
	return bpf_obj_pin(x->link_fd, path) ? log_ret(-errno, "pin '%s'", path) : 0;
}

/* `back`: what was there before answers again. */
static void exchange_done(struct exchange *x, bool back)
{
	if (back && x->link_fd >= 0 && x->old_prog_fd >= 0)
		bpf_link_update(x->link_fd, x->old_prog_fd, NULL);
	closep(&x->link_fd);
	closep(&x->old_prog_fd);
}

/* While nobody changes what either side holds. */
static int carry_everything(struct pincap_bpf *skel, const char *dir, struct carry *c)
{
	int err = carry_all(c, dir);

	if (!err)
		skel->bss->files_known = carry_files(c);
	if (!err)
		err = carry_gpu(dir);
	if (!err)
		err = carry_rest(c, dir);
	return err ? log_ret(err, "take over what the older kernel side had") : 0;
}

/* Counts already. What fails or is killed before the directory is complete leaves the
 * older side, of which nothing was taken away. */
static int take_over(struct pincap_bpf *skel, const char *dir, struct carry *c)
{
	struct exchange set = { skel->progs.admit_setsockopt, -1, -1 };
	struct exchange get = { skel->progs.admit_getsockopt, -1, -1 };
	int err;

	shut_gate(skel, true);
	err = exchange(&set, dir);
	if (!err)
		err = exchange(&get, dir);
	if (!err) /* where the older side had lost them */
		err = pin_links(skel, dir, true);
	if (!err)
		err = carry_everything(skel, dir, c);
	if (!err)
		err = pins_complete(dir);
	exchange_done(&set, err != 0);
	exchange_done(&get, err != 0);
	shut_gate(skel, false);
	return err ? err : kernel_finish();
}

static int load_with(struct triggers *t, bool persistent, struct carry *c)
{
	struct pincap_bpf *skel = open_and_load(t);
	char dir[128];
	int err;

	if (!skel)
		return -errno;

	/* A kill anywhere before the rename leaves a directory that nobody adopts. */
	snprintf(dir, sizeof(dir), BPFFS "/" NEW_PREFIX "%d", (int)getpid());
	err = pins_make(dir);
	if (!err)
		err = init_config(skel, persistent, c);
	if (!err)
		err = pin_maps_and_progs(skel, dir);
	if (!err)
		err = pin_links(skel, dir, false);
	if (!err && c)
		err = take_over(skel, dir, c);
	else if (!err)
		err = pin_links(skel, dir, true);
	if (!err && !c && rename(dir, PIN_DIR))
		err = log_ret(-errno, "rename '%s' to '" PIN_DIR "'", dir);
	if (err)
		pins_remove(dir);
	pincap_bpf__destroy(skel);
	return err;
}

static int load_carrying(bool persistent, struct carry *c)
{
	struct triggers asked, t;
	int err = mount_bpffs();

	if (!err)
		err = trigger_asked(&asked);
	if (err)
		return err;
	pins_remove_leftovers();
	t = asked;
	err = load_with(&t, persistent, c);
	if (!err || t.memory != TRIGGER_FEXIT || asked.memory || asked.gpu ||
	    !probe_is_new_enough())
		return err;
	/* What could be tried beforehand went well, and yet. */
	pr_warn("trying again without fexit");
	t = (struct triggers){ TRIGGER_MMAP_LOCK, GPU_TRIGGER_TRACEPOINT };
	return load_with(&t, persistent, c);
}

int kernel_load(bool persistent)
{
	return load_carrying(persistent, NULL);
}

/* NULL where there is nothing to take over, or nothing that can be read. */
static struct carry *open_older(void)
{
	struct carry *c = NULL;
	int err = access(PIN_DIR, F_OK) ? -ENOENT : carry_open(&c, PIN_DIR);

	if (err && err != -ENOENT)
		pr_warn("the kernel side that is loaded is too old, or broken: its budgets and "
			"holds are lost");
	return c;
}

int kernel_upgrade(bool persistent)
{
	struct carry *c = open_older();
	int err;

	if (!c) {
		kernel_remove();
		return kernel_load(persistent);
	}
	err = load_carrying(persistent, c);
	carry_close(c);
	return err;
}

static int share(const char *path, gid_t gid)
{
	if (chown(path, 0, gid) || chmod(path, 0440))
		return log_ret(-errno, "share '%s'", path);
	return 0;
}

int kernel_share(gid_t gid)
{
	struct stat st;
	int err;

	/* Systemd mounts bpffs for root alone; to look something up, passing is enough. */
	if (stat(BPFFS, &st) || chmod(BPFFS, (st.st_mode & 07777) | 0011))
		return log_ret(-errno, "let others pass through " BPFFS);
	err = share(PIN_DIR "/iters/processes", gid);
	if (!err && !access(PIN_DIR "/iters/cgroups", F_OK))
		err = share(PIN_DIR "/iters/cgroups", gid);
	return err;
}
