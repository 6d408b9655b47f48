/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>

#include "userspace/cli/identity.h"

/* Decimal, whole, and not (uid_t)-1, which means "leave it" to setresuid. */
static int parse_id(const char *text, unsigned int *ret)
{
	unsigned long long value;
	char *end;

	if (!*text || text[strspn(text, "0123456789")])
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || value >= UINT_MAX)
		return -EINVAL;
	*ret = (unsigned int)value;
	return 0;
}

/* Supplementary groups of a user; of one without a name, the primary alone. */
static int read_groups(struct identity *who)
{
	int count = 32;

	for (;;) {
		int size = count;
		gid_t *groups = reallocarray(who->groups, (size_t)size, sizeof(*groups));

		if (!groups)
			return -ENOMEM;
		who->groups = groups;
		if (!who->name) {
			groups[0] = who->gid;
			count = 1;
			break;
		}
		if (getgrouplist(who->name, who->gid, groups, &count) >= 0)
			break;
		if (count <= size)
			count = size * 2;
	}
	who->group_count = count;
	return 0;
}

static int fill(struct identity *who, const struct passwd *pw)
{
	who->change = true;
	if (pw) {
		who->name = strdup(pw->pw_name);
		who->home = strdup(pw->pw_dir);
		who->shell = strdup(*pw->pw_shell ? pw->pw_shell : "/bin/sh");
		if (!who->name || !who->home || !who->shell)
			return -ENOMEM;
	}
	return read_groups(who);
}

static int hand_over(int err, struct identity *who, struct identity *ret)
{
	if (err) {
		identity_done(who);
		return err;
	}
	*ret = *who;
	return 0;
}

int identity_from_sudo(struct identity *ret)
{
	const char *uid = getenv("SUDO_UID"), *gid = getenv("SUDO_GID");
	struct identity who = { 0 };

	if (geteuid() || !uid || !gid || streq(uid, "0")) {
		*ret = who;
		return 0;
	}
	if (parse_id(uid, &who.uid) || parse_id(gid, &who.gid))
		return -EINVAL;
	return hand_over(fill(&who, getpwuid(who.uid)), &who, ret);
}

int identity_from_user(const char *user, struct identity *ret)
{
	struct identity who = { 0 };
	const struct passwd *pw = getpwnam(user);
	unsigned int uid;

	if (!pw && !parse_id(user, &uid))
		pw = getpwuid(uid);
	if (!pw)
		return -ENOENT;
	who.uid = pw->pw_uid;
	who.gid = pw->pw_gid;
	return hand_over(fill(&who, pw), &who, ret);
}

static int set_env(const char *name, const char *value)
{
	return value && setenv(name, value, 1) ? -errno : 0;
}

int identity_assume(const struct identity *who)
{
	int err = 0;

	if (!who->change)
		return 0;
	if (setgroups((size_t)who->group_count, who->groups) ||
	    setresgid(who->gid, who->gid, who->gid) || setresuid(who->uid, who->uid, who->uid))
		return -errno;
	err = err ? err : set_env("HOME", who->home);
	err = err ? err : set_env("USER", who->name);
	err = err ? err : set_env("LOGNAME", who->name);
	err = err ? err : set_env("SHELL", who->shell);
	return err;
}

void identity_done(struct identity *who)
{
	free(who->groups);
	free(who->name);
	free(who->home);
	free(who->shell);
	*who = (struct identity){ 0 };
}
