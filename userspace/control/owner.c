/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>

#include "userspace/control/owner.h"

/* A group of more members than that is not what per-member budgets are for. */
#define PATTERNS_MAX 65536

static int id_parse(const char *text, id_t *ret)
{
	unsigned long long id;
	char *end;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	id = strtoull(text, &end, 10);
	if (*end || errno || id >= UINT32_MAX) /* the last means "nobody" to the kernel */
		return -EINVAL;
	*ret = (id_t)id;
	return 0;
}

int owner_user_parse(const char *text, uid_t *ret)
{
	const struct passwd *pw = getpwnam(text);

	if (!pw)
		return id_parse(text, ret) ? -ENOENT : 0;
	*ret = pw->pw_uid;
	return 0;
}

int owner_group_parse(const char *text, gid_t *ret)
{
	const struct group *gr = getgrnam(text);

	if (!gr)
		return id_parse(text, ret) ? -ENOENT : 0;
	*ret = gr->gr_gid;
	return 0;
}

/* Takes the text. Once is enough. */
static int add(struct owner_patterns *p, char *text)
{
	char **list;

	if (!text)
		return -ENOMEM;
	for (size_t i = p->count > 16 ? p->count - 16 : 0; i < p->count; i++) {
		if (streq(p->list[i], text)) {
			free(text);
			return 0;
		}
	}
	list = p->count < PATTERNS_MAX ? reallocarray(p->list, p->count + 1, sizeof(*list)) : NULL;
	if (!list) {
		free(text);
		return p->count < PATTERNS_MAX ? -ENOMEM : -E2BIG;
	}
	p->list = list;
	list[p->count++] = text;
	return 0;
}

/* A user as the lines of cgrules.conf see him. */
struct person {
	const char *name; /* NULL: not in the list of users */
	gid_t gid;	  /* CGRULES_NOBODY: unknown */
	gid_t groups[NGROUPS_MAX];
	int group_count;
};

static void person_get(uid_t uid, char name[static LOGIN_NAME_MAX], struct person *ret)
{
	const struct passwd *pw = getpwuid(uid);

	ret->name = NULL;
	ret->gid = CGRULES_NOBODY;
	ret->group_count = 0;
	if (!pw)
		return;
	snprintf(name, LOGIN_NAME_MAX, "%s", pw->pw_name);
	ret->name = name;
	ret->gid = pw->pw_gid;
	ret->group_count = NGROUPS_MAX;
	if (getgrouplist(name, ret->gid, ret->groups, &ret->group_count) < 0)
		ret->group_count = 0;
}

static bool fits(const struct cgrules_line *line, uid_t uid, const struct person *who)
{
	if (line->everybody)
		return true;
	if (line->uid != CGRULES_NOBODY)
		return line->uid == uid;
	for (int i = 0; i < who->group_count; i++)
		if (line->gid == who->groups[i])
			return true;
	return false;
}

static int add_line(struct owner_patterns *p, const struct cgrules_line *line, uid_t uid,
		    const struct person *who)
{
	char uid_text[16], gid_text[16];
	const struct group *gr;
	struct cgrules_names names = { .uid = uid_text };

	if (line->uid != uid && !cgrules_is_per_user(line->dest))
		return 0;
	snprintf(uid_text, sizeof(uid_text), "%u", uid);
	names.user = who->name ? who->name : uid_text;
	if (who->gid != CGRULES_NOBODY) {
		snprintf(gid_text, sizeof(gid_text), "%u", who->gid);
		names.gid = gid_text;
		gr = getgrgid(who->gid);
		names.group = gr ? gr->gr_name : gid_text;
	}
	return add(p, cgrules_pattern(line->dest, &names));
}

/* The lines that apply: up to the first that is for every program, and those that
 * continue it. */
static int add_lines(const struct cgrules *rules, uid_t uid, const struct person *who,
		     struct owner_patterns *p)
{
	bool applies = false, found = false;
	int err = 0;

	for (size_t i = 0; i < rules->count && !err; i++) {
		const struct cgrules_line *line = &rules->lines[i];

		if (!line->continues) {
			if (found)
				break;
			applies = fits(line, uid, who);
			found = applies && !line->process;
		}
		if (applies && !line->ignore)
			err = add_line(p, line, uid, who);
	}
	return err;
}

static int add_user(const struct cgrules *rules, uid_t uid, struct owner_patterns *p)
{
	_cleanup_free_ struct person *who = malloc(sizeof(*who));
	char name[LOGIN_NAME_MAX], *slice;
	int err;

	if (!who || asprintf(&slice, "/user.slice/user-%u.slice", uid) < 0)
		return -ENOMEM;
	err = add(p, slice);
	if (err || !rules->count)
		return err;
	person_get(uid, name, who);
	return add_lines(rules, uid, who, p);
}

static int finish(int err, struct owner_patterns *p, struct owner_patterns *ret)
{
	if (err)
		owner_patterns_done(p);
	else
		*ret = *p;
	return err;
}

int owner_user_patterns(const struct cgrules *rules, uid_t uid, struct owner_patterns *ret)
{
	struct owner_patterns p = { 0 };

	return finish(add_user(rules, uid, &p), &p, ret);
}

static int add_group_lines(const struct cgrules *rules, gid_t gid, struct owner_patterns *p)
{
	const struct group *gr = getgrgid(gid);
	char gid_text[16];
	struct cgrules_names names = { .gid = gid_text, .group = gr ? gr->gr_name : gid_text };
	int err = 0;

	snprintf(gid_text, sizeof(gid_text), "%u", gid);
	for (size_t i = 0; i < rules->count && !err; i++) {
		const struct cgrules_line *line = &rules->lines[i];

		if (line->gid == gid && !line->everybody && !line->ignore)
			err = add(p, cgrules_pattern(line->dest, &names));
	}
	return err;
}

/* Those whose first group it is, collected first: what is done with each asks the
 * list of users anew. */
static int first_group_members(gid_t gid, uid_t **ret, size_t *ret_count)
{
	const struct passwd *pw;
	uid_t *list = NULL, *grown;
	size_t count = 0;

	setpwent();
	while ((pw = getpwent())) {
		if (pw->pw_gid != gid)
			continue;
		grown = count < PATTERNS_MAX ? reallocarray(list, count + 1, sizeof(*list)) : NULL;
		if (!grown) {
			endpwent();
			free(list);
			return count < PATTERNS_MAX ? -ENOMEM : -E2BIG;
		}
		list = grown;
		list[count++] = pw->pw_uid;
	}
	endpwent();
	*ret = list;
	*ret_count = count;
	return 0;
}

static int add_first_group_members(const struct cgrules *rules, gid_t gid, struct owner_patterns *p)
{
	_cleanup_free_ uid_t *uids = NULL;
	size_t count = 0;
	int err = first_group_members(gid, &uids, &count);

	for (size_t i = 0; i < count && !err; i++)
		err = add_user(rules, uids[i], p);
	return err;
}

/* Those the group lists; getgrgid's answer does not last, so the names are copied. */
static int add_listed_members(const struct cgrules *rules, gid_t gid, struct owner_patterns *p)
{
	const struct group *gr = getgrgid(gid);
	struct owner_patterns names = { 0 };
	uid_t uid;
	int err = 0;

	for (char **m = gr ? gr->gr_mem : NULL; m && *m && !err; m++)
		err = add(&names, strdup(*m));
	for (size_t i = 0; i < names.count && !err; i++)
		if (!owner_user_parse(names.list[i], &uid))
			err = add_user(rules, uid, p);
	owner_patterns_done(&names);
	return err;
}

int owner_group_patterns(const struct cgrules *rules, gid_t gid, struct owner_patterns *ret)
{
	struct owner_patterns p = { 0 };
	int err;

	err = add_group_lines(rules, gid, &p);
	if (!err)
		err = add_listed_members(rules, gid, &p);
	if (!err)
		err = add_first_group_members(rules, gid, &p);
	return finish(err, &p, ret);
}

void owner_patterns_done(struct owner_patterns *p)
{
	for (size_t i = 0; i < p->count; i++)
		free(p->list[i]);
	free(p->list);
	*p = (struct owner_patterns){ 0 };
}
