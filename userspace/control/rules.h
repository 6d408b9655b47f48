/* SPDX-License-Identifier: MIT */
/*
 * The rules of a configuration: which one a cgroup falls under, and what its
 * sizes come to there. Pure: no files, no clock, no cgroups; paths and figures
 * in, a rule and bytes out.
 *
 * The last rule that matches a path applies, as a whole: a key that it does not
 * give has its default and not what an earlier rule says. So a file goes from the
 * general to the particular, and what is read later (drop-ins) overrides.
 */
#ifndef PINCAP_RULES_H
#define PINCAP_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "userspace/control/glob.h"

/* ---- sizes whose whole is not known yet ---- */

enum rule_size_kind {
	RULE_SIZE_BYTES,   /* SIZE_UNLIMITED for "infinity" */
	RULE_SIZE_PERCENT, /* of rule_base.ram_bytes */
	RULE_SIZE_AUTO,	   /* hostmem_auto_limit of rule_base */
};

#define RULE_PERCENT_BYTES 24 /* "99.9999999999999999%" and NUL, and some zeroes */

struct rule_size {
	enum rule_size_kind kind;
	uint64_t bytes;			  /* RULE_SIZE_BYTES */
	char percent[RULE_PERCENT_BYTES]; /* RULE_SIZE_PERCENT: as written, for size_parse */
};

/* What percentages and `auto` are of. */
struct rule_base {
	uint64_t ram_bytes;  /* the smaller of RAM and the tightest memory.max above; 0: unknown */
	uint64_t swap_bytes; /* 0 where a memory.max binds */
};

/* What size_parse reads, and "auto". Errors as there. */
int rule_size_parse(const char *text, struct rule_size *ret);

/* -ENODATA: it is relative and the base is unknown (an unknown whole is not 0:
 * 0 would refuse everything). */
int rule_size_resolve(const struct rule_size *s, const struct rule_base *base, uint64_t *ret_bytes);

/* Whether a < b on every machine; false too where that depends on the machine. */
bool rule_size_is_less(const struct rule_size *a, const struct rule_size *b);

/* As size_parse would read it back: "8589934592", "40%", "auto", "infinity". */
const char *rule_size_format(const struct rule_size *s, char buf[static RULE_PERCENT_BYTES]);

/* ---- rules ---- */

enum rule_mode {
	RULE_ENFORCE, /* beyond the limit the kernel refuses */
	RULE_OBSERVE, /* counts and reports what it would refuse, refuses nothing */
};

/* What a call that allocates pinned memory is told when refused. */
enum rule_alloc {
	RULE_ALLOC_REFUSE,   /* out of memory, in the API's own words */
	RULE_ALLOC_PAGEABLE, /* ordinary memory instead */
	RULE_ALLOC_PASS,     /* nothing: let through, counted, as over */
};

/* Who is asked for memory back above `high` or a lowered limit. */
enum rule_release {
	RULE_RELEASE_COOPERATIVE, /* programs that use pincap.h and offer it */
	RULE_RELEASE_TRANSPARENT, /* and the library itself, from registrations that allow it */
	RULE_RELEASE_NONE,	  /* nobody */
};

enum rule_rung_kind {
	RULE_RUNG_LOG,	  /* a line in the log */
	RULE_RUNG_EVENT,  /* an event for whoever listens */
	RULE_RUNG_SIGNAL, /* `signal` to every process of the cgroup that catches it */
	RULE_RUNG_FREEZE, /* cgroup.freeze */
	RULE_RUNG_KILL,	  /* cgroup.kill */
};

/* One step of what happens while a cgroup is over its limit. */
struct rule_rung {
	enum rule_rung_kind kind;
	int signal;	   /* RULE_RUNG_SIGNAL, else 0 */
	uint32_t after_ms; /* over without a break for so long; log and event: 0 */
};

#define RULE_RUNGS_MAX 16

struct rule {
	char *match;	     /* canonical: a glob, "user:1000" or "group:100" */
	struct glob **globs; /* any of them */
	size_t glob_count;   /* 0: matches nothing (a group without members) */
	struct rule_size limit;
	struct rule_size high; /* infinity: nothing is asked back */
	struct rule_size min;  /* protected from host pressure up to here */
	enum rule_mode mode;
	enum rule_alloc alloc;
	enum rule_release release;
	struct rule_rung on_over[RULE_RUNGS_MAX]; /* in rising order of after_ms */
	size_t on_over_count;
	char *source; /* "FILE:LINE", for people */
};

struct rules {
	struct rule *list;
	size_t count;
};

/* Frees what it owns, not the rule itself. */
void rule_done(struct rule *rule);
void rules_done(struct rules *rules);

/* A rule with every default and no match. */
extern const struct rule rule_default;

/* The rule that applies to a path, or NULL. */
const struct rule *rules_find(const struct rules *rules, const char *cgpath);

struct rule_sizes {
	uint64_t limit_bytes; /* SIZE_UNLIMITED: none */
	uint64_t high_bytes;  /* the same */
	uint64_t min_bytes;
};

/*
 * The rule's sizes in a cgroup with this base. Where a mixture of bytes and
 * percentages comes out in the wrong order on this machine, the limit wins: min
 * and high are lowered to it, and min to high. -ENODATA: see rule_size_resolve.
 */
int rule_resolve(const struct rule *rule, const struct rule_base *base, struct rule_sizes *ret);

#endif
