/* SPDX-License-Identifier: MIT */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>

#include "userspace/cli/adopt.h"
#include "userspace/cli/cli.h"
#include "userspace/cli/remote.h"
#include "userspace/cli/stat_print.h"
#include "userspace/common/cgroup.h"
#include "userspace/common/hostpins.h"
#include "userspace/common/log.h"
#include "userspace/common/shmlock.h"
#include "userspace/common/size.h"
#include "userspace/control/kernel.h"
#include "userspace/control/losses.h"

struct stat_args {
	bool json, kernel;
	char **paths;
	size_t n_paths;
	struct stat_view view;
};

static const struct argp_option stat_options[] = {
	{ "json", 'j', NULL, 0, "Print one JSON object; amounts are bytes", 0 },
	{ "tree", 't', NULL, 0, "Indent by depth", 0 },
	{ "kernel", 'K', NULL, 0, "Show what the kernel side lost or left early, by name", 0 },
	{ 0 },
};

static error_t parse_stat(int key, char *arg, struct argp_state *state)
{
	struct stat_args *a = state->input;

	(void)arg;
	switch (key) {
	case 'j':
		a->json = true;
		return 0;
	case 't':
		a->view.tree = true;
		return 0;
	case 'K':
		a->kernel = true;
		return 0;
	case ARGP_KEY_ARGS:
		a->paths = state->argv + state->next;
		a->n_paths = state->argc - state->next;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Takes cgpath over, also on failure. */
static int add_row(struct stat_args *a, uint64_t cgid, char *cgpath, const struct pincap_cgroup *cg)
{
	struct stat_row *rows = reallocarray(a->view.rows, a->view.n_rows + 1, sizeof(*rows));

	if (!rows || !cgpath) {
		free(cgpath);
		a->view.rows = rows ? rows : a->view.rows;
		return -ENOMEM;
	}
	rows[a->view.n_rows++] = (struct stat_row){ .cgid = cgid, .cgpath = cgpath, .cg = *cg };
	a->view.rows = rows;
	return 0;
}

static int on_cgroup(uint64_t cgid, const struct pincap_cgroup *cg, void *ctx)
{
	char *cgpath = NULL;
	int err = cgroup_path_of_id(cgid, &cgpath);
	bool gone = err == -ESTALE || err == -ENOENT;
	const char *why = gone ? "removed" : err == -EXDEV ? "outside" : "id";

	/* Removed with charges left; above what is mounted here, as in a cgroup namespace;
	 * or not ours to see (CAP_DAC_READ_SEARCH). */
	if (err && asprintf(&cgpath, "(%s %" PRIu64 ")", why, cgid) < 0)
		return -ENOMEM;
	return add_row(ctx, cgid, cgpath, cg);
}

static int get_cgroup(struct kernel *k, uint64_t cgid, struct pincap_cgroup *ret)
{
	int err = k ? kernel_get_cgroup(k, cgid, ret) : control_get_cgroup(cgid, ret);

	return err == -ENOENT && k ? -ENODATA : err;
}

/* A cgroup that was asked for and never pinned anything reads 0. `k` NULL: by the
 * daemon. */
static int add_path(struct stat_args *a, struct kernel *k, const char *text)
{
	struct pincap_cgroup cg = { .limit = PINCAP_UNLIMITED, .high = PINCAP_UNLIMITED };
	_cleanup_free_ char *cgpath = NULL;
	uint64_t chain[PINCAP_MAX_DEPTH];
	unsigned int depth;
	int err = cgroup_path_parse(text, &cgpath);

	if (!err)
		err = cgroup_chain(cgpath, chain, PINCAP_MAX_DEPTH, &depth);
	if (err)
		return log_ret(err, "cgroup '%s'", text);
	err = get_cgroup(k, chain[0], &cg);
	if (err == -EPERM)
		return log_ret(err, "cgroup '%s' is neither yours nor above yours", text);
	if (err && err != -ENODATA)
		return k ? log_ret(err, "read '%s'", text) : remote_explain(err, NULL, "stat");
	if (err) {
		cg.level = depth - 1;
		cg.parent = depth > 1 ? chain[1] : 0;
	}
	return add_row(a, chain[0], TAKE_PTR(cgpath), &cg);
}

static int on_process(const struct pincap_process *p, void *ctx)
{
	struct stat_args *a = ctx;

	a->view.pinned_bytes += p->pinned;
	attribution_add(&a->view.attribution, p);
	return 0;
}

/* Pins that no process shows: a ring or a queue whose descriptor outlived its
 * owner, or a driver that keeps its own books. */
static void find_unattributed(struct stat_args *a, struct kernel *k)
{
	uint64_t host;

	if (kernel_each_process(k, on_process, a) || hostpins_read(&host))
		return;
	a->view.unattributed_bytes = host > a->view.pinned_bytes ? host - a->view.pinned_bytes : 0;
}

static uint64_t sum_shm_locked(void)
{
	_cleanup_free_ struct shmlock_segment *list = NULL;
	int n = shmlock_read(&list);

	return n > 0 ? shmlock_sum(list, n) : 0;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct stat_row *)a)->cgpath, ((const struct stat_row *)b)->cgpath);
}

static void warn_losses(const struct pincap_stats *st)
{
	struct loss lost[LOSSES_MAX];
	size_t n = losses_find(st, lost);

	for (size_t i = 0; i < n; i++)
		pr_warn("INCOMPLETE: %s %" PRIu64 " time%s since the load; %s", lost[i].name,
			lost[i].times, lost[i].times == 1 ? "" : "s", lost[i].remedy);
}

static void print_stats(const struct pincap_stats *st)
{
#define PRINT(name) printf("%-16s %" PRIu64 "\n", #name, (uint64_t)st->name);
	PINCAP_STATS(PRINT)
#undef PRINT
}

static int on_remote_row(uint64_t cgid, const char *cgpath, const struct pincap_cgroup *cg,
			 void *ctx)
{
	return add_row(ctx, cgid, strdup(cgpath), cg);
}

static int each_by_daemon(struct stat_args *a)
{
	int err = control_each_cgroup(on_remote_row, a);

	return err ? remote_explain(err, NULL, "stat") : 0;
}

static int collect(struct stat_args *a, struct kernel *k)
{
	int err = 0;

	if (!a->n_paths)
		err = k ? kernel_each_cgroup(k, on_cgroup, a) : each_by_daemon(a);
	for (size_t i = 0; i < a->n_paths && !err; i++)
		err = add_path(a, k, a->paths[i]);
	if (a->view.n_rows)
		qsort(a->view.rows, a->view.n_rows, sizeof(a->view.rows[0]), by_path);
	return err;
}

static int show(struct stat_args *a, struct kernel *k)
{
	struct pincap_stats st;
	int err = kernel_sweep(k);

	if (!err)
		err = kernel_get_stats(k, &st);
	if (err)
		return log_ret(err, "read the counters");
	err = collect(a, k);
	if (err)
		return err;
	find_unattributed(a, k);
	a->view.shm_locked_bytes = sum_shm_locked();
	warn_losses(&st);
	if (a->json)
		return stat_print_json(&a->view, &st);
	if (a->kernel)
		print_stats(&st);
	else
		stat_print_table(&a->view);
	return 0;
}

/* What concerns a user's own cgroups: the sweeps are the daemon's. */
static int show_by_daemon(struct stat_args *a)
{
	int err;

	if (a->kernel) {
		pr_err("stat --kernel: needs root");
		return -EPERM;
	}
	err = collect(a, NULL);
	if (err)
		return err;
	if (a->json)
		return stat_print_json(&a->view, NULL);
	stat_print_table(&a->view);
	return 0;
}

int cmd_stat(int argc, char **argv)
{
	static const struct argp argp = {
		.options = stat_options,
		.parser = parse_stat,
		.args_doc = "[CGROUP...]",
		.doc = "Show per cgroup, children included, what is locked, pinned, in the GPU "
		       "driver's hands, and held; with its budget. Sweeps first, so that the "
		       "figures are the kernel's of this moment. Users see, through pincapd, their "
		       "own cgroups and those above them.",
	};
	_cleanup_(kernel_closep) struct kernel *k = NULL;
	struct stat_args args = { 0 };
	int err;

	argp_parse(&argp, argc, argv, 0, NULL, &args);
	err = cli_is_privileged() ? cli_adopt(&k) : CLI_OK;
	if (!err)
		err = (k ? show(&args, k) : show_by_daemon(&args)) ? CLI_FAILURE : CLI_OK;
	for (size_t i = 0; i < args.view.n_rows; i++)
		free(args.view.rows[i].cgpath);
	free(args.view.rows);
	return err;
}
