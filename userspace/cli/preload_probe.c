/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "userspace/cli/preload_probe.h"
#include "userspace/cli/preload_text.h"

#define NOBODY	   65534
#define TIMEOUT_MS 5000
#define ARGS_MAX   8

enum probe_kind {
	PROBE_DYNAMIC = 1,
	PROBE_STATIC, /* where it is there */
	PROBE_SETUID, /* likewise, if it is one: as nobody, so that ld.so is in secure mode */
};

static const struct probe {
	const char *what;
	const char *argv[4];
	const char *expected; /* part of what it prints */
	enum probe_kind kind;
	bool as_nobody;
} probes[] = {
	{ "a program", { "/bin/true" }, "", PROBE_DYNAMIC, false },
	{ "a shell", { "/bin/sh", "-c", "echo pincap | cat" }, "pincap\n", PROBE_DYNAMIC, false },
	{ "a shell of nobody's",
	  { "/bin/sh", "-c", "echo pincap" },
	  "pincap\n",
	  PROBE_DYNAMIC,
	  true },
	{ "a static program", { "/sbin/ldconfig", "--version" }, "", PROBE_STATIC, false },
	{ "a static shell", { "/bin/busybox", "true" }, "", PROBE_STATIC, false },
	{ "a set-user-ID program", { "/bin/su", "--version" }, "", PROBE_SETUID, true },
	{ "a set-user-ID program", { "/bin/mount", "--version" }, "", PROBE_SETUID, true },
};
_Static_assert(ARRAY_SIZE(probes) <= PROBE_MAX, "room in the baseline");

/* Whether the library is there, by the word of those who should have it. */
static const char mapped_script[] = "while read -r line; do case $line in *" PRELOAD_LIBRARY
				    ") echo mapped; exit;; esac; done </proc/self/maps";
static const struct probe mapped[] = {
	{ "the library in a program",
	  { "/bin/sh", "-c", mapped_script },
	  "mapped\n",
	  PROBE_DYNAMIC,
	  false },
	{ "the library in a program of nobody's",
	  { "/bin/sh", "-c", mapped_script },
	  "mapped\n",
	  PROBE_DYNAMIC,
	  true },
};

struct outcome {
	int status; /* of waitpid */
	bool timeout;
	char text[1024]; /* stdout and stderr */
};

static _Noreturn void run_child(const char *const *argv, bool as_nobody, int out)
{
	static char *const no_environment[] = { NULL };
	sigset_t none;
	int in = open("/dev/null", O_RDONLY);

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	if (chdir("/") || (as_nobody && (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
					 setresuid(NOBODY, NOBODY, NOBODY))))
		_exit(125);
	execve(argv[0], (char *const *)argv, no_environment);
	_exit(126);
}

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* What it says, until it is silent for good or the time is up. */
static void listen_to(int fd, struct outcome *o)
{
	const int64_t end = now_ms() + TIMEOUT_MS;
	char rest[512];
	size_t len = 0;
	ssize_t n;

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		const bool full = len == sizeof(o->text) - 1;
		int ready = poll(&p, 1, (int)MAX(end - now_ms(), 0));

		if (ready < 0 && errno == EINTR)
			continue;
		if (ready <= 0) {
			o->timeout = true;
			break;
		}
		n = full ? read(fd, rest, sizeof(rest))
			 : read(fd, o->text + len, sizeof(o->text) - 1 - len);
		if (n == 0 || (n < 0 && errno != EINTR))
			break;
		len += full || n < 0 ? 0 : (size_t)n;
	}
	o->text[len] = '\0';
}

static int run(const char *const *argv, bool as_nobody, struct outcome *ret)
{
	int fds[2];
	pid_t pid;

	*ret = (struct outcome){ 0 };
	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (pid == 0)
		run_child(argv, as_nobody, fds[1]);
	close(fds[1]);
	if (pid > 0) {
		listen_to(fds[0], ret);
		if (ret->timeout)
			kill(pid, SIGKILL);
		waitpid(pid, &ret->status, 0);
	}
	close(fds[0]);
	return pid < 0 ? -EAGAIN : 0;
}

static char *fault_of(const struct probe *p, const char *reason, const struct outcome *o)
{
	char *text;
	int n = asprintf(&text, "%s: %s%s%.*s%s", p->what, reason, *o->text ? ": '" : "",
			 (int)strcspn(o->text, "\n"), o->text, *o->text ? "'" : "");

	return n < 0 ? strdup(reason) : text;
}

/* NULL, or what is wrong with it. `complaint`: what an error of ld.so's about the
 * entry has in it. */
static char *judge(const struct probe *p, const char *complaint, const struct outcome *o)
{
	char reason[32];

	if (o->timeout)
		return fault_of(p, "does not end", o);
	if (!WIFEXITED(o->status)) {
		snprintf(reason, sizeof(reason), "signal %d", WTERMSIG(o->status));
		return fault_of(p, reason, o);
	}
	if (WEXITSTATUS(o->status)) {
		snprintf(reason, sizeof(reason), "exit code %d", WEXITSTATUS(o->status));
		return fault_of(p, reason, o);
	}
	if (strstr(o->text, complaint))
		return fault_of(p, "ld.so complains", o);
	if (!strstr(o->text, p->expected))
		return fault_of(p, streq(p->expected, "mapped\n") ? "not there" : "wrong output",
				o);
	return NULL;
}

/* Of this very program: what the kernel starts the host's with. */
static int on_object(struct dl_phdr_info *info, size_t size, void *ctx)
{
	const char **interp = ctx;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_INTERP)
			*interp = (const char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	return 1; /* the first is the program itself */
}

/* Directly, or for an `entry` through ld.so. */
static char *run_probe(const struct probe *p, const char *entry)
{
	const char *argv[ARGS_MAX] = { 0 };
	struct outcome o;
	size_t n = 0;

	if (entry) {
		dl_iterate_phdr(on_object, &argv[n++]);
		if (!argv[0])
			return strdup("pincap itself is static");
		argv[n++] = "--preload";
		argv[n++] = entry;
	}
	for (size_t i = 0; i < ARRAY_SIZE(p->argv) && p->argv[i]; i++)
		argv[n++] = p->argv[i];
	if (run(argv, p->as_nobody, &o))
		return fault_of(p, "cannot be started", &o);
	/* An old entry of ours may be broken: that is no fault of the new one. */
	return judge(p, entry ? "from --preload" : PRELOAD_LIBRARY, &o);
}

static bool is_present(const struct probe *p)
{
	struct stat st;

	return !stat(p->argv[0], &st) && S_ISREG(st.st_mode) &&
	       (p->kind != PROBE_SETUID || (st.st_mode & S_ISUID && st.st_uid == 0));
}

void probe_baseline(struct probe_baseline *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(probes); i++) {
		_cleanup_free_ char *fault = NULL;

		ret->runs[i] = true;
		if (probes[i].kind == PROBE_DYNAMIC)
			continue;
		if (is_present(&probes[i]))
			fault = run_probe(&probes[i], NULL);
		ret->runs[i] = is_present(&probes[i]) && !fault;
	}
}

char *probe_preloaded(const char *entry)
{
	char *fault = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(probes) && !fault; i++)
		if (probes[i].kind == PROBE_DYNAMIC)
			fault = run_probe(&probes[i], entry);
	for (size_t i = 0; i < ARRAY_SIZE(mapped) && !fault; i++)
		fault = run_probe(&mapped[i], entry);
	return fault;
}

char *probe_attached(const struct probe_baseline *b)
{
	char *fault = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(probes) && !fault; i++)
		if (b->runs[i])
			fault = run_probe(&probes[i], NULL);
	for (size_t i = 0; i < ARRAY_SIZE(mapped) && !fault; i++)
		fault = run_probe(&mapped[i], NULL);
	return fault;
}
