/* SPDX-License-Identifier: MIT */
#include <argp.h>
#include <errno.h>
#include <limits.h>

#include "userspace/cli/cli.h"
#include "userspace/cli/mapped.h"
#include "userspace/cli/preload_entry.h"
#include "userspace/cli/preload_file.h"
#include "userspace/cli/preload_probe.h"
#include "userspace/cli/preload_text.h"
#include "userspace/cli/run_options.h"
#include "userspace/cli/run_place.h"
#include "userspace/common/log.h"

struct attach_host {
	const char *library; /* NULL: the installed one */
	int (*action)(const struct attach_host *a);
};

static const char private_file[] = PRELOAD_FILE " is not readable by every user, whose programs "
						"would stay unmanaged: chmod o+r";

static int read_file(struct preload_file *ret)
{
	int err = preload_file_read(ret);

	if (err == -ELOOP)
		pr_err(PRELOAD_FILE " is a symbolic link; make it a file first");
	else if (err == -EINVAL)
		pr_err(PRELOAD_FILE " is not a text file");
	else if (err)
		log_ret(err, "read " PRELOAD_FILE);
	return err;
}

/* The lock's fd, or a failure that was explained. */
static int begin_change(void)
{
	int fd;

	if (geteuid()) {
		pr_err("needs root");
		return -EPERM;
	}
	fd = preload_file_lock();
	if (fd == -EWOULDBLOCK)
		pr_err("another 'pincap attach-host' is at work");
	else if (fd < 0)
		log_ret(fd, "take the lock in " PINCAP_RUNDIR);
	return fd;
}

static char *find_library(const struct attach_host *a)
{
	_cleanup_free_ char *found = a->library ? strdup(a->library) : run_options_find_library();
	char *real = found ? realpath(found, NULL) : NULL;

	if (!found)
		pr_err("no " PRELOAD_LIBRARY " beside the program or in " PINCAP_LIBDIR
		       "; name it by --library");
	else if (!real)
		log_ret(-errno, "'%s'", found);
	return real;
}

/* Not wrong, but the administrator should know. */
static void warn_of(const char *library)
{
	struct stat root, st;

	if (!stat("/", &root) && !stat(library, &st) && st.st_dev != root.st_dev)
		pr_warn("'%s' is on another file system than /: until that is mounted at boot, "
			"every program will print an error",
			library);
}

static bool is_private(const struct preload_file *f)
{
	return f->text && !(f->st.st_mode & S_IROTH);
}

static int roll_back(const struct preload_file *old)
{
	int err = preload_file_write(old, old->text);

	return err ? log_ret(err, "take it back; run 'pincap attach-host off'") : 0;
}

static int change(const struct preload_file *old, const char *entry)
{
	_cleanup_free_ char *text = NULL, *fault = NULL;
	struct probe_baseline baseline;
	bool changed;
	int err;

	fault = probe_preloaded(entry);
	if (fault) {
		pr_err("self-test of '%s': %s; nothing was changed", entry, fault);
		return -ENOEXEC;
	}
	probe_baseline(&baseline);
	err = preload_text_edit(old->text, entry, &text);
	if (err)
		return log_ret(err, "edit " PRELOAD_FILE);
	changed = !old->text || !streq(old->text, text);
	if (changed)
		err = preload_file_write(old, text);
	if (err)
		return log_ret(err, "write " PRELOAD_FILE);
	fault = probe_attached(&baseline);
	if (!fault)
		return 0;
	pr_err("self-test with " PRELOAD_FILE ": %s; %s", fault,
	       changed ? "taken back" : "'pincap attach-host off' takes it away");
	if (changed)
		roll_back(old);
	return -ENOEXEC;
}

static int attach_on(const struct attach_host *a)
{
	_cleanup_(preload_file_done) struct preload_file old = { 0 };
	_cleanup_free_ char *library = NULL, *entry = NULL, *fault = NULL;
	_cleanup_close_ int lock_fd = begin_change();

	if (lock_fd < 0)
		return CLI_FAILURE;
	library = find_library(a);
	if (!library || read_file(&old))
		return CLI_FAILURE;
	fault = is_private(&old) ? strdup(private_file) : preload_entry_of(library, &entry);
	if (fault) {
		pr_err("%s; nothing was changed", fault);
		return CLI_FAILURE;
	}
	warn_of(library);
	if (change(&old, entry))
		return CLI_FAILURE;
	pr_info("on: every program that starts from now on loads %s", entry);
	return CLI_OK;
}

static int attach_off(const struct attach_host *a)
{
	_cleanup_(preload_file_done) struct preload_file old = { 0 };
	_cleanup_free_ char *text = NULL;
	_cleanup_close_ int lock_fd = begin_change();
	int err;

	(void)a;
	if (lock_fd < 0 || read_file(&old))
		return CLI_FAILURE;
	if (!preload_text_find(old.text, &text)) {
		pr_info("off already");
		return CLI_OK;
	}
	free(TAKE_PTR(text));
	err = preload_text_edit(old.text, NULL, &text);
	if (!err)
		err = preload_file_write(&old, text);
	if (err) {
		log_ret(err, "write " PRELOAD_FILE);
		return CLI_FAILURE;
	}
	pr_info("off: what runs keeps the library until it ends");
	return CLI_OK;
}

static char *status_fault(const struct preload_file *file, const char *entry, int entries)
{
	_cleanup_free_ char *path = preload_entry_path(entry);
	struct probe_baseline none = { 0 };
	char *fault;

	if (!path)
		return strdup("out of memory");
	fault = preload_entry_fault(path);
	if (!fault && entries > 1)
		fault = strdup("there is more than one entry");
	if (!fault && is_private(file))
		fault = strdup(private_file);
	return fault ? fault : probe_attached(&none);
}

static void print_processes(void)
{
	struct mapped_count n;

	if (mapped_count(&n))
		return;
	printf("processes: %u managed, %u unmanaged", n.with, n.without);
	if (n.unknown)
		printf(", %u that cannot be looked into", n.unknown);
	printf("\n");
}

static int attach_status(const struct attach_host *a)
{
	_cleanup_(preload_file_done) struct preload_file file = { 0 };
	_cleanup_free_ char *entry = NULL, *fault = NULL;
	int entries;

	(void)a;
	if (read_file(&file))
		return CLI_FAILURE;
	entries = preload_text_find(file.text, &entry);
	if (entries < 0)
		return CLI_FAILURE;
	if (entries > 0)
		fault = status_fault(&file, entry, entries);
	if (!entries)
		printf("off\n");
	else if (!fault)
		printf("on: %s\n", entry);
	else
		printf("damaged: %s\n", fault);
	print_processes();
	return fault ? CLI_FAILURE : CLI_OK;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	static const struct {
		const char *name;
		int (*action)(const struct attach_host *a);
	} actions[] = { { "on", attach_on }, { "off", attach_off }, { "status", attach_status } };
	struct attach_host *a = state->input;

	switch (key) {
	case 'L':
		if (*arg != '/')
			argp_failure(state, CLI_USAGE, 0, "--library '%s': not an absolute path",
				     arg);
		a->library = arg;
		return 0;
	case ARGP_KEY_ARG:
		for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
			if (streq(arg, actions[i].name) && state->arg_num == 0)
				a->action = actions[i].action;
		if (!a->action || state->arg_num > 0)
			argp_failure(state, CLI_USAGE, 0, "'%s': expected on, off or status", arg);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_failure(state, CLI_USAGE, 0, "expected on, off or status");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_attach_host(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "library", 'L', "PATH", 0,
		  "Load this " PRELOAD_LIBRARY " (default: the one that belongs to this program)",
		  0 },
		{ 0 },
	};
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "on|off|status",
		.doc = "Loads the library into every program of the host that starts from now on, "
		       "through " PRELOAD_FILE ": login shells, services, set-user-ID programs. "
		       "What is in that file already stays. Tests the library on programs of the "
		       "host before and after, and takes the entry back if one of them fails.\v"
		       "status prints on, off or damaged, and exits with 1 when damaged. Static "
		       "programs, musl's, 32-bit ones and containers (whose /etc is their own) "
		       "stay unmanaged: counted, not refused. Should programs ever fail to start, "
		       "a running root shell does without us: ': >" PRELOAD_FILE "'.",
	};
	struct attach_host a = { 0 };

	argp_parse(&argp, argc, argv, 0, NULL, &a);
	return a.action(&a);
}
