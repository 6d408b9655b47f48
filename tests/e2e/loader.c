/* SPDX-License-Identifier: MIT */
/*
 * loader: loads a model as ComfyUI does. It maps the file, registers every
 * tensor with the GPU runtime, keeps those pageable that are refused, copies
 * all of them to the GPU and back, and verifies what came back. With --work it
 * has memory of its own besides, which it uses between the passes. It never asks
 * for a budget: it is the ordinary program that pincap is to govern.
 */
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <hip/hip_runtime_api.h>

#include "tests/e2e/checksum.h"
#include "tests/e2e/safetensors.h"
#include "tests/e2e/work.h"
#include "userspace/common/util.h"

#define WARM_UP_BYTES 65536

enum { EXIT_WRONG = 1, EXIT_USAGE = 2, EXIT_NO_GPU = 3 };
enum { OPT_PAUSE = 1, OPT_LOOP, OPT_JSON, OPT_WORK };

static const char usage[] = "usage: loader FILE [--pause] [--loop N] [--work MIB] [--json]\n";

struct options {
	const char *path;
	unsigned long passes; /* after the first */
	unsigned long work_mib;
	bool is_pausing;
	bool is_json;
};

struct loader {
	struct options options;
	struct safetensors *model;
	bool *is_pinned;    /* by tensor */
	uint64_t *expected; /* checksum by tensor */
	size_t pinned, verified;
	uint64_t pinned_bytes;
	uint64_t register_calls;
	hipStream_t stream;
	void *device;
	struct work work; /* what the program needs besides the model */
	size_t work_lost; /* pages of it that were not as they had been left */
	char *back;	  /* where tensors come back to: never registered */
};

static unsigned long parse_number(const char *text, const char *what)
{
	unsigned long n;
	char *end;

	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno || end == text || *end || strchr(text, '-'))
		errx(EXIT_USAGE, "'%s' is not a number of %s", text, what);
	return n;
}

static void parse_options(struct options *o, int argc, char **argv)
{
	static const struct option options[] = {
		{ "pause", no_argument, NULL, OPT_PAUSE },
		{ "loop", required_argument, NULL, OPT_LOOP },
		{ "work", required_argument, NULL, OPT_WORK },
		{ "json", no_argument, NULL, OPT_JSON },
		{ 0 },
	};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case OPT_PAUSE:
			o->is_pausing = true;
			break;
		case OPT_LOOP:
			o->passes = parse_number(optarg, "passes");
			break;
		case OPT_WORK:
			o->work_mib = parse_number(optarg, "MiB");
			break;
		case OPT_JSON:
			o->is_json = true;
			break;
		default:
			fputs(usage, stderr);
			exit(EXIT_USAGE);
		}
	}
	if (optind + 1 != argc) {
		fputs(usage, stderr);
		exit(EXIT_USAGE);
	}
	o->path = argv[optind];
}

/* Whoever drives the test answers each line with one of its own. */
static void pause_for_test(struct loader *l)
{
	int c;

	fflush(stdout);
	if (!l->options.is_pausing)
		return;
	do {
		c = getchar();
	} while (c != '\n' && c != EOF);
	if (c == EOF)
		l->options.is_pausing = false;
}

static void find_gpu(void)
{
	hipError_t e;
	int n = 0;

	e = hipInit(0);
	if (e == hipSuccess)
		e = hipGetDeviceCount(&n);
	if (e != hipSuccess || n < 1)
		errx(EXIT_NO_GPU, "no GPU: %s", hipGetErrorString(e));
}

static void open_model(struct loader *l)
{
	char why[256] = "";
	int ret = safetensors_open(&l->model, l->options.path, why, sizeof(why));

	if (ret == -EBADMSG)
		errx(EXIT_WRONG, "'%s' is not a safetensors file: %s", l->options.path, why);
	if (ret)
		errx(EXIT_WRONG, "open '%s': %s", l->options.path, strerror(-ret));
}

static size_t largest_tensor(const struct safetensors *model)
{
	size_t i, bytes = 1;

	for (i = 0; i < model->count; i++)
		bytes = MAX(bytes, model->tensors[i].bytes);
	return bytes;
}

/* Files of other origin have no checksums: then what is read is what counts. */
static void note_expected(struct loader *l)
{
	size_t i;

	for (i = 0; i < l->model->count; i++) {
		const struct safetensors_tensor *t = &l->model->tensors[i];

		l->expected[i] = t->has_checksum ? t->checksum
						 : checksum_add(CHECKSUM_START, t->data, t->bytes);
	}
}

static void check_hip(hipError_t e, const char *what)
{
	if (e != hipSuccess)
		errx(EXIT_WRONG, "%s: %s", what, hipGetErrorString(e));
}

static void prepare(struct loader *l)
{
	size_t bytes = largest_tensor(l->model);

	l->is_pinned = calloc(l->model->count + 1, sizeof(*l->is_pinned));
	l->expected = calloc(l->model->count + 1, sizeof(*l->expected));
	l->back = calloc(1, bytes);
	if (!l->is_pinned || !l->expected || !l->back)
		errx(EXIT_WRONG, "out of memory");
	if (work_init(&l->work, l->options.work_mib << 20))
		errx(EXIT_WRONG, "out of memory");
	note_expected(l);
	check_hip(hipStreamCreate(&l->stream), "create a stream");
	check_hip(hipMalloc(&l->device, bytes), "allocate GPU memory");
}

/* The runtime makes its queues at first use, each with memory of its own. Having
 * them all before the model comes keeps its share constant from here on, and a
 * queue that can not be had is an error now instead of a crash later. */
static void warm_up(struct loader *l)
{
	size_t bytes = MIN(WARM_UP_BYTES, largest_tensor(l->model));

	check_hip(hipMemcpy(l->device, l->back, bytes, hipMemcpyHostToDevice), "first copy");
	check_hip(hipMemcpy(l->back, l->device, bytes, hipMemcpyDeviceToHost), "first copy");
	check_hip(hipMemcpyAsync(l->device, l->back, bytes, hipMemcpyHostToDevice, l->stream),
		  "first copy");
	check_hip(hipMemcpyAsync(l->back, l->device, bytes, hipMemcpyDeviceToHost, l->stream),
		  "first copy");
	check_hip(hipStreamSynchronize(l->stream), "first copy");
}

/* A refusal is no error: the tensor stays pageable. The runtime's own memory of
 * it is cleared, or a later check would stumble over it. */
static void try_register(struct loader *l, size_t i)
{
	struct safetensors_tensor *t = &l->model->tensors[i];
	hipError_t e;

	if (!t->bytes)
		return;
	l->register_calls++;
	e = hipHostRegister(t->data, t->bytes, hipHostRegisterDefault);
	if (e != hipSuccess) {
		(void)hipGetLastError();
		return;
	}
	l->is_pinned[i] = true;
	l->pinned++;
	l->pinned_bytes += t->bytes;
}

static void register_all(struct loader *l)
{
	size_t i;

	for (i = 0; i < l->model->count; i++) {
		try_register(l, i);
		if (!l->options.is_pausing)
			continue;
		printf("%s %zu\n", l->is_pinned[i] ? "registered" : "refused", i + 1);
		pause_for_test(l);
	}
}

static hipError_t copy_there_and_back(struct loader *l, const struct safetensors_tensor *t)
{
	hipError_t e;

	e = hipMemcpyAsync(l->device, t->data, t->bytes, hipMemcpyHostToDevice, l->stream);
	if (e == hipSuccess)
		e = hipStreamSynchronize(l->stream);
	/* So that data of the tensor before can not pass for this one's. */
	memset(l->back, 0, t->bytes);
	if (e == hipSuccess)
		e = hipMemcpyAsync(l->back, l->device, t->bytes, hipMemcpyDeviceToHost, l->stream);
	if (e == hipSuccess)
		e = hipStreamSynchronize(l->stream);
	return e;
}

static bool verify_tensor(struct loader *l, size_t i)
{
	const struct safetensors_tensor *t = &l->model->tensors[i];
	hipError_t e = t->bytes ? copy_there_and_back(l, t) : hipSuccess;

	if (e != hipSuccess) {
		warnx("copy '%s': %s", t->name, hipGetErrorString(e));
		return false;
	}
	if (checksum_add(CHECKSUM_START, l->back, t->bytes) != l->expected[i]) {
		warnx("copy '%s': wrong checksum", t->name);
		return false;
	}
	return true;
}

/* Returns how many copies were right; the total is of the worst pass. */
static size_t verify_all(struct loader *l)
{
	size_t i, n = 0;

	for (i = 0; i < l->model->count; i++)
		n += verify_tensor(l, i);
	l->verified = MIN(l->verified, n);
	return n;
}

static void run_pass(struct loader *l, unsigned long pass)
{
	size_t i, n;

	for (i = 0; i < l->model->count; i++)
		if (!l->is_pinned[i])
			try_register(l, i);
	n = verify_all(l);
	l->work_lost += work_use(&l->work);
	printf("pass %lu: %zu pinned, %zu pageable, %zu verified\n", pass, l->pinned,
	       l->model->count - l->pinned, n);
	pause_for_test(l);
}

static void print_result(const struct loader *l)
{
	size_t count = l->model->count;

	if (l->options.is_json)
		printf("{\"pinned\": %zu, \"pageable\": %zu, \"verified\": %zu, \"tensors\": %zu, "
		       "\"pinned_bytes\": %" PRIu64 ", \"register_calls\": %" PRIu64 "}\n",
		       l->pinned, count - l->pinned, l->verified, count, l->pinned_bytes,
		       l->register_calls);
	else
		printf("%zu of %zu pinned, %zu pageable; copies verified %zu of %zu\n", l->pinned,
		       count, count - l->pinned, l->verified, count);
	fflush(stdout);
}

static bool release_all(struct loader *l)
{
	bool is_fine = true;
	hipError_t e;
	size_t i;

	for (i = 0; i < l->model->count; i++) {
		if (!l->is_pinned[i])
			continue;
		e = hipHostUnregister(l->model->tensors[i].data);
		if (e != hipSuccess) {
			warnx("unregister '%s': %s", l->model->tensors[i].name,
			      hipGetErrorString(e));
			is_fine = false;
		}
	}
	if (hipFree(l->device) != hipSuccess || hipStreamDestroy(l->stream) != hipSuccess)
		is_fine = false;
	work_done(&l->work);
	free(l->back);
	free(l->expected);
	free(l->is_pinned);
	l->model = safetensors_free(l->model);
	return is_fine;
}

int main(int argc, char **argv)
{
	struct loader l = { .verified = SIZE_MAX };
	unsigned long pass;
	bool is_right;

	parse_options(&l.options, argc, argv);
	open_model(&l);
	find_gpu();
	prepare(&l);
	warm_up(&l);
	register_all(&l);
	verify_all(&l);
	for (pass = 1; pass <= l.options.passes; pass++)
		run_pass(&l, pass);
	print_result(&l);
	if (l.work_lost)
		warnx("%zu pages of work lost", l.work_lost);
	is_right = l.verified == l.model->count && !l.work_lost;
	if (!release_all(&l))
		is_right = false;
	return is_right ? 0 : EXIT_WRONG;
}
