/* SPDX-License-Identifier: MIT */
#include <argp.h>

#include "userspace/common/log.h"
#include "userspace/daemon/check.h"
#include "userspace/daemon/daemon.h"
#include "userspace/daemon/reload.h"

#define DEFAULT_CONFIG "/etc/pincap/pincap.yaml"
#define USAGE	       2

static const struct argp_option argp_options[] = {
	{ "config", 'c', "FILE", 0,
	  "Read FILE and its drop-ins in FILE.d (default: " DEFAULT_CONFIG ", which may be absent)",
	  0 },
	{ "check", 'C', "FILE", 0, "Say whether FILE is good, and do nothing else", 0 },
	{ "print", 'p', NULL, 0, "Print all that would be in force, and do nothing else", 0 },
	{ "dry-run", 'n', NULL, 0,
	  "Decide, log and count what would be refused, and refuse nothing", 0 },
	{ 0 },
};

struct arguments {
	struct daemon_options options;
	const char *check;
	bool print;
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case 'c':
		a->options.path = arg;
		a->options.is_default = false;
		return 0;
	case 'C':
		a->check = arg;
		return 0;
	case 'p':
		a->print = true;
		return 0;
	case 'n':
		a->options.dry_run = true;
		return 0;
	case ARGP_KEY_ARG:
		argp_failure(state, USAGE, 0, "too many arguments: '%s'", arg);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int print(const struct daemon_options *options)
{
	_cleanup_(config_freep) struct config *c = NULL;
	struct config_error error;

	if (reload_read(options, &c, &error)) {
		fprintf(stderr, "%s\n", error.text);
		return 1;
	}
	config_print(c, stdout);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = argp_options,
		.parser = parse,
		.doc = "Holds the budgets of page-locked memory that a configuration gives to the "
		       "cgroups of this host. SIGHUP: read it again.",
	};
	struct arguments a = { .options = { .path = DEFAULT_CONFIG, .is_default = true } };

	argp_err_exit_status = USAGE;
	argp_program_version = "pincapd " PINCAP_VERSION;
	log_set_name("pincapd");
	argp_parse(&argp, argc, argv, 0, NULL, &a);
	if (a.check)
		return check_config(a.check, a.print);
	if (a.print)
		return print(&a.options);
	return daemon_main(&a.options);
}
