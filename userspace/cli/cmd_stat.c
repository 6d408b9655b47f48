/* SPDX-License-Identifier: MIT */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>

#include "userspace/cli/adopt.h"
#include "userspace/cli/attribution.h"
#include "userspace/cli/cli.h"
#include "userspace/common/cgroup.h"
#include "userspace/common/hostpins.h"
#include "userspace/common/log.h"
#include "userspace/common/shmlock.h"
#include "userspace/common/size.h"
#include "userspace/control/kernel.h"
#include "userspace/control/losses.h"

#define STAT_VERSION 1 /* of the JSON; keys are only ever added */

struct row {
	uint64_t cgid;
	char *cgpath;
	struct pincap_cgroup cg;
};

struct stat_args {
	bool json, tree, kernel;
	char **paths;
	size_t n_paths;
	struct row *rows;
	size_t n_rows;
	uint64_t pinned_bytes;	     /* over all processes */
	uint64_t unattributed_bytes; /* what the machine has pinned beyond that */
	uint64_t shm_locked_bytes;   /* by SHM_LOCK, in no cgroup's count */
	struct attribution attribution;
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
		a->tree = true;
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
	struct row *rows = reallocarray(a->rows, a->n_rows + 1, sizeof(*rows));

	if (!rows || !cgpath) {
		free(cgpath);
		a->rows = rows ? rows : a->rows;
		return -ENOMEM;
	}
	rows[a->n_rows++] = (struct row){ .cgid = cgid, .cgpath = cgpath, .cg = *cg };
	a->rows = rows;
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

/* A cgroup that was asked for and never pinned anything reads 0. */
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
	if (kernel_get_cgroup(k, chain[0], &cg)) {
		cg.level = depth - 1;
		cg.parent = depth > 1 ? chain[1] : 0;
	}
	return add_row(a, chain[0], TAKE_PTR(cgpath), &cg);
}

static int on_process(const struct pincap_process *p, void *ctx)
{
	struct stat_args *a = ctx;

	a->pinned_bytes += p->pinned;
	attribution_add(&a->attribution, p);
	return 0;
}

/* Pins that no process shows: a ring or a queue whose descriptor outlived its
 * owner, or a driver that keeps its own books. */
static void find_unattributed(struct stat_args *a, struct kernel *k)
{
	uint64_t host;

	if (kernel_each_process(k, on_process, a) || hostpins_read(&host))
		return;
	a->unattributed_bytes = host > a->pinned_bytes ? host - a->pinned_bytes : 0;
}

static uint64_t sum_shm_locked(void)
{
	_cleanup_free_ struct shmlock_segment *list = NULL;
	int n = shmlock_read(&list);

	return n > 0 ? shmlock_sum(list, n) : 0;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct row *)a)->cgpath, ((const struct row *)b)->cgpath);
}

static const char *state_of(const struct pincap_cgroup *cg)
{
	if (cg->flags & PINCAP_CGROUP_DEAD)
		return "removed";
	if (cg->limit == PINCAP_UNLIMITED)
		return "no budget";
	if ((uint64_t)cg->current > cg->limit)
		return "over";
	return (uint64_t)cg->current == cg->limit ? "full" : "open";
}

static json_t *limit_json(uint64_t limit)
{
	return limit == PINCAP_UNLIMITED ? json_null() : json_integer((json_int_t)limit);
}

static json_t *row_json(const struct row *r)
{
	const struct pincap_cgroup *cg = &r->cg;

	return json_pack("{s:s, s:I, s:I, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, "
			 "s:o, s:o, s:I, s:I, s:I, s:I, s:s}",
			 "cgroup", r->cgpath, "id", (json_int_t)r->cgid, "parent",
			 (json_int_t)cg->parent, "level", (int)cg->level, "current",
			 (json_int_t)cg->current, "locked", (json_int_t)cg->locked, "pinned",
			 (json_int_t)cg->pinned, "gpu", (json_int_t)cg->gpu, "held",
			 (json_int_t)cg->held, "peak", (json_int_t)cg->peak, "peak_locked",
			 (json_int_t)cg->peak_locked, "peak_pinned", (json_int_t)cg->peak_pinned,
			 "peak_gpu", (json_int_t)cg->peak_gpu, "peak_held",
			 (json_int_t)cg->peak_held, "limit", limit_json(cg->limit), "high",
			 limit_json(cg->high), "charges", (json_int_t)cg->charges, "refused",
			 (json_int_t)cg->refused, "refused_bytes", (json_int_t)cg->refused_bytes,
			 "limit_hits", (json_int_t)cg->limit_hits, "state", state_of(cg));
}

static json_t *stats_json(const struct pincap_stats *st)
{
	json_t *o = json_object();

#define ADD(name) json_object_set_new(o, #name, json_integer((json_int_t)st->name));
	PINCAP_STATS(ADD)
#undef ADD
	return o;
}

/* Names of the counters that say that something is missing. */
static json_t *losses_json(const struct pincap_stats *st)
{
	struct loss lost[LOSSES_MAX];
	json_t *list = json_array();
	size_t n = losses_find(st, lost);

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_string(lost[i].name));
	return list;
}

static void warn_losses(const struct pincap_stats *st)
{
	struct loss lost[LOSSES_MAX];
	size_t n = losses_find(st, lost);

	for (size_t i = 0; i < n; i++)
		pr_warn("INCOMPLETE: %s %" PRIu64 " time%s since the load; %s", lost[i].name,
			lost[i].times, lost[i].times == 1 ? "" : "s", lost[i].remedy);
}

static int print_json(const struct stat_args *a, const struct pincap_stats *st)
{
	json_t *list = json_array(), *root;
	int err = 0;

	for (size_t i = 0; i < a->n_rows; i++)
		err |= json_array_append_new(list, row_json(&a->rows[i]));
	root = json_pack("{s:i, s:s, s:s, s:o, s:I, s:I, s:b, s:o, s:o}", "version", STAT_VERSION,
			 "trigger", kernel_trigger(), "gpu_trigger", kernel_gpu_trigger(),
			 "cgroups", list, "unattributed", (json_int_t)a->unattributed_bytes,
			 "shm_locked", (json_int_t)a->shm_locked_bytes, "cannot_attribute",
			 attribution_fails(&a->attribution), "kernel", stats_json(st), "incomplete",
			 losses_json(st));
	if (!root || err || json_dumpf(root, stdout, JSON_INDENT(2)))
		err = log_ret(-ENOMEM, "write JSON");
	else
		putchar('\n');
	json_decref(root);
	return err;
}

/* Names of cgroups are tenants' words: nothing in them may drive the terminal. */
static void print_safe(const char *s)
{
	for (; *s; s++)
		printf((unsigned char)*s < 0x20 || *s == 0x7f ? "\\x%02x" : "%c",
		       (unsigned char)*s);
}

static void print_name(const struct stat_args *a, const struct row *r)
{
	const char *slash = strrchr(r->cgpath, '/');

	if (!a->tree) {
		print_safe(r->cgpath);
		return;
	}
	printf("%*s", (int)r->cg.level * 2, "");
	print_safe(slash && slash[1] ? slash + 1 : r->cgpath);
}

static void print_table(const struct stat_args *a)
{
	char b[7][SIZE_FORMAT_BYTES];

	if (attribution_fails(&a->attribution))
		puts(ATTRIBUTION_FAILS);
	if (a->unattributed_bytes)
		printf("unattributed: %s pinned by no process that shows it\n",
		       size_format(a->unattributed_bytes, b[0]));
	if (a->shm_locked_bytes)
		printf("shm locked: %s by SHM_LOCK, which the kernel charges to a user and to no "
		       "cgroup\n",
		       size_format(a->shm_locked_bytes, b[0]));
	printf("%10s %10s %10s %10s %10s %10s %10s %8s  %-9s  %s\n", "CURRENT", "LOCKED", "PINNED",
	       "GPU", "HELD", "LIMIT", "PEAK", "REFUSED", "STATE", "CGROUP");
	for (size_t i = 0; i < a->n_rows; i++) {
		const struct pincap_cgroup *cg = &a->rows[i].cg;

		printf("%10s %10s %10s %10s %10s %10s %10s %8" PRIu64 "  %-9s  ",
		       size_format(cg->current, b[0]), size_format(cg->locked, b[1]),
		       size_format(cg->pinned, b[2]), size_format(cg->gpu, b[3]),
		       size_format(cg->held, b[4]), size_format(cg->limit, b[5]),
		       size_format(cg->peak, b[6]), (uint64_t)cg->refused, state_of(cg));
		print_name(a, &a->rows[i]);
		putchar('\n');
	}
}

static void print_stats(const struct pincap_stats *st)
{
#define PRINT(name) printf("%-16s %" PRIu64 "\n", #name, (uint64_t)st->name);
	PINCAP_STATS(PRINT)
#undef PRINT
}

static int collect(struct stat_args *a, struct kernel *k)
{
	int err = 0;

	if (!a->n_paths)
		err = kernel_each_cgroup(k, on_cgroup, a);
	for (size_t i = 0; i < a->n_paths && !err; i++)
		err = add_path(a, k, a->paths[i]);
	if (a->n_rows)
		qsort(a->rows, a->n_rows, sizeof(a->rows[0]), by_path);
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
	a->shm_locked_bytes = sum_shm_locked();
	warn_losses(&st);
	if (a->json)
		return print_json(a, &st);
	if (a->kernel)
		print_stats(&st);
	else
		print_table(a);
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
		       "figures are the kernel's of this moment.",
	};
	_cleanup_(kernel_closep) struct kernel *k = NULL;
	struct stat_args args = { 0 };
	int err;

	argp_parse(&argp, argc, argv, 0, NULL, &args);
	err = cli_adopt(&k);
	if (!err)
		err = show(&args, k) ? 1 : 0;
	for (size_t i = 0; i < args.n_rows; i++)
		free(args.rows[i].cgpath);
	free(args.rows);
	return err;
}
