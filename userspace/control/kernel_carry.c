/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "userspace/control/kernel_carry.h"
#include "userspace/control/kernel_priv.h"

enum { PROCESSES, THREADS, CGROUPS, BUFFERS, FILES, RANGES, CONFIG, MAPS };

/* Sizes as they are here; an older map's values may be shorter. */
static const struct {
	const char *name;
	size_t key_size, value_size;
} maps[MAPS] = {
	[PROCESSES] = { "processes", sizeof(__u64), sizeof(struct pincap_process) },
	[THREADS] = { "threads", sizeof(__u32), sizeof(struct pincap_thread) },
	[CGROUPS] = { "cgroups", sizeof(__u64), sizeof(struct pincap_cgroup) },
	[BUFFERS] = { "buffers", sizeof(struct pincap_buffer_key), sizeof(struct pincap_buffer) },
	[FILES] = { "files", sizeof(__u64), sizeof(struct pincap_file) },
	[RANGES] = { "ranges", sizeof(struct pincap_range_key), sizeof(struct pincap_range) },
	[CONFIG] = { "config", sizeof(__u32), sizeof(struct pincap_config) },
};

#define KEY_MAX	  sizeof(struct pincap_buffer_key)
#define VALUE_MAX 1024

/* What was taken over, to be looked for again. */
struct carried_buffer {
	struct pincap_buffer_key key;
	struct pincap_buffer buffer;
};

struct carried {
	struct pincap_process *records;
	struct carried_buffer *buffers;
	size_t n_records, n_buffers;
};

struct carry {
	int fds[MAPS]; /* of the older one */
	struct carried carried;
	int rest_fd; /* the new side's buffers, while the rest is looked for */
};

static int open_map(const char *dir, const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/maps/%s", dir, name);
	return bpf_obj_get(path);
}

/* -ESTALE: other keys than ours, or values that are no beginning of ours. */
static int check_map(int fd, int map)
{
	struct bpf_map_info info = {};
	uint32_t len = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &len))
		return -errno;
	return info.key_size == maps[map].key_size && info.value_size <= maps[map].value_size
		       ? 0
		       : -ESTALE;
}

struct carry *carry_close(struct carry *c)
{
	if (!c)
		return NULL;
	for (int i = 0; i < MAPS; i++)
		closep(&c->fds[i]);
	free(c->carried.records);
	free(c->carried.buffers);
	free(c);
	return NULL;
}

int carry_open(struct carry **ret, const char *old_dir)
{
	struct carry *c = malloc(sizeof(*c));
	struct pincap_config cfg;
	int err = 0;

	if (!c)
		return -ENOMEM;
	memset(c->fds, 0xff, sizeof(c->fds));
	c->carried = (struct carried){ 0 };
	for (int i = 0; i < MAPS && !err; i++) {
		c->fds[i] = open_map(old_dir, maps[i].name);
		err = c->fds[i] < 0 ? -ESTALE : check_map(c->fds[i], i);
	}
	if (!err) {
		carry_config(c, &cfg);
		if (cfg.abi < PINCAP_ABI_CARRIED || cfg.abi > PINCAP_ABI)
			err = -ESTALE;
	}
	if (err) {
		carry_close(c);
		return err;
	}
	*ret = c;
	return 0;
}

void carry_config(const struct carry *c, struct pincap_config *ret)
{
	uint32_t zero = 0;

	*ret = (struct pincap_config){ 0 };
	bpf_map_lookup_elem(c->fds[CONFIG], &zero, ret);
}

/* ---- walking an older map ---- */

/* `value` is filled up with zeroes to the size it has here. */
typedef int (*carry_fn)(struct carry *c, const void *key, void *value, int to);

static int each(struct carry *c, int map, carry_fn fn, int to)
{
	char key[KEY_MAX], next[KEY_MAX], value[VALUE_MAX];
	bool more = !bpf_map_get_next_key(c->fds[map], NULL, key);
	int err = 0;

	while (more && !err) {
		/* Before it is deleted, or the walk would begin anew. */
		more = !bpf_map_get_next_key(c->fds[map], key, next);
		memset(value, 0, sizeof(value));
		if (!bpf_map_lookup_elem(c->fds[map], key, value))
			err = fn(c, key, value, to);
		memcpy(key, next, sizeof(key));
	}
	return err;
}

/* Amounts come with the records. */
static int carry_cgroup(struct carry *c, const void *key, void *value, int to)
{
	struct pincap_cgroup *cg = value;

	(void)c;
	cg->current = cg->locked = cg->pinned = cg->gpu = cg->held = cg->in_flight = 0;
	cg->records = 0;
	cg->below_since = 0;
	cg->dead_since = 0;
	cg->taken = 0;
	return bpf_map_update_elem(to, key, cg, BPF_ANY) ? -errno : 0;
}

static int carry_as_it_is(struct carry *c, const void *key, void *value, int to)
{
	(void)c;
	return bpf_map_update_elem(to, key, value, BPF_ANY) ? -errno : 0;
}

static int grow(void *list, size_t n, size_t size)
{
	void *grown = reallocarray(*(void **)list, n + 1, size);

	if (!grown)
		return -ENOMEM;
	*(void **)list = grown;
	return 0;
}

static int carry_record(struct carry *c, const void *key, void *value, int to)
{
	const struct pincap_process *p = value;
	const struct pincap_carry all = {
		.birth = p->birth,
		.cgroup_id = p->cgroup_id,
		.locked = p->locked,
		.pinned = p->pinned,
		.gpu = (__s64)p->gpu,
		.svm = (__s64)p->svm,
		.held = p->held,
		.in_flight = p->in_flight,
		.small = p->small,
		.svm_head = p->svm_head,
	};
	int err = grow(&c->carried.records, c->carried.n_records, sizeof(*p));

	if (err)
		return err;
	c->carried.records[c->carried.n_records++] = *p;
	return p->mm ? carry_as_it_is(c, key, (void *)&all, to) : 0; /* 0: it is ending */
}

static int carry_buffer(struct carry *c, const void *key, void *value, int to)
{
	int err = grow(&c->carried.buffers, c->carried.n_buffers, sizeof(*c->carried.buffers));
	struct carried_buffer *b;

	if (err)
		return err;
	b = &c->carried.buffers[c->carried.n_buffers++];
	memcpy(&b->key, key, sizeof(b->key));
	memcpy(&b->buffer, value, sizeof(b->buffer));
	return carry_as_it_is(c, key, value, to);
}

static int carry_map(struct carry *c, int map, const char *new_dir, const char *name, carry_fn fn)
{
	_cleanup_close_ int to = open_map(new_dir, name ? name : maps[map].name);

	return to < 0 ? to : each(c, map, fn, to);
}

/* Have what is in `carried` added to the records. */
static int merge(const char *new_dir)
{
	_cleanup_close_ int link = -1, iter = -1;
	char path[512], nothing[64];

	snprintf(path, sizeof(path), "%s/links/carry", new_dir);
	link = bpf_obj_get(path);
	iter = link < 0 ? link : bpf_iter_create(link);
	if (iter < 0)
		return iter;
	return read(iter, nothing, sizeof(nothing)) < 0 ? -errno : 0;
}

int carry_all(struct carry *c, const char *new_dir)
{
	int err = carry_map(c, CGROUPS, new_dir, NULL, carry_cgroup);

	if (!err)
		err = carry_map(c, RANGES, new_dir, NULL, carry_as_it_is);
	if (!err)
		err = carry_map(c, FILES, new_dir, NULL, carry_as_it_is);
	if (!err)
		err = carry_map(c, BUFFERS, new_dir, NULL, carry_buffer);
	if (!err)
		err = carry_map(c, PROCESSES, new_dir, "carried", carry_record);
	if (!err)
		err = merge(new_dir);
	if (!err)
		err = carry_map(c, THREADS, new_dir, NULL, carry_as_it_is);
	return err;
}

/* ---- what happened in between ---- */

/* On top of what is noted of this address space already. */
static void note_gpu(int notes, const struct pincap_buffer_key *key, uint64_t mm, int64_t bytes)
{
	struct pincap_carry note = { 0 };

	if (bpf_map_lookup_elem(notes, &mm, &note))
		note.birth = key->birth;
	note.gpu += bytes;
	bpf_map_update_elem(notes, &mm, &note, BPF_ANY);
}

static int add_buffer(struct carry *c, const void *key, void *value, int notes)
{
	const struct pincap_buffer *b = value;

	if (!bpf_map_update_elem(c->rest_fd, key, value, BPF_NOEXIST))
		note_gpu(notes, key, b->mm, (int64_t)b->bytes);
	return 0;
}

/* Taken over, and the older side has lost it since. */
static void drop_buffers(struct carry *c, int notes)
{
	char value[VALUE_MAX];

	for (size_t i = 0; i < c->carried.n_buffers; i++) {
		const struct carried_buffer *b = &c->carried.buffers[i];

		if (bpf_map_lookup_elem(c->fds[BUFFERS], &b->key, value) &&
		    !bpf_map_delete_elem(c->rest_fd, &b->key))
			note_gpu(notes, &b->key, b->buffer.mm, -(int64_t)b->buffer.bytes);
	}
}

static void drop_records(struct carry *c, int notes)
{
	union {
		struct pincap_process p;
		char bytes[VALUE_MAX];
	} old;

	for (size_t i = 0; i < c->carried.n_records; i++) {
		const struct pincap_process *p = &c->carried.records[i];
		const struct pincap_carry gone = { .birth = p->birth, .gone = 1 };

		if (bpf_map_lookup_elem(c->fds[PROCESSES], &p->mm, &old) || old.p.birth != p->birth)
			bpf_map_update_elem(notes, &p->mm, &gone, BPF_ANY);
	}
}

uint32_t carry_files(const struct carry *c)
{
	uint64_t key, next;
	uint32_t n = 0;

	for (int err = bpf_map_get_next_key(c->fds[FILES], NULL, &key); !err; key = next, n++)
		err = bpf_map_get_next_key(c->fds[FILES], &key, &next);
	return n;
}

int carry_rest(struct carry *c, const char *new_dir)
{
	_cleanup_close_ int notes = open_map(new_dir, "carried");
	_cleanup_close_ int buffers = open_map(new_dir, "buffers");
	int err;

	if (notes < 0 || buffers < 0)
		return -ENOENT;
	c->rest_fd = buffers;
	err = each(c, BUFFERS, add_buffer, notes);
	drop_buffers(c, notes);
	if (!err)
		err = merge(new_dir);
	drop_records(c, notes);
	return err ? err : merge(new_dir);
}
