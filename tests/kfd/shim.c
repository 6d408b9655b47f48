/* SPDX-License-Identifier: MIT */
/*
 * The library as a whole: its settings, its log, and what fork and exit mean
 * for it.
 */
#include <fcntl.h>
#include <sys/syscall.h>

#include "tests/kfd/shim.h"
#include "userspace/common/util.h"

#define SHIM_LINE_BYTES 512

static pthread_once_t config_once = PTHREAD_ONCE_INIT;
static struct shim_config config;
static int log_fd = -1;

static void before_fork(void)
{
	shim_fd_lock();
	topology_lock();
	memory_lock();
	event_lock();
	queue_lock();
}

static void after_fork_parent(void)
{
	queue_unlock();
	event_unlock();
	memory_unlock();
	topology_unlock();
	shim_fd_unlock();
}

/* The child has neither the threads nor the driver's consent: it starts anew,
 * as it would with the real driver. */
static void after_fork_child(void)
{
	after_fork_parent();
	queue_forked();
	event_forked();
	svm_forget();
	memory_forked();
	topology_forked();
	shim_fd_forked();
}

static void open_log(const char *path)
{
	if (!path)
		return;
	if (streq(path, "-"))
		log_fd = STDERR_FILENO;
	else
		log_fd = syscall(SYS_openat, AT_FDCWD, path,
				 O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
}

static void read_config(void)
{
	const char *device = secure_getenv("KFD_SHIM_DEVICE");
	const char *gfx = secure_getenv("KFD_SHIM_GFX");
	const char *lock = secure_getenv("KFD_SHIM_LOCK");
	const char *hold = secure_getenv("KFD_SHIM_HOLD");
	const char *svm = secure_getenv("KFD_SHIM_SVM");
	const char *render = secure_getenv("KFD_SHIM_RENDER");

	if (!device || !*device)
		return;
	config.device = strdup(device);
	config.gfx = gfx && streq(gfx, "1030") ? 1030 : 900;
	config.render = render && *render ? strdup(render) : NULL;
	config.has_svm = svm && streq(svm, "1");
	config.is_locking = lock && streq(lock, "1");
	config.is_holding = hold && streq(hold, "1");
	open_log(secure_getenv("KFD_SHIM_LOG"));
	pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

const struct shim_config *shim_config(void)
{
	pthread_once(&config_once, read_config);
	return &config;
}

static void write_line(int fd, const char *fmt, va_list ap)
{
	char line[SHIM_LINE_BYTES];
	int saved = errno, n, m;

	n = snprintf(line, sizeof(line), "kfd-shim[%d]: ", (int)syscall(SYS_gettid));
	m = vsnprintf(line + n, sizeof(line) - n - 1, fmt, ap);
	n = MIN(n + m, (int)sizeof(line) - 2);
	line[n++] = '\n';
	if (write(fd, line, n) < 0)
		errno = saved;
	errno = saved;
}

void shim_log(const char *fmt, ...)
{
	va_list ap;

	if (log_fd < 0)
		return;
	va_start(ap, fmt);
	write_line(log_fd, fmt, ap);
	va_end(ap);
}

void shim_complain(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	write_line(log_fd >= 0 ? log_fd : STDERR_FILENO, fmt, ap);
	va_end(ap);
}

static void __attribute__((destructor)) on_exit_process(void)
{
	queue_stop_all();
	topology_drop();
}
