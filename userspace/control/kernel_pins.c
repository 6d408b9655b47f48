/* SPDX-License-Identifier: MIT */
/* Directories below bpffs: each a whole kernel side, or what a kill has left of one. */
#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

#include <bpf/bpf.h>

#include "userspace/common/log.h"
#include "userspace/control/kernel_priv.h"

#define OLD_PREFIX "pincap-old-"

/* A kernel side that has taken over from the one in PIN_DIR, and is to be there. */
#define READY_DIR BPFFS "/pincap-ready"

int pins_make(const char *dir)
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

void pins_remove(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	char path[512];

	while (d && (e = readdir(d))) {
		if (streq(e->d_name, ".") || streq(e->d_name, ".."))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (unlink(path))
			pins_remove(path);
	}
	if (d)
		closedir(d);
	rmdir(dir);
}

void pins_remove_leftovers(void)
{
	DIR *d = opendir(BPFFS);
	struct dirent *e;
	char path[512];

	while (d && (e = readdir(d))) {
		if (strncmp(e->d_name, NEW_PREFIX, strlen(NEW_PREFIX)) &&
		    strncmp(e->d_name, OLD_PREFIX, strlen(OLD_PREFIX)))
			continue;
		snprintf(path, sizeof(path), BPFFS "/%s", e->d_name);
		pins_remove(path);
	}
	if (d)
		closedir(d);
}

int kernel_finish(void)
{
	char old[128];

	if (access(READY_DIR, F_OK))
		return -ENOENT;
	snprintf(old, sizeof(old), BPFFS "/" OLD_PREFIX "%d", (int)getpid());
	if (rename(PIN_DIR, old) && errno != ENOENT)
		return log_ret(-errno, "rename '" PIN_DIR "'");
	if (rename(READY_DIR, PIN_DIR))
		return log_ret(-errno, "rename '" READY_DIR "' to '" PIN_DIR "'");
	pins_remove_leftovers();
	return 0;
}

/* Who may read what is printed (kernel_share). */
static void keep_share(const char *dir)
{
	static const char *const names[] = { "processes", "cgroups" };
	char from[256], to[256];
	struct stat st;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		snprintf(from, sizeof(from), PIN_DIR "/iters/%s", names[i]);
		snprintf(to, sizeof(to), "%s/iters/%s", dir, names[i]);
		if (!stat(from, &st) && (chown(to, 0, st.st_gid) || chmod(to, st.st_mode & 0777)))
			log_ret(-errno, "share '%s', ignoring", to);
	}
}

int pins_complete(const char *dir)
{
	keep_share(dir);
	return rename(dir, READY_DIR) ? log_ret(-errno, "rename '%s' to '" READY_DIR "'", dir) : 0;
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
	pins_remove_leftovers();
	return err;
}
