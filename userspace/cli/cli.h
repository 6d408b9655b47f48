/* SPDX-License-Identifier: MIT */
/*
 * The commands of `pincap`, one file each, and the exit codes they share. Knows
 * what they are called and nothing of what they do.
 */
#ifndef PINCAP_CLI_H
#define PINCAP_CLI_H

/* Of every command but `run`, whose own failures must be told from its
 * command's: env and timeout use 125 for that, 126 and 127 for a failed exec. */
enum cli_exit {
	CLI_OK = 0,
	CLI_FAILURE = 1,
	CLI_USAGE = 2,
	CLI_RUN_FAILURE = 125,
};

/* argv[0] is "pincap NAME", for usage messages; the exit code is returned. */
int cmd_run(int argc, char **argv);
int cmd_stat(int argc, char **argv);
int cmd_set(int argc, char **argv);
int cmd_attach(int argc, char **argv);
int cmd_attach_host(int argc, char **argv);
int cmd_load(int argc, char **argv);
int cmd_unload(int argc, char **argv);
int cmd_explain(int argc, char **argv);
int cmd_reload(int argc, char **argv);
int cmd_doctor(int argc, char **argv);

#endif
