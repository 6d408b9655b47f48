/* SPDX-License-Identifier: MIT */
/*
 * The command line of `run`, checked and turned into values, and what the place
 * of the program and its privileges say. Starts nothing.
 */
#ifndef PINCAP_RUN_OPTIONS_H
#define PINCAP_RUN_OPTIONS_H

#include "userspace/common/hostmem.h"
#include "userspace/common/util.h"
#include "userspace/control/kernel.h"

struct run_options {
	const char *cgroup; /* NULL: a fresh one */
	struct kernel_devices devices;
	const char *user; /* NULL: who called sudo, else as we are */
	uint64_t limit_bytes;
	bool limit_given;
	bool limit_auto;
	bool no_preload;
	bool quiet;
	bool verbose;
	struct hostmem memory; /* what `auto` and percentages are of */
	char **command;	       /* NULL-terminated, at least one word */
};

/* Ends the program with a usage error, or help. */
void run_options_parse(struct run_options *ret, int argc, char **argv);

/* Path of the preload library, malloc'd: beside the program, else where it was
 * installed. NULL where there is none. */
char *run_options_find_library(void);

/* The same; NULL, with a warning, also where it cannot be preloaded. */
char *run_options_library(void);

#endif
