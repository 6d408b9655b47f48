/* SPDX-License-Identifier: MIT */
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

#include "userspace/cli/run_options.h"
#include "userspace/common/log.h"
#include "userspace/common/size.h"

#define LIBRARY "libpincap-preload.so"

enum { OPT_CGROUP = 256, OPT_KFD, OPT_DRM, OPT_USER, OPT_NO_PRELOAD };

static const struct argp_option options[] = {
	{ "limit", 'l', "SIZE", 0,
	  "Budget: 8G, 512M, 1.5GiB, 40% (of RAM, or of the tightest memory limit), infinity, or "
	  "auto, the default, what loaders take for safe on this machine",
	  0 },
	{ "cgroup", OPT_CGROUP, "PATH", 0,
	  "Run in this cgroup, made if it is missing (default: a fresh one below our own)", 0 },
	{ "user", OPT_USER, "USER", 0,
	  "Run as this user, a name or a number (default: the one that called sudo)", 0 },
	{ "kfd", OPT_KFD, "PATH", 0,
	  "Read the GPU driver's calls on this file too (default: $PINCAP_KFD)", 0 },
	{ "drm", OPT_DRM, "PATH", 0, "The same for a render node's (default: $PINCAP_DRM)", 0 },
	{ "no-preload", OPT_NO_PRELOAD, NULL, 0,
	  "Do not attach the library: pins are counted, and none refused", 0 },
	{ "quiet", 'q', NULL, 0, "Print errors and warnings only, no summary", 0 },
	{ "verbose", 'v', NULL, 0, "Print every STOP and RESUME", 0 },
	{ 0 },
};

static void parse_limit(struct run_options *o, const char *text, struct argp_state *state)
{
	int err;

	o->limit_given = true;
	o->limit_auto = streq(text, "auto");
	if (o->limit_auto)
		return;
	err = size_parse(text, o->memory.ram_bytes, &o->limit_bytes);
	if (err == -ERANGE)
		argp_failure(state, argp_err_exit_status, 0, "--limit '%s': out of range", text);
	if (err)
		argp_failure(state, argp_err_exit_status, 0,
			     "--limit '%s': not a size like 8G, 512M, 1.5GiB, 40%%, infinity, auto",
			     text);
}

static void want_text(const char *option, const char *text, struct argp_state *state)
{
	if (!*text)
		argp_failure(state, argp_err_exit_status, 0, "%s '': must not be empty", option);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct run_options *o = state->input;

	switch (key) {
	case 'l':
		parse_limit(o, arg, state);
		break;
	case OPT_CGROUP:
		want_text("--cgroup", arg, state);
		o->cgroup = arg;
		break;
	case OPT_KFD:
		o->devices.kfd = *arg ? arg : NULL;
		break;
	case OPT_DRM:
		o->devices.drm = *arg ? arg : NULL;
		break;
	case OPT_USER:
		want_text("--user", arg, state);
		o->user = arg;
		break;
	case OPT_NO_PRELOAD:
		o->no_preload = true;
		break;
	case 'q':
		o->quiet = true;
		break;
	case 'v':
		o->verbose = true;
		break;
	case ARGP_KEY_ARG: /* the command; what follows is its own */
		want_text("the command", arg, state);
		o->command = &state->argv[state->next - 1];
		state->next = state->argc;
		break;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "a command is missing");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static const char *path_from_env(const char *name)
{
	const char *path = getenv(name);

	return path && *path ? path : NULL;
}

void run_options_parse(struct run_options *ret, int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.args_doc = "[--] COMMAND [ARGUMENT...]",
		.doc = "Runs COMMAND under a budget of locked memory. Past the budget its memory "
		       "stays pageable; nothing is killed.\v"
		       "The exit code is COMMAND's; 127 if it was not found, 126 if it could not "
		       "be run, 125 if pincap failed, 2 for a wrong option. If a signal ended "
		       "COMMAND, the same one ends pincap.",
	};
	struct run_options o = { .limit_auto = true };
	int err = hostmem_read(&o.memory);

	if (err)
		log_ret(err, "read how much memory there is, taking it for none");
	o.devices.kfd = path_from_env("PINCAP_KFD");
	o.devices.drm = path_from_env("PINCAP_DRM");
	argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &o);
	if (o.limit_auto)
		o.limit_bytes = hostmem_auto_limit(o.memory.ram_bytes, o.memory.swap_bytes);
	*ret = o;
}

/* Whether every user may open it: the command may be anybody's, and ld.so
 * complains in its name. */
static bool is_world_readable(const char *path)
{
	_cleanup_free_ char *part = strdup(path);
	struct stat st;

	if (!part || stat(part, &st) || !(st.st_mode & S_IROTH))
		return false;
	for (char *slash = strrchr(part, '/'); slash && slash != part; slash = strrchr(part, '/')) {
		*slash = '\0';
		if (stat(part, &st) || !(st.st_mode & S_IXOTH))
			return false;
	}
	return true;
}

/* `place` beside the program's own directory, or absolute. NULL: not there. */
static char *library_in(const char *place)
{
	char exe[PATH_MAX], *path;
	ssize_t len = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	int n;

	exe[MAX(len, 0)] = '\0';
	if (*place == '/')
		n = asprintf(&path, "%s/" LIBRARY, place);
	else if (len > 0)
		n = asprintf(&path, "%.*s/%s" LIBRARY, (int)(strrchr(exe, '/') - exe), exe, place);
	else
		return NULL;
	if (n >= 0 && !access(path, R_OK))
		return path;
	if (n >= 0)
		free(path);
	return NULL;
}

char *run_options_find_library(void)
{
	/* The build tree, an installation that was moved, and where it was meant to be. */
	static const char *const places[] = { "", "../" PINCAP_LIBREL "/", PINCAP_LIBDIR };
	char *path = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(places) && !path; i++)
		path = library_in(places[i]);
	return path;
}

char *run_options_library(void)
{
	_cleanup_free_ char *path = run_options_find_library();

	if (!path) {
		pr_warn("no " LIBRARY " beside the program or in " PINCAP_LIBDIR
			"; pins are counted, and none refused");
		return NULL;
	}
	if (path[strcspn(path, ": \t\n")]) {
		pr_warn("'%s' cannot be preloaded, its path has a space or a colon; pins are "
			"counted, and none refused",
			path);
		return NULL;
	}
	if (!is_world_readable(path))
		pr_warn("'%s' is not readable by every user; where it is not, nothing is refused",
			path);
	return TAKE_PTR(path);
}
