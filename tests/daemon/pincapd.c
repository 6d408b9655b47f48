/* SPDX-License-Identifier: MIT */
/* See pincapd.h. */
#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/daemon/pincapd.h"
#include "tests/kernel/harness.h"

#define READY_MS 20000
#define SAY_MS	 5000

static struct {
	char dir[64];
	pid_t pid;
	int systemd; /* what systemd listens at */
	char status[512];
	unsigned int ready;
	unsigned int before; /* it was started: how often ready */
	long log_from;
} self;

static const char *in_dir(const char *name)
{
	static char path[100];

	snprintf(path, sizeof(path), "%s/%s", self.dir, name);
	return path;
}

const char *pincapd_dir(void)
{
	return self.dir;
}

pid_t pincapd_pid(void)
{
	return self.pid;
}

static int listen_as_systemd(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", in_dir("systemd"));
	self.systemd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	setenv("NOTIFY_SOCKET", addr.sun_path, 1);
	return bind(self.systemd, (struct sockaddr *)&addr, sizeof(addr));
}

int pincapd_group_setup(void **state)
{
	strcpy(self.dir, "/tmp/pincapd-XXXXXX");
	if (!mkdtemp(self.dir) || chmod(self.dir, 0755) || listen_as_systemd())
		return -1;
	setenv("PINCAP_NOTIFY", in_dir("notify.sock"), 1);
	unsetenv("JOURNAL_STREAM");
	unsetenv("PINCAP_DEBUG");
	return harness_setup(state);
}

int pincapd_group_teardown(void **state)
{
	char line[128];

	close(self.systemd);
	snprintf(line, sizeof(line), "rm -rf '%s'", self.dir);
	if (system(line))
		return -1;
	return harness_teardown(state);
}

int pincapd_teardown(void **state)
{
	if (self.pid)
		pincapd_kill();
	return test_teardown(state);
}

void pincapd_configure(const char *fmt, ...)
{
	FILE *f = fopen(in_dir("new.yaml"), "we");
	char from[128];
	va_list ap;

	assert_non_null(f);
	fprintf(f, "notify_socket: %s/notify.sock\ncontrol_socket: %s/control.sock\n", self.dir,
		self.dir);
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	assert_int_equal(fclose(f), 0);
	snprintf(from, sizeof(from), "%s", in_dir("new.yaml"));
	assert_return_code(rename(from, in_dir("pincap.yaml")), errno);
}

void pincapd_configure_raw(const char *text)
{
	FILE *f = fopen(in_dir("pincap.yaml"), "we");

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static const char *program(void)
{
	const char *given = getenv("PINCAPD");

	return given && *given ? given : "build/pincapd";
}

int pincapd_check(char *ret, size_t size)
{
	char line[1200];
	size_t len;
	FILE *f;
	int status;

	snprintf(line, sizeof(line), "%s --check %s 2>&1 >/dev/null", program(),
		 in_dir("pincap.yaml"));
	f = popen(line, "re");
	assert_non_null(f);
	len = fread(ret, 1, size - 1, f);
	ret[len] = '\0';
	status = pclose(f);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What it told systemd since. */
static void hear_systemd(void)
{
	char text[1024], *save, *line;
	ssize_t n;

	while ((n = recv(self.systemd, text, sizeof(text) - 1, 0)) > 0) {
		text[n] = '\0';
		for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
			if (!strncmp(line, "STATUS=", 7))
				snprintf(self.status, sizeof(self.status), "%s", line + 7);
			self.ready += !strcmp(line, "READY=1");
		}
	}
}

static void show_log(void)
{
	char line[1024];
	FILE *f = fopen(in_dir("log"), "re");

	while (f && fgets(line, sizeof(line), f))
		print_error("%s", line);
	if (f)
		fclose(f);
}

static void wait_ready(unsigned int before)
{
	struct deadline d = deadline_in(READY_MS);

	do {
		hear_systemd();
		if (self.ready > before)
			return;
		if (waitpid(self.pid, NULL, WNOHANG) == self.pid) {
			self.pid = 0;
			break;
		}
	} while (deadline_open(&d));
	show_log();
	fail_msg("pincapd is not ready");
}

static void become(const char *argument)
{
	int fd = open(in_dir("log"), O_WRONLY | O_CREAT | O_APPEND, 0644);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(fd, STDERR_FILENO);
	execl(program(), "pincapd", "--config", in_dir("pincap.yaml"), argument, NULL);
	fprintf(stderr, "run '%s': %s\n", program(), strerror(errno));
	_exit(127);
}

static void begin(const char *argument)
{
	assert_int_equal(self.pid, 0);
	hear_systemd();
	self.before = self.ready;
	self.pid = fork();
	if (!self.pid)
		become(argument);
}

void pincapd_wait(void)
{
	wait_ready(self.before);
}

void pincapd_begin(void)
{
	begin(NULL);
}

void pincapd_start_with(const char *argument)
{
	begin(argument);
	pincapd_wait();
}

void pincapd_start(void)
{
	pincapd_start_with(NULL);
}

static int end(int sig)
{
	pid_t pid = self.pid;

	self.pid = 0;
	assert_true(pid > 0);
	kill(pid, sig);
	return reap(pid);
}

void pincapd_stop(void)
{
	assert_int_equal(end(SIGTERM), 0);
}

void pincapd_kill(void)
{
	end(SIGKILL);
}

void pincapd_reload(void)
{
	unsigned int before;

	hear_systemd();
	before = self.ready;
	kill(self.pid, SIGHUP);
	wait_ready(before);
}

void pincapd_forget(void)
{
	FILE *f = fopen(in_dir("log"), "re");

	if (!f)
		return;
	fseek(f, 0, SEEK_END);
	self.log_from = ftell(f);
	fclose(f);
}

void pincapd_log(char *ret, size_t size)
{
	FILE *f = fopen(in_dir("log"), "re");

	assert_non_null(f);
	fseek(f, self.log_from, SEEK_SET);
	ret[fread(ret, 1, size - 1, f)] = '\0';
	fclose(f);
}

static bool matches(const char *regex, const char *text)
{
	regex_t re;
	bool yes;

	assert_int_equal(regcomp(&re, regex, REG_EXTENDED | REG_NOSUB), 0);
	yes = !regexec(&re, text, 0, NULL, 0);
	regfree(&re);
	return yes;
}

unsigned int pincapd_said(const char *regex)
{
	FILE *f = fopen(in_dir("log"), "re");
	char line[2048];
	unsigned int n = 0;

	if (!f)
		return 0;
	fseek(f, self.log_from, SEEK_SET);
	while (fgets(line, sizeof(line), f))
		n += matches(regex, line);
	fclose(f);
	return n;
}

bool pincapd_says(const char *regex)
{
	struct deadline d = deadline_in(SAY_MS);

	do {
		if (pincapd_said(regex))
			return true;
	} while (deadline_open(&d));
	show_log();
	return false;
}

bool pincapd_status(const char *regex)
{
	struct deadline d = deadline_in(SAY_MS);

	do {
		hear_systemd();
		if (matches(regex, self.status))
			return true;
	} while (deadline_open(&d));
	print_error("the status is '%s'\n", self.status);
	return false;
}

long pincapd_number(const char *file, const char *key)
{
	char path[64], line[256];
	long number = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)self.pid, file);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (!strncmp(line, key, strlen(key)))
			number = strtol(line + strlen(key), NULL, 0);
	fclose(f);
	return number;
}
