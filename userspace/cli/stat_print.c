/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>

#include "userspace/cli/stat_print.h"
#include "userspace/common/log.h"
#include "userspace/common/size.h"
#include "userspace/control/losses.h"

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

static json_t *row_json(const struct stat_row *r)
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

/* What only the kernel side itself tells. */
static int add_kernel(json_t *root, const struct stat_view *v, const struct pincap_stats *st)
{
	json_t *rest = json_pack("{s:s, s:s, s:I, s:I, s:b, s:o, s:o}", "trigger", kernel_trigger(),
				 "gpu_trigger", kernel_gpu_trigger(), "unattributed",
				 (json_int_t)v->unattributed_bytes, "shm_locked",
				 (json_int_t)v->shm_locked_bytes, "cannot_attribute",
				 attribution_fails(&v->attribution), "kernel", stats_json(st),
				 "incomplete", losses_json(st));

	return rest ? json_object_update_new(root, rest) : -1;
}

int stat_print_json(const struct stat_view *v, const struct pincap_stats *st)
{
	json_t *list = json_array(), *root;
	int err = 0;

	for (size_t i = 0; i < v->n_rows; i++)
		err |= json_array_append_new(list, row_json(&v->rows[i]));
	root = json_pack("{s:i, s:o}", "version", STAT_VERSION, "cgroups", list);
	if (root && st)
		err |= add_kernel(root, v, st);
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

static void print_name(const struct stat_view *v, const struct stat_row *r)
{
	const char *slash = strrchr(r->cgpath, '/');

	if (!v->tree) {
		print_safe(r->cgpath);
		return;
	}
	printf("%*s", (int)r->cg.level * 2, "");
	print_safe(slash && slash[1] ? slash + 1 : r->cgpath);
}

void stat_print_table(const struct stat_view *v)
{
	char b[7][SIZE_FORMAT_BYTES];

	if (attribution_fails(&v->attribution))
		puts(ATTRIBUTION_FAILS);
	if (v->unattributed_bytes)
		printf("unattributed: %s pinned by no process that shows it\n",
		       size_format(v->unattributed_bytes, b[0]));
	if (v->shm_locked_bytes)
		printf("shm locked: %s by SHM_LOCK, which the kernel charges to a user and to no "
		       "cgroup\n",
		       size_format(v->shm_locked_bytes, b[0]));
	printf("%10s %10s %10s %10s %10s %10s %10s %8s  %-9s  %s\n", "CURRENT", "LOCKED", "PINNED",
	       "GPU", "HELD", "LIMIT", "PEAK", "REFUSED", "STATE", "CGROUP");
	for (size_t i = 0; i < v->n_rows; i++) {
		const struct pincap_cgroup *cg = &v->rows[i].cg;

		printf("%10s %10s %10s %10s %10s %10s %10s %8" PRIu64 "  %-9s  ",
		       size_format(cg->current, b[0]), size_format(cg->locked, b[1]),
		       size_format(cg->pinned, b[2]), size_format(cg->gpu, b[3]),
		       size_format(cg->held, b[4]), size_format(cg->limit, b[5]),
		       size_format(cg->peak, b[6]), (uint64_t)cg->refused, state_of(cg));
		print_name(v, &v->rows[i]);
		putchar('\n');
	}
}
