/* SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>

#include "userspace/cli/spans.h"

int spans_add(struct spans *s, uint64_t start, uint64_t end)
{
	struct span *grown = reallocarray(s->list, s->n + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	s->list = grown;
	s->list[s->n++] = (struct span){ start, end };
	return 0;
}

void spans_done(struct spans *s)
{
	free(s->list);
	*s = (struct spans){ 0 };
}

static int by_start(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

void spans_join(struct spans *s)
{
	size_t n = 0;

	if (!s->n)
		return;
	qsort(s->list, s->n, sizeof(*s->list), by_start);
	for (size_t i = 1; i < s->n; i++) {
		if (s->list[i].start <= s->list[n].end)
			s->list[n].end = MAX(s->list[n].end, s->list[i].end);
		else
			s->list[++n] = s->list[i];
	}
	s->n = n + 1;
}

uint64_t spans_bytes(const struct spans *s)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < s->n; i++)
		bytes += s->list[i].end - s->list[i].start;
	return bytes;
}

uint64_t spans_overlap(const struct spans *s, uint64_t start, uint64_t end)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < s->n; i++) {
		uint64_t from = MAX(start, s->list[i].start), to = MIN(end, s->list[i].end);

		bytes += from < to ? to - from : 0;
	}
	return bytes;
}

/* "    0: 0x7f7fa7000000/8388608" after "UserBufs:". */
int spans_parse_ring(FILE *f, struct spans *s)
{
	bool buffers = false;
	uint64_t at, len;
	char line[512];
	int err = 0;

	while (!err && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, "UserBufs:", 9))
			buffers = true;
		else if (line[0] != ' ')
			buffers = false;
		else if (buffers && sscanf(line, " %*u: 0x%" SCNx64 "/%" SCNu64, &at, &len) == 2)
			err = spans_add(s, at, at + len);
	}
	return err;
}

static bool is_ring(pid_t pid, const char *fd)
{
	char path[64], to[64];
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/fd/%.16s", (int)pid, fd);
	len = readlink(path, to, sizeof(to) - 1);
	if (len < 0)
		return false;
	to[len] = '\0';
	return streq(to, "anon_inode:[io_uring]");
}

int spans_read_rings(pid_t pid, struct spans *s)
{
	struct dirent *e;
	char path[64];
	int err = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	if (!d)
		return 0;
	while (!err && (e = readdir(d))) {
		_cleanup_fclose_ FILE *f = NULL;

		if (!is_ring(pid, e->d_name))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/fdinfo/%.16s", (int)pid, e->d_name);
		f = fopen(path, "re");
		err = f ? spans_parse_ring(f, s) : 0;
	}
	closedir(d);
	return err;
}
