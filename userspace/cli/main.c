/* SPDX-License-Identifier: MIT */
#include <argp.h>
#include <fcntl.h>

#include "userspace/cli/cli.h"
#include "userspace/common/log.h"

struct command {
	const char *name;
	int (*run)(int argc, char **argv);
	const char *help;
};

static const struct command commands[] = {
	{ "run", cmd_run, "run a command under a budget of locked memory" },
	{ "stat", cmd_stat, "show who holds how much, and the budgets" },
	{ "set", cmd_set, "change the budget of a cgroup" },
	{ "attach", cmd_attach, "put a running process under a budget" },
	{ "attach-host", cmd_attach_host, "load the library into every program of this host" },
	{ "explain", cmd_explain, "say who holds what, and which budgets bind" },
	{ "load", cmd_load, "load the kernel side, to stay" },
	{ "unload", cmd_unload, "remove the kernel side and all budgets" },
	{ "reload", cmd_reload, "have pincapd read its configuration again" },
	{ "doctor", cmd_doctor, "say what this kernel lets us count and refuse" },
};

static void usage(FILE *f)
{
	fprintf(f, "Usage: pincap COMMAND [OPTION...]\n"
		   "Counts and limits the page-locked memory of cgroups.\n\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		fprintf(f, "  %-12s %s\n", commands[i].name, commands[i].help);
	fprintf(f, "\n'pincap COMMAND --help' tells more of each.\n");
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		if (streq(commands[i].name, name))
			return &commands[i];
	return NULL;
}

/* stdout is for results: one that did not arrive is a failure. */
static int close_stdout(int code)
{
	if (!fflush(stdout) && !ferror(stdout))
		return code;
	pr_err("writing to standard output: %m");
	return code ? code : CLI_FAILURE;
}

/* Where one of the first three descriptors is closed, nothing that is opened later
 * may be taken for it. Closed on exec: a command finds them as they were. */
static void reserve_std_fds(void)
{
	int fd;

	do {
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0)
		close(fd);
}

int main(int argc, char **argv)
{
	_cleanup_free_ char *name = NULL;
	const struct command *command;

	reserve_std_fds();
	argp_err_exit_status = CLI_USAGE;
	argp_program_version = "pincap " PINCAP_VERSION;
	if (getenv("PINCAP_DEBUG"))
		log_set_level(LOG_LEVEL_DEBUG);
	if (argc < 2) {
		usage(stderr);
		return CLI_USAGE;
	}
	if (streq(argv[1], "--help") || streq(argv[1], "-h") || streq(argv[1], "help")) {
		usage(stdout);
		return close_stdout(CLI_OK);
	}
	if (streq(argv[1], "--version") || streq(argv[1], "-V")) {
		puts(argp_program_version);
		return close_stdout(CLI_OK);
	}
	command = find_command(argv[1]);
	if (!command) {
		pr_err("there is no command '%s'; see 'pincap --help'", argv[1]);
		return CLI_USAGE;
	}
	if (asprintf(&name, "pincap %s", command->name) < 0)
		return CLI_FAILURE;
	argv[1] = name;
	return close_stdout(command->run(argc - 1, argv + 1));
}
