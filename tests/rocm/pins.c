/* SPDX-License-Identifier: MIT */
/*
 * pins: does with host memory what its tester says, by whatever release of the
 * HIP runtime it is given, one word a line, and answers each with a line:
 * "ok WORD N" or "failed WORD ERROR". The runtime is opened by name, so the same
 * program serves releases whose libraries have different names.
 */
#include <dlfcn.h>
#include <err.h>
#include <sys/mman.h>
#include <hip/hip_runtime_api.h>

#include "userspace/common/util.h"

#define MAX_BUFFERS 64
#define PAGE	    4096UL
#define EXIT_NO_GPU 3

static const char usage[] =
	"usage: pins LIBRARY\n"
	"Words: register N BYTES | register-again N | unregister N | munmap N |\n"
	"       hostmalloc BYTES | hostfree | managed BYTES | free | copy BYTES | exit\n";

#define MEMORY_FUNCTIONS(X) X(hipMalloc) X(hipFree) X(hipMemcpy) X(hipDeviceSynchronize)
#define PIN_FUNCTIONS(X) \
	X(hipHostRegister) X(hipHostUnregister) X(hipHostMalloc) X(hipHostFree) X(hipMallocManaged)
#define FUNCTIONS(X) X(hipInit) X(hipGetDeviceCount) MEMORY_FUNCTIONS(X) PIN_FUNCTIONS(X)

#define DECLARE(name) static __typeof__(&(name)) p_##name;
FUNCTIONS(DECLARE)

static const struct {
	const char *name;
	void **to;
} functions[] = {
#define ENTRY(name) { #name, (void **)&p_##name },
	FUNCTIONS(ENTRY)
};

struct buffer {
	char *data; /* NULL: not mapped */
	size_t bytes;
};

static struct buffer buffers[MAX_BUFFERS];
static void *host, *managed;

static void say(const char *word, hipError_t e, unsigned long n)
{
	if (e == hipSuccess)
		printf("ok %s %lu\n", word, n);
	else
		printf("failed %s %d\n", word, (int)e);
	fflush(stdout);
}

static void load(const char *library)
{
	void *handle = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
	size_t i;

	if (!handle)
		errx(1, "%s", dlerror());
	for (i = 0; i < ARRAY_SIZE(functions); i++) {
		/* As a linked program finds them: a preloaded library's come first. */
		*functions[i].to = dlsym(RTLD_DEFAULT, functions[i].name);
		if (!*functions[i].to)
			errx(1, "%s", dlerror());
	}
}

static char *map(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		err(1, "mmap %zu bytes", bytes);
	return p;
}

/* A buffer that is there already is registered as it is. */
static hipError_t do_register(struct buffer *b, size_t bytes)
{
	if (!b->data) {
		b->data = map(bytes);
		b->bytes = bytes;
		memset(b->data, 1, bytes);
	}
	return p_hipHostRegister(b->data, b->bytes, hipHostRegisterDefault);
}

static hipError_t do_munmap(struct buffer *b)
{
	if (munmap(b->data, b->bytes))
		err(1, "munmap");
	*b = (struct buffer){ 0 };
	return hipSuccess;
}

static void fill(char *data, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes; i++)
		data[i] = (char)(i * 7 + i / PAGE);
}

static hipError_t copy_both_ways(char *from, char *to, size_t bytes)
{
	void *device = NULL;
	hipError_t e = p_hipMalloc(&device, bytes);

	if (e == hipSuccess)
		e = p_hipMemcpy(device, from, bytes, hipMemcpyHostToDevice);
	if (e == hipSuccess)
		e = p_hipMemcpy(to, device, bytes, hipMemcpyDeviceToHost);
	if (e == hipSuccess)
		e = p_hipDeviceSynchronize();
	if (device && p_hipFree(device) != hipSuccess)
		warnx("cannot free GPU memory");
	return e;
}

/* Of pageable memory, which the runtime registers for the time of the copy, or
 * for good: so it is unmapped before the answer. */
static hipError_t do_copy(size_t bytes)
{
	char *from = map(bytes), *to = map(bytes);
	hipError_t e;

	fill(from, bytes);
	e = copy_both_ways(from, to, bytes);
	if (e == hipSuccess && memcmp(from, to, bytes) != 0)
		errx(1, "copied data is wrong");
	munmap(from, bytes);
	munmap(to, bytes);
	return e;
}

static hipError_t with_buffer(const char *word, unsigned long n, size_t bytes)
{
	struct buffer *b = &buffers[n % MAX_BUFFERS];

	if (streq(word, "register") && (bytes || b->data))
		return do_register(b, bytes);
	if (!b->data)
		errx(2, "no buffer %lu", n);
	if (streq(word, "register-again"))
		return do_register(b, 0);
	if (streq(word, "unregister"))
		return p_hipHostUnregister(b->data);
	if (streq(word, "munmap"))
		return do_munmap(b);
	errx(2, "what is '%s'?", word);
}

static hipError_t obey(const char *word, unsigned long n, size_t bytes)
{
	hipError_t e;

	if (streq(word, "exit"))
		_exit(0);
	if (streq(word, "copy"))
		return do_copy(n);
	if (streq(word, "hostmalloc") || streq(word, "managed")) {
		void **p = streq(word, "managed") ? &managed : &host;

		e = p == &host ? p_hipHostMalloc(p, n, hipHostMallocDefault)
			       : p_hipMallocManaged(p, n, hipMemAttachGlobal);
		if (e == hipSuccess)
			memset(*p, 2, n);
		return e;
	}
	if (streq(word, "hostfree"))
		return p_hipHostFree(TAKE_PTR(host));
	if (streq(word, "free"))
		return p_hipFree(TAKE_PTR(managed));
	return with_buffer(word, n, bytes);
}

int main(int argc, char **argv)
{
	char line[128], word[16];
	size_t bytes;
	int n = 0;

	if (argc != 2) {
		fputs(usage, stderr);
		return 2;
	}
	load(argv[1]);
	if (p_hipInit(0) != hipSuccess || p_hipGetDeviceCount(&n) != hipSuccess || n < 1)
		errx(EXIT_NO_GPU, "no GPU");
	say("ready", hipSuccess, n);
	while (fgets(line, sizeof(line), stdin)) {
		unsigned long number = 0;

		bytes = 0;
		if (sscanf(line, "%15s %lu %zu", word, &number, &bytes) >= 1)
			say(word, obey(word, number, bytes), number);
	}
	return 0;
}
