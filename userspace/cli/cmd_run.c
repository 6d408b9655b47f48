/* SPDX-License-Identifier: MIT */
#include <argp.h>
#include <errno.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "userspace/cli/adopt.h"
#include "userspace/cli/cli.h"
#include "userspace/cli/leftovers.h"
#include "userspace/cli/remote.h"
#include "userspace/cli/run_loop.h"
#include "userspace/cli/run_options.h"
#include "userspace/cli/run_summary.h"
#include "userspace/cli/scope.h"
#include "userspace/common/cgroup.h"
#include "userspace/common/log.h"
#include "userspace/common/size.h"

/* Everything of one run, in the order in which it is made. */
struct run {
	struct run_options options;
	struct identity who;
	struct kernel *kernel; /* NULL: we are no root, and pincapd does it for us */
	struct place place;
	struct spawn_state state;
	char *preload;
	char *socket;
	struct run_loop loop;
	struct summary summary;
	bool budget_set; /* by us; not what the cgroup had before */
	bool budget_stays;
};

static int fail(int err, const char *what, const char *object)
{
	log_ret(err, "%s%s%s%s", what, object ? " '" : "", object ? object : "", object ? "'" : "");
	return err;
}

static int find_identity(struct run *run)
{
	const char *user = run->options.user;
	int err = user ? identity_from_user(user, &run->who) : identity_from_sudo(&run->who);

	if (err == -ENOENT)
		pr_err("--user '%s': there is no such user", user);
	else if (err)
		fail(err, user ? "--user" : "SUDO_UID and SUDO_GID of the environment", user);
	return err;
}

/* Entries with a budget that no run took back: they would lose it. */
static int on_budget(uint64_t cgid, const struct pincap_cgroup *cg, void *ctx)
{
	const struct run *run = ctx;

	if (!run->budget_stays && cgid == run->place.chain[0])
		return 0;
	return !(cg->flags & PINCAP_CGROUP_DEAD) &&
	       (cg->limit != PINCAP_UNLIMITED || cg->high != PINCAP_UNLIMITED);
}

static void let_go(struct run *run)
{
	if (!run->kernel)
		return;
	if (kernel_each_cgroup(run->kernel, on_budget, run) > 0)
		kernel_close(run->kernel);
	else
		kernel_release(run->kernel);
	run->kernel = NULL;
}

static int set_limit(struct run *run, uint64_t bytes)
{
	const struct pincap_set_budget b = { .limit = bytes, .mask = PINCAP_SET_LIMIT };

	return kernel_set_budget(run->kernel, run->place.chain, run->place.depth, &b);
}

/* The same by the daemon. `auto` takes what those above leave it. */
static int ask_limit(struct run *run)
{
	struct pincap_set_budget b = {
		.limit = run->options.limit_bytes,
		.mask = PINCAP_SET_LIMIT,
	};
	char want[SIZE_FORMAT_BYTES], most[SIZE_FORMAT_BYTES];
	uint64_t bound;
	int err = remote_set(run->place.chain[0], &b, &bound);

	if (err == -ERANGE && run->options.limit_auto) {
		run->options.limit_bytes = b.limit = bound;
		err = remote_set(run->place.chain[0], &b, &bound);
	}
	if (err == -ERANGE)
		pr_err("--limit %s: a cgroup further up has a limit of %s; no more than that",
		       size_format(b.limit, want), size_format(bound, most));
	return err;
}

static void say_auto(const struct run *run)
{
	const struct run_options *o = &run->options;
	char limit[SIZE_FORMAT_BYTES], ram[SIZE_FORMAT_BYTES], swap[SIZE_FORMAT_BYTES];

	if (o->limit_auto)
		pr_info("limit %s (auto: of %s RAM, %s swap)", size_format(o->limit_bytes, limit),
			size_format(o->memory.ram_bytes, ram),
			size_format(o->memory.swap_bytes, swap));
}

/* --limit, else what the cgroup has already, else auto. */
static int set_budget(struct run *run)
{
	const struct run_options *o = &run->options;
	const struct pincap_cgroup *before = &run->summary.before.own;
	char limit[SIZE_FORMAT_BYTES], was[SIZE_FORMAT_BYTES];
	int err;

	if (!o->limit_given && before->limit != PINCAP_UNLIMITED) {
		pr_info("limit %s (of %s, set before)", size_format(before->limit, limit),
			run->place.cgpath);
		return 0;
	}
	if (before->limit != PINCAP_UNLIMITED && before->limit != o->limit_bytes)
		pr_warn("%s had a budget of %s; it is %s now, for all that run there",
			run->place.cgpath, size_format(before->limit, was),
			size_format(o->limit_bytes, limit));
	err = run->kernel ? set_limit(run, o->limit_bytes) : ask_limit(run);
	if (err)
		return run->kernel ? fail(err, "set the budget of", run->place.cgpath) : err;
	run->budget_set = true;
	say_auto(run);
	return 0;
}

/* A user's own cgroup is often root's: then systemd gives him one. */
static int make_place(struct run *run)
{
	int err = place_open(&run->place, run->options.cgroup);

	if (run->kernel || run->options.cgroup || (err != -EACCES && err != -EPERM))
		return err;
	if (scope_enter()) {
		pr_err("run: our own cgroup is not ours to divide, and no systemd of the user "
		       "gives us one; log in with one, or have root delegate a cgroup");
		return -EALREADY;
	}
	return place_open(&run->place, NULL);
}

static int open_place(struct run *run)
{
	const char *cgroup = run->options.cgroup;
	int err = make_place(run);

	if (err == -EALREADY) /* has said why */
		return err;
	if (err == -EXDEV)
		pr_err("our own cgroup lies outside of this cgroup namespace; name one by "
		       "--cgroup");
	else if (err == -EISDIR)
		pr_err("--cgroup '%s': the root has everybody in it; name a cgroup of its own",
		       cgroup);
	else if (err == -E2BIG)
		pr_err("--cgroup '%s': deeper than %d levels", cgroup, PINCAP_MAX_DEPTH);
	else if (err)
		fail(err, cgroup ? "--cgroup" : "make a cgroup below our own", cgroup);
	if (err)
		return err;
	snapshot_take(&run->summary.before, run->kernel, &run->place);
	return set_budget(run);
}

/* The daemon tells the library what there is to be told. */
static int find_daemon(struct run *run)
{
	struct control_status status;
	int err = remote_status(&status);

	if (err)
		return remote_explain(err, NULL, "run");
	run->socket = strdup(status.notify_socket);
	return run->socket ? 0 : -ENOMEM;
}

/* Advice can be done without: admission holds the workload alone. */
static void open_notify(struct run *run)
{
	int err;

	if (!run->kernel)
		return;
	err = place_socket(&run->socket);

	if (!err)
		err = notify_new(&run->loop.notify, run->loop.event, run->socket,
				 run->place.cgpath);
	if (!err)
		err = notify_scope_new(&run->loop.scope, run->loop.notify, run->place.cgpath);
	if (!err)
		return;
	run->loop.notify = notify_free(run->loop.notify);
	fail(err, "listen in " PINCAP_RUNDIR ", the library will not be told, ignoring", NULL);
	free(run->socket);
	run->socket = NULL;
}

static int open_loop(struct run *run)
{
	sigset_t signals;
	int err;

	run->loop.kernel = run->kernel;
	run->loop.place = &run->place;
	run_loop_signals(&signals);
	err = spawn_prepare(&run->state, &signals);
	if (!err)
		err = MIN(sd_event_new(&run->loop.event), 0);
	if (err)
		return fail(err, "start an event loop", NULL);
	open_notify(run);
	run_loop_look(&run->loop); /* a limit of 0 is known before anybody asks */
	return 0;
}

/* Exit code, or 0 when the command runs. */
static int start(struct run *run)
{
	const struct spawn_in in = {
		.argv = run->options.command,
		.cgpath = run->place.cgpath,
		.preload = run->preload,
		.notify = run->socket,
		.who = &run->who,
		.state = &run->state,
	};
	int err = spawn_start(&in, &run->loop.child);

	if (!err)
		return 0;
	switch (run->loop.child.failed) {
	case SPAWN_EXEC:
		fail(err, "run", in.argv[0]);
		return spawn_exec_code(err);
	case SPAWN_USER:
		fail(err, "become user", run->who.name);
		return CLI_RUN_FAILURE;
	case SPAWN_CGROUP:
	case SPAWN_STARTED:
		break;
	}
	fail(err, "start a process in cgroup", in.cgpath);
	return CLI_RUN_FAILURE;
}

static void report(struct run *run)
{
	struct summary *s = &run->summary;

	if (run->kernel)
		kernel_sweep(run->kernel);
	snapshot_take(&s->after, run->kernel, &run->place);
	if (run->loop.notify)
		notify_get_stats(run->loop.notify, &s->notify);
	s->releases = run->loop.releases;
	s->command = basename(run->options.command[0]);
	s->place = &run->place;
	s->limit_bytes = run->budget_set ? run->options.limit_bytes : s->before.own.limit;
	summary_print(s);
}

/* What the cgroup had before, unless somebody changed it meanwhile. */
static void restore_budget(struct run *run)
{
	const struct pincap_cgroup *before = &run->summary.before.own;
	struct pincap_cgroup now;

	if (!run->budget_set || !run->kernel ||
	    kernel_get_cgroup(run->kernel, run->place.chain[0], &now) ||
	    now.limit != run->options.limit_bytes)
		return;
	set_limit(run, before->limit);
}

/* Take the cgroup away if it is ours, else our budget; neither while somebody
 * lives there. */
static void leave(struct run *run)
{
	if (!run->place.cgpath || place_leave(&run->place))
		return;
	if (run->place.made || place_is_populated(&run->place))
		run->budget_stays = true;
	else
		restore_budget(run);
}

/* Prepares, starts and sees it through. Exit code if it did not run. */
static int run_command(struct run *run)
{
	int code, err;

	if (find_identity(run))
		return CLI_RUN_FAILURE;
	if (cli_is_privileged()) {
		if (kernel_open(&run->kernel, false, &run->options.devices)) /* has said why */
			return CLI_RUN_FAILURE;
		leftovers_remove(run->kernel);
	} else if (find_daemon(run)) {
		return CLI_RUN_FAILURE;
	}
	if (open_place(run) || open_loop(run))
		return CLI_RUN_FAILURE;
	run->preload = run->options.no_preload ? NULL : run_options_library();
	code = start(run);
	if (code)
		return code;
	err = run_loop(&run->loop);
	if (err)
		fail(err, "event loop, the budget was not watched to the end, ignoring", NULL);
	run->summary.populated = place_is_populated(&run->place);
	report(run);
	return 0;
}

static void clean_up(struct run *run)
{
	notify_free(run->loop.notify);
	sd_event_source_unref(run->loop.child_source);
	sd_event_unref(run->loop.event);
	if (run->loop.child.pidfd > 0)
		close(run->loop.child.pidfd);
	leave(run);
	let_go(run);
	place_done(&run->place);
	identity_done(&run->who);
	free(run->preload);
	free(run->socket);
}

/* End as the command did, so that the caller sees what he would have seen; the
 * core dump was the command's. */
static int end_like(const siginfo_t *status)
{
	int sig = status->si_status;
	sigset_t set;

	if (status->si_code == CLD_EXITED)
		return sig;
	setrlimit(RLIMIT_CORE, &(struct rlimit){ 0 });
	prctl(PR_SET_DUMPABLE, 0); /* a core_pattern with a pipe heeds no limit */
	signal(sig, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, sig);
	fflush(NULL);
	kill(getpid(), sig);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	return 128 + sig;
}

int cmd_run(int argc, char **argv)
{
	struct run run = { .loop.child.pidfd = -1 };
	int code;

	run_options_parse(&run.options, argc, argv);
	if (run.options.quiet)
		log_set_level(LOG_LEVEL_WARNING);
	run.loop.verbose = run.options.verbose;
	code = run_command(&run);
	clean_up(&run);
	return run.loop.ended ? end_like(&run.loop.status) : code;
}
