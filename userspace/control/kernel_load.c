/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/magic.h>

#include "userspace/common/cgroup.h"
#include "userspace/common/log.h"
#include "userspace/control/kernel_trigger.h"
#include "userspace/control/probe.h"
#include "pincap.skel.h" /* names types of intf.h */

#define NEW_PREFIX "pincap-new-"
#define OLD_PREFIX "pincap-old-"

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

static int init_config(struct pincap_bpf *skel, bool persistent)
{
	struct pincap_config cfg = {
		.abi = PINCAP_ABI,
		.flags = persistent ? PINCAP_CONFIG_PERSISTENT : 0,
	};
	uint32_t zero = 0;

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

static int pin_link(struct bpf_program *prog, int root_fd, const char *dir)
{
	struct bpf_link *link = attach(prog, root_fd);
	const char *name;
	char path[256];
	int err;

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

static int pin_links(struct pincap_bpf *skel, const char *dir)
{
	_cleanup_close_ int root_fd = cgroup_open("/");
	struct bpf_program *prog;
	int err;

	if (root_fd < 0)
		return log_ret(root_fd, "open the root of cgroup v2 (is it mounted?)");
	bpf_object__for_each_program(prog, skel->obj)
	{
		err = pin_link(prog, root_fd, dir);
		if (err)
			return err;
	}
	return 0;
}

static int make_dirs(const char *dir)
{
	/* What is in iters/ may be given to a group (kernel_share); the rest is root's. */
	static const struct {
		const char *name;
		mode_t mode;
	} subs[] = {
		{ "", 0755 },	    { "/maps", 0700 },	{ "/links", 0700 },
		{ "/progs", 0700 }, { "/iters", 0755 },
	};
	char path[256];

	for (size_t i = 0; i < ARRAY_SIZE(subs); i++) {
		snprintf(path, sizeof(path), "%s%s", dir, subs[i].name);
		if (mkdir(path, subs[i].mode) || chmod(path, subs[i].mode))
			return log_ret(-errno, "make '%s'", path);
	}
	return 0;
}

static void remove_tree(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	char path[512];

	while (d && (e = readdir(d))) {
		if (streq(e->d_name, ".") || streq(e->d_name, ".."))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (unlink(path))
			remove_tree(path);
	}
	if (d)
		closedir(d);
	rmdir(dir);
}

static void remove_leftovers(void)
{
	DIR *d = opendir(BPFFS);
	struct dirent *e;
	char path[512];

	while (d && (e = readdir(d))) {
		if (strncmp(e->d_name, NEW_PREFIX, strlen(NEW_PREFIX)) &&
		    strncmp(e->d_name, OLD_PREFIX, strlen(OLD_PREFIX)))
			continue;
		snprintf(path, sizeof(path), BPFFS "/%s", e->d_name);
		remove_tree(path);
	}
	if (d)
		closedir(d);
}

static int load_with(struct triggers *t, bool persistent)
{
	struct pincap_bpf *skel = open_and_load(t);
	char dir[128];
	int err;

	if (!skel)
		return -errno;

	/* A kill anywhere before the rename leaves a directory that nobody adopts. */
	snprintf(dir, sizeof(dir), BPFFS "/" NEW_PREFIX "%d", (int)getpid());
	err = make_dirs(dir);
	if (!err)
		err = init_config(skel, persistent);
	if (!err)
		err = pin_maps_and_progs(skel, dir);
	if (!err)
		err = pin_links(skel, dir);
	if (!err && rename(dir, PIN_DIR))
		err = log_ret(-errno, "rename '%s' to '" PIN_DIR "'", dir);
	if (err)
		remove_tree(dir);
	pincap_bpf__destroy(skel);
	return err;
}

int kernel_load(bool persistent)
{
	struct triggers asked, t;
	int err = mount_bpffs();

	if (!err)
		err = trigger_asked(&asked);
	if (err)
		return err;
	remove_leftovers();
	t = asked;
	err = load_with(&t, persistent);
	if (!err || t.memory != TRIGGER_FEXIT || asked.memory || asked.gpu ||
	    !probe_is_new_enough())
		return err;
	/* What could be tried beforehand went well, and yet. */
	pr_warn("trying again without fexit");
	t = (struct triggers){ TRIGGER_MMAP_LOCK, GPU_TRIGGER_TRACEPOINT };
	return load_with(&t, persistent);
}

/* The kernel lets go of an unlinked link some time later: end admission now, so
 * that after a load no two programs charge. */
static void detach(const char *dir, const char *name)
{
	_cleanup_close_ int fd = -1;
	char path[256];

	snprintf(path, sizeof(path), "%s/links/%s", dir, name);
	fd = bpf_obj_get(path);
	if (fd >= 0)
		bpf_link_detach(fd);
}

int kernel_remove(void)
{
	char dir[128];
	int err;

	snprintf(dir, sizeof(dir), BPFFS "/" OLD_PREFIX "%d", (int)getpid());
	err = rename(PIN_DIR, dir) ? -errno : 0;
	if (!err) {
		detach(dir, "admit_setsockopt");
		detach(dir, "admit_getsockopt");
	}
	remove_leftovers();
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
