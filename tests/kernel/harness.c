/* SPDX-License-Identifier: MIT */
/* See harness.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>
#include <jansson.h>

#include "tests/kernel/harness.h"
#include "tests/kernel/sampler.h"

#define PIN_MAPS  "/sys/fs/bpf/pincap/maps"
#define SETTLE_MS 2000
#define HUGE_SUM  (1LL << 46)

static bool owner;
static int64_t seen_min, seen_max;

static const char *env_or(const char *name, const char *other)
{
	const char *value = getenv(name);

	return value && *value ? value : other;
}

uint64_t harness_number(const char *name, uint64_t other)
{
	const char *value = getenv(name);

	return value && *value ? strtoull(value, NULL, 0) : other;
}

static int run(const char *fmt, ...)
{
	char args[1024], line[2048];
	va_list ap;
	int status;

	va_start(ap, fmt);
	vsnprintf(args, sizeof(args), fmt, ap);
	va_end(ap);
	snprintf(line, sizeof(line), "exec %s %s", env_or("PINCAP", "build/pincap"), args);
	status = system(line);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void harness_init(int argc, char **argv)
{
	if (geteuid()) {
		puts("needs root");
		exit(77);
	}
	if (!scratch_mount()) {
		puts("no cgroup v2 is mounted");
		exit(77);
	}
	scratch_sweep();
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
}

bool harness_is_owner(void)
{
	return owner;
}

void harness_load(void)
{
	if (run("load"))
		fail_msg("pincap load failed");
}

void harness_unload(void)
{
	maps_forget();
	if (run("unload"))
		fail_msg("pincap unload failed");
}

int harness_setup(void **state)
{
	(void)state;
	owner = access(PIN_MAPS, F_OK) != 0;
	if (owner && run("load"))
		return -1;
	return 0;
}

int harness_teardown(void **state)
{
	(void)state;
	maps_forget();
	return owner && !access(PIN_MAPS, F_OK) ? run("unload") : 0;
}

int test_teardown(void **state)
{
	int64_t lowest = seen_min, highest = seen_max;

	(void)state;
	seen_min = seen_max = 0;
	sampler_stop();
	if (scratch_done())
		return -1;
	if (lowest >= 0 && highest <= HUGE_SUM)
		return 0;
	print_error("counters were read from %" PRId64 " to %" PRId64 "\n", lowest, highest);
	return -1;
}

void usage_note(const struct usage *u)
{
	const int64_t all[] = { u->current, u->locked, u->pinned, u->gpu, u->held };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		seen_min = all[i] < seen_min ? all[i] : seen_min;
		seen_max = all[i] > seen_max ? all[i] : seen_max;
	}
}

static json_t *json_of(const char *line)
{
	FILE *f = popen(line, "re");
	json_error_t error;
	json_t *root;
	int status;

	if (!f)
		fail_msg("run '%s'", line);
	/* jansson has no unsigned numbers: "no budget" would not fit. Doubles are exact to
	 * 2^53. */
	root = json_loadf(f, JSON_DECODE_INT_AS_REAL, &error);
	status = pclose(f);
	if (!root || status)
		fail_msg("'%s' ended with %d: %s", line, status, root ? "JSON" : error.text);
	return root;
}

static int64_t field(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);

	if (!json_is_real(value))
		fail_msg("no number '%s' in the answer", name);
	return (int64_t)json_real_value(value);
}

static struct usage usage_of(const json_t *object)
{
	struct usage u = {
		.current = field(object, "current"),
		.locked = field(object, "locked"),
		.pinned = field(object, "pinned"),
		.gpu = field(object, "gpu"),
		.held = field(object, "held"),
	};

	usage_note(&u);
	return u;
}

int64_t stat_number(const char *name)
{
	char line[512];
	int64_t number;
	json_t *root;

	snprintf(line, sizeof(line), "%s stat --json", env_or("PINCAP", "build/pincap"));
	root = json_of(line);
	number = field(root, name);
	json_decref(root);
	return number;
}

struct usage usage_by_stat(const struct cg *cg)
{
	char line[1200];
	struct usage u;
	json_t *root, *list;

	snprintf(line, sizeof(line), "%s stat --json '%s'", env_or("PINCAP", "build/pincap"),
		 cg->dir);
	root = json_of(line);
	list = json_object_get(root, "cgroups");
	assert_int_equal(json_array_size(list), 1);
	assert_int_equal(field(json_array_get(list, 0), "id"), cg->id);
	u = usage_of(json_array_get(list, 0));
	json_decref(root);
	return u;
}

struct usage usage_by_bpftool(const struct cg *cg)
{
	struct usage u = { 0 };
	json_t *root, *entry;
	char line[512];
	size_t i;

	snprintf(line, sizeof(line), "%s -j map dump pinned " PIN_MAPS "/cgroups",
		 env_or("BPFTOOL", "bpftool"));
	root = json_of(line);
	json_array_foreach(root, i, entry)
	{
		const json_t *shown = json_object_get(entry, "formatted");

		if (field(shown, "key") == (int64_t)cg->id)
			u = usage_of(json_object_get(shown, "value"));
	}
	json_decref(root);
	return u;
}

static bool usage_is(const struct usage *u, int64_t locked, int64_t pinned, int64_t held)
{
	return u->locked == locked && u->pinned == pinned && u->held == held && !u->gpu &&
	       u->current == locked + pinned + held;
}

void harness_assert_usage(const struct cg *cg, int64_t locked, int64_t pinned, int64_t held,
			  const char *file, int line)
{
	struct deadline d = deadline_in(SETTLE_MS);
	struct usage bt, st = { 0 }, proc;
	bool equal;

	do {
		bt = usage_by_bpftool(cg);
		proc = usage_by_proc(cg);
		equal = usage_is(&bt, locked, pinned, held) && usage_is(&proc, locked, pinned, 0);
	} while (!equal && deadline_open(&d));
	do {
		st = usage_by_stat(cg);
	} while (equal && !usage_is(&st, locked, pinned, held) && deadline_open(&d));
	if (equal && usage_is(&st, locked, pinned, held))
		return;
#define SHOW(name, u)                                                                          \
	print_error("%-9s locked %" PRId64 " pinned %" PRId64 " gpu %" PRId64 " held %" PRId64 \
		    " current %" PRId64 "\n",                                                  \
		    name, (u).locked, (u).pinned, (u).gpu, (u).held, (u).current)
	SHOW("expected", ((struct usage){ locked + pinned + held, locked, pinned, 0, held }));
	SHOW("bpftool", bt);
	SHOW("/proc", proc);
	SHOW("stat", st); /* after a sweep */
#undef SHOW
	_fail(file, line);
}

void set_limit(const struct cg *cg, const char *size)
{
	if (run("set '%s' limit=%s", cg->dir, size))
		fail_msg("set the limit of '%s'", cg->dir);
}
