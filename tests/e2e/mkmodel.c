/* SPDX-License-Identifier: MIT */
/*
 * mkmodel: writes a safetensors file to load. Contents are pseudo-random, a
 * checksum per tensor is in the header's metadata, and the header is padded so
 * that every tensor begins on a page.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

#include "tests/e2e/checksum.h"
#include "userspace/common/util.h"

#define MODEL_PAGE_BYTES 4096
#define MODEL_MIB	 (1ULL << 20)
#define MODEL_ROW	 1024 /* elements of two bytes */
#define MODEL_MAX_COUNT	 100000
#define MODEL_MAX_MIB	 (1 << 20)

struct model {
	uint64_t tensor_bytes;
	uint64_t count;
	uint64_t seed;
	uint64_t *checksums;
};

static uint64_t parse_number(const char *text, const char *what, uint64_t max)
{
	unsigned long long n;
	char *end;

	errno = 0;
	n = strtoull(text, &end, 0);
	if (errno || end == text || *end || strchr(text, '-') || n > max)
		errx(2, "%s '%s' is not a number up to %" PRIu64, what, text, max);
	return n;
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void write_all(int fd, const char *path, const void *data, size_t bytes, off_t offset)
{
	const char *p = data;
	ssize_t n;

	while (bytes) {
		n = pwrite(fd, p, bytes, offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			err(1, "write '%s'", path);
		p += n;
		bytes -= n;
		offset += n;
	}
}

/* Its length depends on the names and sizes only: checksums have a fixed width. */
static char *format_header(const struct model *m, size_t *ret_bytes)
{
	char *text = NULL;
	FILE *f = open_memstream(&text, ret_bytes);
	uint64_t i;

	if (!f)
		errx(1, "out of memory");
	fprintf(f, "{\"__metadata__\":{\"format\":\"pt\"");
	for (i = 0; i < m->count; i++)
		fprintf(f, ",\"checksum.blocks.%" PRIu64 ".weight\":\"%016" PRIx64 "\"", i,
			m->checksums[i]);
	fprintf(f, "}");
	for (i = 0; i < m->count; i++)
		fprintf(f,
			",\"blocks.%" PRIu64 ".weight\":{\"dtype\":\"F16\",\"shape\":[%" PRIu64
			",%d],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}",
			i, m->tensor_bytes / 2 / MODEL_ROW, MODEL_ROW, i * m->tensor_bytes,
			(i + 1) * m->tensor_bytes);
	fprintf(f, "}");
	while ((sizeof(uint64_t) + ftello(f)) % MODEL_PAGE_BYTES)
		fputc(' ', f);
	if (fclose(f))
		errx(1, "out of memory");
	return text;
}

static void write_header(const struct model *m, int fd, const char *path, size_t *ret_bytes)
{
	_cleanup_free_ char *text = format_header(m, ret_bytes);
	unsigned char length[sizeof(uint64_t)];
	size_t i;

	for (i = 0; i < sizeof(length); i++)
		length[i] = (uint64_t)*ret_bytes >> 8 * i;
	write_all(fd, path, length, sizeof(length), 0);
	write_all(fd, path, text, *ret_bytes, sizeof(length));
	*ret_bytes += sizeof(length);
}

static uint64_t write_tensor(const struct model *m, int fd, const char *path, uint64_t index,
			     off_t offset)
{
	static uint64_t words[MODEL_MIB / sizeof(uint64_t)];
	uint64_t state = CHECKSUM_START ^ (m->seed << 20) ^ (index + 1), sum = CHECKSUM_START;
	uint64_t done;
	size_t i;

	for (done = 0; done < m->tensor_bytes; done += sizeof(words)) {
		for (i = 0; i < ARRAY_SIZE(words); i++)
			words[i] = next_random(&state);
		sum = checksum_add(sum, words, sizeof(words));
		write_all(fd, path, words, sizeof(words), offset + done);
	}
	return sum;
}

static void write_model(struct model *m, int fd, const char *path)
{
	size_t start;
	uint64_t i;

	write_header(m, fd, path, &start);
	for (i = 0; i < m->count; i++)
		m->checksums[i] = write_tensor(m, fd, path, i, start + i * m->tensor_bytes);
	write_header(m, fd, path, &start);
}

int main(int argc, char **argv)
{
	struct model m = { .seed = 1 };
	int fd;

	if (argc < 4 || argc > 5) {
		fprintf(stderr, "usage: mkmodel FILE MIB_PER_TENSOR TENSORS [SEED]\n");
		return 2;
	}
	m.tensor_bytes = parse_number(argv[2], "size", MODEL_MAX_MIB) * MODEL_MIB;
	m.count = parse_number(argv[3], "number of tensors", MODEL_MAX_COUNT);
	if (argc > 4)
		m.seed = parse_number(argv[4], "seed", UINT32_MAX);
	if (!m.tensor_bytes || !m.count)
		errx(2, "a model has at least one tensor of at least 1 MiB");
	m.checksums = calloc(m.count, sizeof(*m.checksums));
	if (!m.checksums)
		errx(1, "out of memory");

	fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		err(1, "create '%s'", argv[1]);
	write_model(&m, fd, argv[1]);
	if (close(fd))
		err(1, "write '%s'", argv[1]);
	free(m.checksums);
	return 0;
}
