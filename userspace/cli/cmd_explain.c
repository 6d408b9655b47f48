/* SPDX-License-Identifier: MIT */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>

#include "userspace/cli/adopt.h"
#include "userspace/cli/cli.h"
#include "userspace/cli/explain_process.h"
#include "userspace/common/cgroup.h"
#include "userspace/common/log.h"
#include "userspace/common/size.h"

static error_t parse_explain(int key, char *arg, struct argp_state *state)
{
	const char **what = state->input;

	switch (key) {
	case ARGP_KEY_ARG:
		if (*what)
			argp_failure(state, CLI_USAGE, 0, "too many arguments: '%s'", arg);
		*what = arg;
		return 0;
	case ARGP_KEY_END:
		if (!*what)
			argp_failure(state, CLI_USAGE, 0, "expected a PID or a CGROUP");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Which budgets bind, from the cgroup up, and how much room each has. */
static void print_budgets(struct kernel *k, const uint64_t *chain, unsigned int depth)
{
	char a[SIZE_FORMAT_BYTES], b[SIZE_FORMAT_BYTES];
	struct pincap_cgroup cg;
	bool any = false;

	for (unsigned int i = 0; i < depth; i++) {
		_cleanup_free_ char *path = NULL;

		if (kernel_get_cgroup(k, chain[i], &cg) || cg.limit == PINCAP_UNLIMITED)
			continue;
		any = true;
		if (cgroup_path_of_id(chain[i], &path))
			path = NULL;
		printf("budget of %s: %s of %s in use", path ? path : "a cgroup above",
		       size_format(cg.current, a), size_format(cg.limit, b));
		if ((uint64_t)cg.current > cg.limit)
			printf(", over by %s", size_format(cg.current - cg.limit, a));
		printf("; refused %" PRIu64 " requests, %" PRIu64 " by this limit\n",
		       (uint64_t)cg.refused, (uint64_t)cg.limit_hits);
	}
	if (!any)
		puts("no budget binds it");
}

static int print_place(struct kernel *k, const char *cgpath)
{
	uint64_t chain[PINCAP_MAX_DEPTH];
	unsigned int depth;
	int err = cgroup_chain(cgpath, chain, PINCAP_MAX_DEPTH, &depth);

	if (err)
		return log_ret(err, "cgroup '%s'", cgpath);
	printf("cgroup %s\n", cgpath);
	print_budgets(k, chain, depth);
	return 0;
}

struct members {
	const char *cgpath;
	struct pincap_process *list;
	size_t n;
};

static bool is_below(const char *path, const char *top)
{
	size_t n = streq(top, "/") ? 0 : strlen(top);

	return !strncmp(path, top, n) && (path[n] == '/' || path[n] == '\0');
}

static int on_process(const struct pincap_process *p, void *ctx)
{
	_cleanup_free_ char *path = NULL;
	struct members *m = ctx;
	struct pincap_process *grown;

	if (!(p->locked | p->pinned | p->gpu | p->held) || cgroup_path_of_id(p->cgroup_id, &path) ||
	    !is_below(path, m->cgpath))
		return 0;
	grown = reallocarray(m->list, m->n + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	m->list = grown;
	m->list[m->n++] = *p;
	return 0;
}

static uint64_t total(const struct pincap_process *p)
{
	return p->locked + p->pinned + p->gpu + p->held;
}

static int largest_first(const void *a, const void *b)
{
	uint64_t x = total(a), y = total(b);

	return (x < y) - (x > y);
}

static int explain_cgroup(struct kernel *k, const char *text)
{
	_cleanup_free_ char *cgpath = NULL;
	struct members m = { 0 };
	int err = cgroup_path_parse(text, &cgpath);

	if (err)
		return log_ret(err, "cgroup '%s'", text);
	err = print_place(k, cgpath);
	if (err)
		return err;
	m.cgpath = cgpath;
	err = kernel_each_process(k, on_process, &m);
	if (err)
		return log_ret(err, "read the processes");
	if (m.n)
		qsort(m.list, m.n, sizeof(*m.list), largest_first);
	else
		puts("no process in it holds anything");
	err = m.n ? explain_processes(k, m.list, m.n) : 0;
	free(m.list);
	return err;
}

static int explain_pid(struct kernel *k, pid_t pid)
{
	_cleanup_free_ char *cgpath = NULL;
	int err = cgroup_of_pid(pid, &cgpath);

	if (err)
		return log_ret(err, "process %d", (int)pid);
	err = print_place(k, cgpath);
	return err ? err : explain_process(k, pid);
}

static bool is_pid(const char *text)
{
	return text[strspn(text, "0123456789")] == '\0' && strlen(text) < 10;
}

int cmd_explain(int argc, char **argv)
{
	static const struct argp argp = {
		.parser = parse_explain,
		.args_doc = "PID|CGROUP",
		.doc = "Say who holds what, and which budgets bind: locked mappings by class "
		       "and size, what of them is resident, buffers and ranges in the GPU "
		       "driver's hands and with io_uring, what rounding may waste, what is "
		       "counted more than once, and the memory behind it.",
	};
	_cleanup_(kernel_closep) struct kernel *k = NULL;
	const char *what = NULL;
	int err;

	argp_parse(&argp, argc, argv, 0, NULL, &what);
	err = cli_adopt(&k);
	if (err)
		return err;
	err = kernel_sweep(k);
	if (err)
		log_ret(err, "sweep");
	else if (is_pid(what))
		err = explain_pid(k, (pid_t)atoi(what));
	else
		err = explain_cgroup(k, what);
	return err ? CLI_FAILURE : CLI_OK;
}
