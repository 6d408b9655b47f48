/* SPDX-License-Identifier: MIT */
/*
 * The checks follow the format's own rules: the header fits into the file, a
 * tensor's extent equals its shape times its type, and the extents cover the
 * data without holes or overlaps.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/e2e/safetensors.h"
#include "userspace/common/util.h"

#define HEADER_MAX_BYTES (100 << 20) /* the format's own bound */
#define LENGTH_BYTES	 8

struct reader {
	struct safetensors *s;
	const json_t *metadata;
	const char *data;
	uint64_t data_bytes;
	char *why;
	size_t why_size;
};

static const struct {
	const char *name;
	unsigned bytes;
} types[] = {
	{ "BOOL", 1 }, { "U8", 1 },  { "I8", 1 },  { "F8_E4M3", 1 }, { "F8_E5M2", 1 },
	{ "I16", 2 },  { "U16", 2 }, { "F16", 2 }, { "BF16", 2 },    { "I32", 4 },
	{ "U32", 4 },  { "F32", 4 }, { "I64", 8 }, { "U64", 8 },     { "F64", 8 },
};

static int bad(struct reader *r, const char *name, const char *what)
{
	snprintf(r->why, r->why_size, "%s%s%s", name ? name : "", name ? ": " : "", what);
	return -EBADMSG;
}

static unsigned type_bytes(const char *name)
{
	size_t i;

	for (i = 0; name && i < ARRAY_SIZE(types); i++)
		if (streq(types[i].name, name))
			return types[i].bytes;
	return 0;
}

static bool read_size(const json_t *value, uint64_t *ret)
{
	if (!json_is_integer(value) || json_integer_value(value) < 0)
		return false;
	*ret = json_integer_value(value);
	return true;
}

static int shape_bytes(struct reader *r, const char *name, const json_t *entry, uint64_t *ret)
{
	const json_t *shape = json_object_get(entry, "shape");
	uint64_t bytes = type_bytes(json_string_value(json_object_get(entry, "dtype"))), n;
	size_t i;

	if (!bytes)
		return bad(r, name, "unknown dtype");
	if (!json_is_array(shape))
		return bad(r, name, "no shape");
	for (i = 0; i < json_array_size(shape); i++) {
		if (!read_size(json_array_get(shape, i), &n))
			return bad(r, name, "bad shape");
		if (__builtin_mul_overflow(bytes, n, &bytes))
			return bad(r, name, "shape overflows");
	}
	*ret = bytes;
	return 0;
}

static int read_extent(struct reader *r, const char *name, const json_t *entry,
		       struct safetensors_tensor *t)
{
	const json_t *offsets = json_object_get(entry, "data_offsets");
	uint64_t begin, end, bytes;
	int err;

	if (json_array_size(offsets) != 2 || !read_size(json_array_get(offsets, 0), &begin) ||
	    !read_size(json_array_get(offsets, 1), &end))
		return bad(r, name, "bad data_offsets");
	if (begin > end || end > r->data_bytes)
		return bad(r, name, "data_offsets leave the file");
	err = shape_bytes(r, name, entry, &bytes);
	if (err)
		return err;
	if (bytes != end - begin)
		return bad(r, name, "data_offsets do not match the shape");
	t->data = (void *)(r->data + begin);
	t->bytes = bytes;
	return 0;
}

static int read_checksum(struct reader *r, struct safetensors_tensor *t)
{
	_cleanup_free_ char *key = NULL;
	const char *text;
	char *end;

	if (asprintf(&key, "checksum.%s", t->name) < 0)
		return -ENOMEM;
	text = json_string_value(json_object_get(r->metadata, key));
	if (!text)
		return 0;
	errno = 0;
	t->checksum = strtoull(text, &end, 16);
	if (errno || end == text || *end)
		return bad(r, t->name, "bad checksum");
	t->has_checksum = true;
	return 0;
}

static int read_tensor(struct reader *r, const char *name, const json_t *entry)
{
	struct safetensors_tensor *t = &r->s->tensors[r->s->count];
	int err;

	if (!json_is_object(entry))
		return bad(r, name, "not an object");
	t->name = strdup(name);
	if (!t->name)
		return -ENOMEM;
	r->s->count++;
	err = read_extent(r, name, entry, t);
	return err ? err : read_checksum(r, t);
}

static int compare_tensors(const void *a, const void *b)
{
	const struct safetensors_tensor *x = a, *y = b;

	if (x->data != y->data)
		return x->data < y->data ? -1 : 1;
	return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static int check_cover(struct reader *r)
{
	const char *at = r->data;
	size_t i;

	qsort(r->s->tensors, r->s->count, sizeof(*r->s->tensors), compare_tensors);
	for (i = 0; i < r->s->count; i++) {
		const struct safetensors_tensor *t = &r->s->tensors[i];

		if ((const char *)t->data != at)
			return bad(r, t->name, "a hole or an overlap before it");
		at += t->bytes;
	}
	return at == r->data + r->data_bytes ? 0 : bad(r, NULL, "data behind the last tensor");
}

static int read_tensors(struct reader *r, json_t *header)
{
	const char *name;
	json_t *entry;
	int err;

	r->metadata = json_object_get(header, "__metadata__");
	r->s->tensors = calloc(json_object_size(header) + 1, sizeof(*r->s->tensors));
	if (!r->s->tensors)
		return -ENOMEM;
	json_object_foreach (header, name, entry) {
		if (streq(name, "__metadata__"))
			continue;
		err = read_tensor(r, name, entry);
		if (err)
			return err;
	}
	return check_cover(r);
}

static int read_header(struct reader *r)
{
	const unsigned char *p = r->s->map;
	uint64_t bytes = 0;
	json_error_t error;
	json_t *header;
	int i, err;

	if (r->s->map_bytes < LENGTH_BYTES)
		return bad(r, NULL, "too short for a header");
	for (i = LENGTH_BYTES - 1; i >= 0; i--)
		bytes = bytes << 8 | p[i];
	if (bytes > HEADER_MAX_BYTES || bytes > r->s->map_bytes - LENGTH_BYTES)
		return bad(r, NULL, "the header leaves the file");
	r->data = (const char *)p + LENGTH_BYTES + bytes;
	r->data_bytes = r->s->map_bytes - LENGTH_BYTES - bytes;

	header = json_loadb((const char *)p + LENGTH_BYTES, bytes, JSON_REJECT_DUPLICATES, &error);
	if (!header)
		return bad(r, "header", error.text);
	err = json_is_object(header) ? read_tensors(r, header)
				     : bad(r, NULL, "the header is not an object");
	json_decref(header);
	return err;
}

static int map_file(struct safetensors *s, const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *p;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (!st.st_size)
		return 0;
	p = mmap(NULL, st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (p == MAP_FAILED)
		return -errno;
	s->map = p;
	s->map_bytes = st.st_size;
	return 0;
}

static void safetensors_freep(struct safetensors **s)
{
	safetensors_free(*s);
}

int safetensors_open(struct safetensors **ret, const char *path, char *why, size_t why_size)
{
	_cleanup_(safetensors_freep) struct safetensors *s = calloc(1, sizeof(*s));
	struct reader r = { .s = s, .why = why, .why_size = why_size };
	int err;

	if (!s)
		return -ENOMEM;
	err = map_file(s, path);
	if (!err)
		err = read_header(&r);
	if (err)
		return err;
	*ret = TAKE_PTR(s);
	return 0;
}

struct safetensors *safetensors_free(struct safetensors *s)
{
	size_t i;

	if (!s)
		return NULL;
	for (i = 0; i < s->count; i++)
		free(s->tensors[i].name);
	free(s->tensors);
	if (s->map)
		munmap(s->map, s->map_bytes);
	free(s);
	return NULL;
}
