/* SPDX-License-Identifier: MIT */
#include <argp.h>
#include <errno.h>
#include <sys/xattr.h>

#include "userspace/cli/adopt.h"
#include "userspace/cli/cli.h"
#include "userspace/cli/leftovers.h"
#include "userspace/cli/mapped.h"
#include "userspace/cli/run_options.h"
#include "userspace/cli/run_place.h"
#include "userspace/cli/target.h"
#include "userspace/common/cgroup.h"
#include "userspace/common/hostmem.h"
#include "userspace/common/log.h"
#include "userspace/common/size.h"
#include "userspace/control/kernel.h"

struct attach {
	pid_t pid;
	const char *cgroup; /* NULL: a fresh one below its own */
	struct hostmem memory;
	struct pincap_set_budget budget;
	bool limit_auto;
	struct target target;
	struct place place;
	struct kernel *kernel;
};

/* --cgroup, else the one we made for it before, else a fresh one. */
static int open_place(struct attach *a)
{
	const char *object = a->cgroup ? a->cgroup : a->target.cgpath;
	int err;

	if (!a->cgroup && place_is_of(a->target.cgpath, a->pid))
		err = place_open(&a->place, a->target.cgpath);
	else if (a->cgroup)
		err = place_open(&a->place, a->cgroup);
	else
		err = place_open_for(&a->place, a->pid);
	if (err == -EISDIR)
		pr_err("--cgroup '%s': the root has everybody in it; name a cgroup of its own",
		       object);
	else if (err == -E2BIG)
		pr_err("'%s': deeper than %d levels", object, PINCAP_MAX_DEPTH);
	else if (err)
		log_ret(err, a->cgroup ? "--cgroup '%s'" : "make a cgroup below '%s'", object);
	return err;
}

static void explain_move(const struct attach *a, int err)
{
	const char *cgpath = a->place.cgpath;

	if (err == -EOPNOTSUPP)
		pr_err("'%s' is in a threaded subtree, where threads are placed one by one; name "
		       "another by --cgroup",
		       cgpath);
	else if (err == -EBUSY)
		pr_err("'%s' has controllers enabled for its children, so that the kernel lets no "
		       "process into it; name one without by --cgroup",
		       cgpath);
	else if (err == -ESRCH)
		pr_err("process %d has ended meanwhile", (int)a->pid);
	else
		log_ret(err, "move process %d to '%s'", (int)a->pid, cgpath);
}

/* With all its threads. The pid may have become another's under our hands: that one
 * goes back. */
static int move(const struct attach *a)
{
	int err;

	if (streq(a->place.cgpath, a->target.cgpath))
		return 0;
	err = cgroup_attach(a->place.cgpath, a->pid);
	if (!err && !target_is_alive(&a->target)) {
		cgroup_attach(a->target.cgpath, a->pid);
		err = -ESRCH;
	}
	if (err)
		explain_move(a, err);
	return err;
}

/* What was there before stays, where nothing else was asked for. */
static int set_budget(struct attach *a)
{
	struct pincap_cgroup before;
	int err;

	if (a->limit_auto && !kernel_get_cgroup(a->kernel, a->place.chain[0], &before) &&
	    before.limit != PINCAP_UNLIMITED) {
		a->limit_auto = false;
		a->budget.mask &= ~(__u32)PINCAP_SET_LIMIT;
	}
	if (!a->budget.mask)
		return 0;
	err = kernel_set_budget(a->kernel, a->place.chain, a->place.depth, &a->budget);
	return err ? log_ret(err, "set the budget of '%s'", a->place.cgpath) : 0;
}

/* systemd marks what it leaves to others; of the rest it believes it is the only
 * one who makes cgroups there. */
static void warn_of_systemd(const struct attach *a)
{
	_cleanup_free_ char *dir = cgroup_dir(a->target.cgpath);
	const char *dot = strrchr(a->target.cgpath, '.');
	char value[8];

	if (!a->place.made || a->cgroup || !dir || !dot ||
	    (!streq(dot, ".service") && !streq(dot, ".scope")))
		return;
	if (getxattr(dir, "trusted.delegate", value, sizeof(value)) > 0 ||
	    getxattr(dir, "user.delegate", value, sizeof(value)) > 0)
		return;
	pr_warn("'%s' is a unit of systemd's, which may take the cgroup away when it stops; to "
		"budget all of it, 'pincap set %s limit=SIZE'",
		a->target.cgpath, a->target.cgpath);
}

static void report(const struct attach *a)
{
	char limit[SIZE_FORMAT_BYTES], current[SIZE_FORMAT_BYTES];
	struct pincap_cgroup cg;

	kernel_sweep(a->kernel);
	if (!kernel_get_cgroup(a->kernel, a->place.chain[0], &cg)) {
		pr_info("%s (%d): limit %s%s, current %s", a->target.comm, (int)a->pid,
			size_format(cg.limit, limit), a->limit_auto ? " (auto)" : "",
			size_format((uint64_t)MAX(cg.current, 0), current));
		if (cg.current > 0 && (uint64_t)cg.current > cg.limit)
			pr_warn("it is over: nothing is taken away, and nothing more admitted "
				"until usage falls");
	}
	if (mapped_in(a->pid) == 1)
		pr_info("managed: it has the library");
	else
		pr_info("unmanaged: counted and reported, not refused; the library cannot be put "
			"into a running process (start it by 'pincap run', or see 'pincap "
			"attach-host')");
	puts(a->place.cgpath);
}

static int attach(struct attach *a)
{
	const struct kernel_devices devices = { getenv("PINCAP_KFD"), getenv("PINCAP_DRM") };
	int err;

	if (!cli_is_privileged()) {
		pr_err("attach needs root, or CAP_BPF, CAP_PERFMON and a cgroup of its own");
		return -EPERM;
	}
	err = target_open(&a->target, a->pid);
	if (err)
		return err;
	err = kernel_open(&a->kernel, false, &devices); /* has said why */
	if (err)
		return err;
	leftovers_remove(a->kernel);
	err = open_place(a);
	if (err)
		return err;
	err = set_budget(a); /* before it is in, so that nothing passes meanwhile */
	if (!err)
		err = move(a);
	if (err) {
		place_leave(&a->place);
		return err;
	}
	warn_of_systemd(a);
	report(a);
	return 0;
}

static void parse_size(struct attach *a, const char *option, const char *text, __u64 *ret,
		       struct argp_state *state)
{
	uint64_t bytes;
	int err = size_parse(text, a->memory.ram_bytes, &bytes);

	if (err)
		argp_failure(state, CLI_USAGE, 0, "--%s '%s': %s", option, text,
			     err == -ERANGE ? "out of range"
					    : "not a size like 8G, 512M, 1.5GiB, 40%, infinity");
	*ret = bytes;
}

static void parse_pid(struct attach *a, const char *text, struct argp_state *state)
{
	char *end;
	long pid = strtol(text, &end, 10);

	if (*text < '0' || *text > '9' || *end || pid < 1 || pid > INT32_MAX)
		argp_failure(state, CLI_USAGE, 0, "--pid '%s': not the number of a process", text);
	a->pid = (pid_t)pid;
}

enum { OPT_HIGH = 256, OPT_CGROUP };

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct attach *a = state->input;

	switch (key) {
	case 'p':
		parse_pid(a, arg, state);
		return 0;
	case 'l':
		a->limit_auto = streq(arg, "auto");
		if (!a->limit_auto)
			parse_size(a, "limit", arg, &a->budget.limit, state);
		return 0;
	case OPT_HIGH:
		parse_size(a, "high", arg, &a->budget.high, state);
		a->budget.mask |= PINCAP_SET_HIGH;
		return 0;
	case OPT_CGROUP:
		if (!*arg)
			argp_failure(state, CLI_USAGE, 0, "--cgroup '': must not be empty");
		a->cgroup = arg;
		return 0;
	case ARGP_KEY_END:
		if (!a->pid)
			argp_failure(state, CLI_USAGE, 0, "expected --pid PID");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ "pid", 'p', "PID", 0, "The process; all its threads move, its children do not", 0 },
	{ "limit", 'l', "SIZE", 0,
	  "Budget: 8G, 512M, 1.5GiB, 40%, infinity, or auto, the default, as for run", 0 },
	{ "high", OPT_HIGH, "SIZE", 0, "Above it, memory is asked back", 0 },
	{ "cgroup", OPT_CGROUP, "PATH", 0,
	  "Move it to this cgroup, made if it is missing (default: a fresh one below its own)", 0 },
	{ 0 },
};

int cmd_attach(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "-p PID",
		.doc = "Puts a running process under a budget, in a cgroup of its own, whose path "
		       "is "
		       "printed. The library cannot be put into it: unless it has it already, it "
		       "is unmanaged, that is counted and reported, and not refused.\v"
		       "Named again, the budget changes and the process stays where it is. Once it "
		       "has ended, the next run or attach removes the cgroup.",
	};
	struct attach a = { .limit_auto = true, .target.pidfd = -1 };
	int err;

	if (hostmem_read(&a.memory))
		pr_warn("cannot read how much memory there is, taking it for none");
	argp_parse(&argp, argc, argv, 0, NULL, &a);
	if (a.limit_auto)
		a.budget.limit = hostmem_auto_limit(a.memory.ram_bytes, a.memory.swap_bytes);
	a.budget.mask |= PINCAP_SET_LIMIT;
	err = attach(&a);
	if (err)
		kernel_release(a.kernel);
	else
		kernel_close(a.kernel); /* the budget stays, and who holds it */
	place_done(&a.place);
	target_done(&a.target);
	return err ? CLI_FAILURE : CLI_OK;
}
