/* SPDX-License-Identifier: MIT */
/*
 * gpu_life: a program that does with registered memory what its tester says, one
 * word a line, and answers each with a line. Unlike the loader it leaves by
 * every door: unregister, exit, exec, fork, and many threads at once.
 */
#include <err.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <hip/hip_runtime_api.h>

#include "userspace/common/util.h"

#define MAX_BUFFERS  64
#define MAX_THREADS  16
#define PAGE	     4096UL
#define THREAD_PAGES 64UL

static const char usage[] =
	"usage: gpu_life\n"
	"Words: start | register COUNT BYTES | unregister | exit | exec | fork | reap |\n"
	"       threads COUNT ROUNDS\n";

struct buffer {
	void *data;
	bool is_registered;
};

static struct buffer buffers[MAX_BUFFERS];
static size_t used;
static pid_t child;
static int leash = -1; /* the child lives until this is closed */

struct worker {
	pthread_t thread;
	unsigned long rounds;
	unsigned int seed;
	char *area;
	bool is_registered;
	unsigned long done, refused;
};

static void say(const char *what, unsigned long n)
{
	printf("%s %lu\n", what, n);
	fflush(stdout);
}

/* The runtime's own share is complete after a first copy and a first unregister. */
static void start(void)
{
	void *page = aligned_alloc(PAGE, PAGE), *device;
	hipStream_t stream;

	if (!page || hipInit(0) != hipSuccess || hipStreamCreate(&stream) != hipSuccess ||
	    hipMalloc(&device, PAGE) != hipSuccess ||
	    hipMemcpy(device, page, PAGE, hipMemcpyHostToDevice) != hipSuccess)
		errx(1, "cannot start the runtime");
	if (hipHostRegister(page, PAGE, hipHostRegisterDefault) == hipSuccess &&
	    hipHostUnregister(page) != hipSuccess)
		errx(1, "cannot unregister");
	free(page);
	say("started", 0);
}

static void register_buffers(unsigned long count, unsigned long bytes)
{
	unsigned long i, n = 0;

	for (i = 0; i < count && used < MAX_BUFFERS; i++) {
		struct buffer *b = &buffers[used];

		b->data = aligned_alloc(PAGE, bytes);
		if (!b->data)
			errx(1, "out of memory");
		memset(b->data, 1, bytes);
		b->is_registered =
			hipHostRegister(b->data, bytes, hipHostRegisterDefault) == hipSuccess;
		n += b->is_registered;
		used++;
	}
	say("registered", n);
}

static void unregister_buffers(void)
{
	unsigned long n = 0;

	for (; used; used--) {
		struct buffer *b = &buffers[used - 1];

		if (b->is_registered && hipHostUnregister(b->data) == hipSuccess)
			n++;
		free(b->data);
	}
	say("unregistered", n);
}

static void fork_child(void)
{
	int fds[2];
	char c;

	if (pipe(fds))
		err(1, "pipe");
	child = fork();
	if (child < 0)
		err(1, "fork");
	if (!child) {
		close(fds[1]);
		_exit(read(fds[0], &c, 1) ? 1 : 0);
	}
	close(fds[0]);
	leash = fds[1];
	say("child", (unsigned long)child);
}

static void reap_child(void)
{
	int status;

	close(leash);
	if (waitpid(child, &status, 0) != child)
		err(1, "wait");
	say("reaped", (unsigned long)status);
}

/* Sizes differ, so that bytes booked under another's handle show. */
static void *work(void *ctx)
{
	struct worker *w = ctx;
	unsigned long i;

	for (i = 0; i < w->rounds; i++) {
		size_t bytes = (1 + (size_t)rand_r(&w->seed) % THREAD_PAGES) * PAGE;

		if (w->is_registered && hipHostUnregister(w->area) != hipSuccess)
			errx(1, "cannot unregister");
		w->is_registered =
			hipHostRegister(w->area, bytes, hipHostRegisterDefault) == hipSuccess;
		if (w->is_registered)
			w->done++;
		else
			w->refused++;
	}
	return NULL;
}

/* The last buffer of each thread stays, to be given back by `unregister`. */
static void run_threads(unsigned long count, unsigned long rounds)
{
	static struct worker workers[MAX_THREADS];
	unsigned long i, done = 0;

	if (count > MAX_THREADS || count > MAX_BUFFERS - used)
		errx(2, "too many threads");
	for (i = 0; i < count; i++) {
		workers[i] = (struct worker){ .rounds = rounds, .seed = (unsigned int)i + 1 };
		workers[i].area = aligned_alloc(PAGE, THREAD_PAGES * PAGE);
		if (!workers[i].area)
			errx(1, "out of memory");
		memset(workers[i].area, 1, THREAD_PAGES * PAGE);
	}
	for (i = 0; i < count; i++)
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			errx(1, "cannot start a thread");
	for (i = 0; i < count; i++) {
		pthread_join(workers[i].thread, NULL);
		done += workers[i].done;
		buffers[used++] = (struct buffer){ workers[i].area, workers[i].is_registered };
	}
	say("threads", done);
}

static void obey(const char *self, const char *word, unsigned long a, unsigned long b)
{
	if (streq(word, "start"))
		start();
	else if (streq(word, "register") && b)
		register_buffers(a, b);
	else if (streq(word, "unregister"))
		unregister_buffers();
	else if (streq(word, "exit"))
		_exit(0);
	else if (streq(word, "exec"))
		execl(self, self, NULL);
	else if (streq(word, "fork"))
		fork_child();
	else if (streq(word, "reap"))
		reap_child();
	else if (streq(word, "threads") && b)
		run_threads(a, b);
	else
		errx(2, "what is '%s'?", word);
}

int main(int argc, char **argv)
{
	char line[128], word[16];

	if (argc != 1) {
		fputs(usage, stderr);
		return 2;
	}
	setvbuf(stdin, NULL, _IONBF, 0); /* what comes after exec must not be lost in a buffer */
	say("ready", 0);
	while (fgets(line, sizeof(line), stdin)) {
		unsigned long a = 0, b = 0;

		if (sscanf(line, "%15s %lu %lu", word, &a, &b) >= 1)
			obey(argv[0], word, a, b);
	}
	return 0;
}
