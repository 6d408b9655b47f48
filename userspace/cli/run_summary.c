/* SPDX-License-Identifier: MIT */
#include <inttypes.h>

#include "userspace/cli/run_summary.h"
#include "userspace/common/log.h"
#include "userspace/common/size.h"
#include "userspace/control/control_client.h"

void snapshot_take(struct snapshot *ret, struct kernel *k, const struct place *place)
{
	struct pincap_cgroup cg;

	*ret = (struct snapshot){ 0 };
	ret->own.limit = PINCAP_UNLIMITED;
	ret->own.high = PINCAP_UNLIMITED;
	for (unsigned int i = 0; i < place->depth; i++) {
		if (k ? kernel_get_cgroup(k, place->chain[i], &cg)
		      : control_get_cgroup(place->chain[i], &cg))
			continue;
		ret->limit_hits[i] = cg.limit_hits;
		if (!i)
			ret->own = cg;
	}
}

static const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

static const char *amount(int64_t bytes, char *buf)
{
	return size_format(bytes > 0 ? (uint64_t)bytes : 0, buf);
}

static void print_peak(const struct summary *s)
{
	const struct pincap_cgroup *cg = &s->after.own;
	char limit[SIZE_FORMAT_BYTES], peak[SIZE_FORMAT_BYTES], locked[SIZE_FORMAT_BYTES],
		pinned[SIZE_FORMAT_BYTES], gpu[SIZE_FORMAT_BYTES], held[SIZE_FORMAT_BYTES];

	size_format(cg->limit, limit);
	amount(cg->peak, peak);
	if (!s->place->made) /* the peak is the cgroup's, and it is older than we are */
		pr_info("%s: budget %s, peak of %s so far %s", s->command, limit, s->place->cgpath,
			peak);
	else if (cg->peak <= 0)
		pr_info("%s: budget %s, peak %s", s->command, limit, peak);
	else
		pr_info("%s: budget %s, peak %s (locked %s, pinned %s, gpu %s, held %s)",
			s->command, limit, peak, amount(cg->peak_locked, locked),
			amount(cg->peak_pinned, pinned), amount(cg->peak_gpu, gpu),
			amount(cg->peak_held, held));
}

/* Whose limits decided: "/a" or "/a and /"; of an ancestor, a sibling may have
 * been refused meanwhile, so they are named only while refusals are left that
 * the cgroup's own limit does not explain. */
static char *name_deciders(const struct summary *s, uint64_t refused)
{
	uint64_t own = s->after.limit_hits[0] - s->before.limit_hits[0];
	char *names = NULL;

	for (unsigned int i = 0; i < s->place->depth; i++) {
		_cleanup_free_ char *path = NULL, *before = NULL;

		if (s->after.limit_hits[i] == s->before.limit_hits[i] || (i && own >= refused))
			continue;
		before = names;
		path = place_ancestor(s->place, i);
		if (!path || asprintf(&names, "%s%s%s", before ? before : "", before ? " and " : "",
				      path) < 0)
			names = NULL;
		if (!names)
			return NULL;
	}
	return names;
}

static void print_refused(const struct summary *s)
{
	uint64_t count = s->after.own.refused - s->before.own.refused;
	uint64_t bytes = s->after.own.refused_bytes - s->before.own.refused_bytes;
	_cleanup_free_ char *deciders = NULL;
	char text[SIZE_FORMAT_BYTES];

	if (!count)
		return;
	deciders = name_deciders(s, count);
	pr_info("refused %" PRIu64 " request%s (%s): budget of %s full; memory stayed pageable",
		count, plural(count), size_format(bytes, text),
		deciders ? deciders : "a cgroup below");
}

/* Pins that nobody asked about: no library in the process, calls that it does not
 * see, or the runtime's own. They are counted, and cannot be refused. */
static void print_over(const struct summary *s)
{
	const struct pincap_cgroup *cg = &s->after.own;
	char text[SIZE_FORMAT_BYTES];

	if (!s->place->made || cg->limit != s->limit_bytes || cg->limit == PINCAP_UNLIMITED ||
	    cg->peak <= 0 || (uint64_t)cg->peak <= cg->limit)
		return;
	pr_info("over by %s at the peak: pins that nobody asks about, such as the runtime's own, "
		"or small ones, which pass",
		size_format((uint64_t)cg->peak - cg->limit, text));
}

static void print_signals(const struct summary *s)
{
	const struct notify_stats *n = &s->notify;
	char text[SIZE_FORMAT_BYTES], withheld[128] = "";

	if (!n->told)
		return; /* the library was never in need of being told */
	if (n->withheld_count)
		snprintf(withheld, sizeof(withheld), "; %" PRIu64 " request%s withheld (%s)",
			 n->withheld_count, plural(n->withheld_count),
			 size_format(n->withheld_bytes, text));
	pr_info("%u STOP, %u RESUME, acknowledged by %u of %u%s", n->stops, n->resumes, n->obeyed,
		n->told, withheld);
}

/* What the libraries say they gave is not told: usage tells. */
static void print_releases(const struct summary *s)
{
	const struct notify_stats *n = &s->notify;

	if (!n->asked)
		return;
	pr_info("%u RELEASE, heard by %u of %u", s->releases, n->heard, n->asked);
}

void summary_print(const struct summary *s)
{
	char over[SIZE_FORMAT_BYTES];
	int64_t current = s->after.own.current;

	print_peak(s);
	print_refused(s);
	print_over(s);
	print_signals(s);
	print_releases(s);
	if (s->populated)
		pr_info("processes remain in %s (%s in use); the cgroup and its budget stay",
			s->place->cgpath, amount(current, over));
}
