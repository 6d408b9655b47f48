/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files that touch libbpf: where things are pinned, and the steps
 * that kernel.c puts in order. Nobody else includes it.
 */
#ifndef PINCAP_KERNEL_PRIV_H
#define PINCAP_KERNEL_PRIV_H

#include "userspace/control/kernel.h"

#define BPFFS	    "/sys/fs/bpf"
#define PIN_DIR	    BPFFS "/pincap"
#define NEW_PREFIX  "pincap-new-" /* below bpffs: being made; then a pid */
#define RUN_DIR	    "/run/pincap"
#define LOCK_FILE   RUN_DIR "/lock"	   /* shared: in use; exclusive: load, unload */
#define CONFIG_LOCK RUN_DIR "/config.lock" /* exclusive: write `config`, sweep */

struct kernel {
	int lock_fd;
	int processes_fd;
	int cgroups_fd;
	int threads_fd;
	int buffers_fd;
	int ranges_fd;
	int stats_fd;
	int config_fd;
	int sweep_fd;	   /* the iterator's link */
	int set_budget_fd; /* program */
};

/* A descriptor of what is pinned below PIN_DIR, or -errno. */
int kernel_get_pinned(const char *name);

/* Load, attach and pin everything as PIN_DIR, or nothing. Under the exclusive
 * lock. Logs the reason of a failure. */
int kernel_load(bool persistent);

/* The same in the place of an older one, from which it takes over what it can. Requests are
 * put off for a moment; counting never stops. */
int kernel_upgrade(bool persistent);

/* The directories of a kernel side, or what is there of it, made or removed. */
int pins_make(const char *dir);
void pins_remove(const char *dir);
void pins_remove_leftovers(void); /* of loaders and unloaders that were killed */

/* An upgrade has taken over all: from here on whoever comes goes on with the new side
 * (kernel_finish), should we die. */
int pins_complete(const char *dir);

/* Go on where an upgrade was killed when the new side was complete. -ENOENT: none was. */
int kernel_finish(void);

/* Attach to the GPU what the side in PIN_DIR has attached to it. */
int carry_gpu(const char *dir);

/* Remove PIN_DIR and what killed loaders and unloaders left. Under the exclusive
 * lock. -ENOENT: there was no PIN_DIR. */
int kernel_remove(void);

typedef void (*kernel_config_fn)(struct pincap_config *cfg, void *ctx);

/* Change `config`, which has one writer at a time. Returns the lock, to be closed
 * when what depends on the change is done; or -errno. */
int kernel_update_config(struct kernel *k, kernel_config_fn fn, void *ctx);

/* Look through the mappings of a task for SVM ranges that have lost theirs
 * (mapped.bpf.h), as the sweep asks for. No error: it is gone. */
int kernel_find_holes(uint32_t tid);

#endif
