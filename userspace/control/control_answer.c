/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "userspace/common/cgroup.h"
#include "userspace/control/control_priv.h"

/* There is no file to go with it. */
static int explain(struct control_reply *reply, int err, const char *why)
{
	reply->err = err;
	snprintf(reply->text, sizeof(reply->text), "%s", why);
	return -1;
}

static bool reads_all(const struct caller *who)
{
	return !who->uid || who->is_of_group;
}

/* The directory of this cgroup, or of one above it, is his. The root's is nobody's. */
static bool is_owned(uid_t uid, const char *cgpath)
{
	_cleanup_free_ char *dir = cgroup_dir(cgpath);
	const size_t root = strlen(cgroup_mount());
	struct stat st;

	while (dir && strlen(dir) > root) {
		if (!stat(dir, &st) && st.st_uid == uid)
			return true;
		*strrchr(dir, '/') = '\0';
	}
	return false;
}

static bool is_owned_above(uid_t uid, const char *cgpath)
{
	_cleanup_free_ char *above = strdup(cgpath);
	char *slash = above ? strrchr(above, '/') : NULL;

	if (!slash || slash == above)
		return false;
	*slash = '\0';
	return is_owned(uid, above);
}

/* ---- set ---- */

static uint64_t bound_of(struct control *c, const uint64_t *chain, unsigned int depth)
{
	uint64_t bound = PINCAP_UNLIMITED;
	struct pincap_cgroup cg;

	for (unsigned int i = 1; i < depth; i++)
		if (!kernel_get_cgroup(c->kernel, chain[i], &cg))
			bound = MIN(bound, cg.limit);
	return bound;
}

static int find(const struct control_request *req, char **ret_cgpath)
{
	int err = cgroup_path_of_id(req->cgroup_id, ret_cgpath);

	return err == -ENOENT || err == -EXDEV ? -ESTALE : err;
}

static void answer_set(const struct caller *who, const struct control_request *req,
		       struct control_reply *reply)
{
	struct control *c = who->owner;
	struct control_facts facts = { .uid = who->uid };
	struct pincap_set_budget budget = req->budget;
	_cleanup_free_ char *cgpath = NULL;
	uint64_t chain[PINCAP_MAX_DEPTH];
	unsigned int depth;
	const char *why;
	int err = find(req, &cgpath);

	if (!err)
		err = cgroup_chain(cgpath, chain, PINCAP_MAX_DEPTH, &depth);
	if (err) {
		explain(reply, err, "there is no such cgroup");
		return;
	}
	facts.is_owned_above = is_owned_above(who->uid, cgpath);
	facts.has_rule = c->ops->has_rule(c->ctx, cgpath);
	facts.bound = reply->bound = bound_of(c, chain, depth);
	err = control_may_set(&facts, &budget, &why);
	if (err)
		explain(reply, err, why);
	else
		reply->err = c->ops->set(c->ctx, cgpath, &budget);
}

/* ---- stat ---- */

struct listing {
	const struct caller *who;
	FILE *f;
};

static int add_row(FILE *f, uint64_t cgid, const char *cgpath, const struct pincap_cgroup *cg)
{
	const struct control_row row = {
		.cgroup_id = cgid,
		.path_len = (uint32_t)strlen(cgpath),
		.cg = *cg,
	};

	if (fwrite(&row, sizeof(row), 1, f) != 1 || fputs(cgpath, f) < 0)
		return -EIO;
	return 0;
}

static bool may_read(const struct caller *who, const char *cgpath)
{
	const struct control_reader r = { who->uid, who->is_of_group, who->cgpath };

	return control_may_read(&r, cgpath, !reads_all(who) && is_owned(who->uid, cgpath));
}

/* Those that were removed are an administrator's concern, who reads the maps. */
static int on_cgroup(uint64_t cgid, const struct pincap_cgroup *cg, void *ctx)
{
	const struct listing *l = ctx;
	_cleanup_free_ char *cgpath = NULL;

	if (cgroup_path_of_id(cgid, &cgpath) || !may_read(l->who, cgpath))
		return 0;
	return add_row(l->f, cgid, cgpath, cg);
}

static int list_one(const struct listing *l, uint64_t cgid)
{
	struct pincap_cgroup cg;
	_cleanup_free_ char *cgpath = NULL;
	int err = cgroup_path_of_id(cgid, &cgpath);

	if (err)
		return -ESTALE;
	if (!may_read(l->who, cgpath))
		return -EPERM;
	err = kernel_get_cgroup(l->who->owner->kernel, cgid, &cg);
	if (err)
		return err == -ENOENT ? -ENODATA : err;
	return add_row(l->f, cgid, cgpath, &cg);
}

static int answer_stat(const struct caller *who, const struct control_request *req,
		       struct control_reply *reply)
{
	_cleanup_close_ int fd = memfd_create("pincap-stat", MFD_CLOEXEC);
	_cleanup_fclose_ FILE *f = NULL;
	struct listing l = { .who = who };
	int err;

	f = fd < 0 ? NULL : fdopen(dup(fd), "w");
	if (!f)
		return explain(reply, -ENOMEM, "no memory for the answer");
	l.f = f;
	err = req->cgroup_id ? list_one(&l, req->cgroup_id)
			     : kernel_each_cgroup(who->owner->kernel, on_cgroup, &l);
	if (!err && fflush(f))
		err = -errno;
	if (err == -EPERM)
		return explain(reply, err, "it is neither yours nor above yours");
	if (err)
		return explain(reply, err, strerror(-err));
	return TAKE_FD(fd);
}

/* ---- the others ---- */

static void answer_status(const struct caller *who, struct control_reply *reply)
{
	char text[CONTROL_TEXT] = "";

	who->owner->ops->status(who->owner->ctx, &reply->status, text);
	if (reads_all(who))
		memcpy(reply->text, text, sizeof(text));
}

static void answer_reload(const struct caller *who, struct control_reply *reply)
{
	if (who->uid)
		explain(reply, -EPERM, "only root may have the configuration read again");
	else
		reply->err = who->owner->ops->reload(who->owner->ctx, reply->text);
}

int control_answer(const struct caller *who, const struct control_request *req,
		   struct control_reply *reply)
{
	switch (req->kind) {
	case CONTROL_STATUS:
		answer_status(who, reply);
		break;
	case CONTROL_STAT:
		return answer_stat(who, req, reply);
	case CONTROL_SET:
		answer_set(who, req, reply);
		break;
	case CONTROL_RELOAD:
		answer_reload(who, reply);
		break;
	default:
		explain(reply, -EINVAL, "this version does not know the request");
		break;
	}
	return -1;
}
