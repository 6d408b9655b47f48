/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include <bpf/bpf.h>

#include "userspace/control/kernel_priv.h"

/* Two CPUs may apply a decrease before its increase; at rest none is negative. */
static int64_t at_least_0(int64_t v)
{
	return v > 0 ? v : 0;
}

static void clamp(struct pincap_cgroup *cg)
{
	cg->current = at_least_0(cg->current);
	cg->locked = at_least_0(cg->locked);
	cg->pinned = at_least_0(cg->pinned);
	cg->gpu = at_least_0(cg->gpu);
	cg->held = at_least_0(cg->held);
	cg->in_flight = at_least_0(cg->in_flight);
}

int kernel_get_cgroup(struct kernel *k, uint64_t cgid, struct pincap_cgroup *ret)
{
	int err = bpf_map_lookup_elem(k->cgroups_fd, &cgid, ret);

	if (!err)
		clamp(ret);
	return err;
}

static int make_entry(struct kernel *k, uint64_t cgid, uint64_t parent, uint32_t level)
{
	const struct pincap_cgroup fresh = {
		.parent = parent,
		.level = level,
		.limit = PINCAP_UNLIMITED,
		.high = PINCAP_UNLIMITED,
	};
	int err = bpf_map_update_elem(k->cgroups_fd, &cgid, &fresh, BPF_NOEXIST);

	return err == -EEXIST ? 0 : err;
}

int kernel_change_budget(struct kernel *k, uint64_t cgid, const struct pincap_set_budget *b)
{
	struct pincap_set_budget arg = *b;
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &arg, .ctx_size_in = sizeof(arg));
	int err;

	arg.cgroup_id = cgid;
	err = bpf_prog_test_run_opts(k->set_budget_fd, &opts);
	return err ? err : (int)opts.retval;
}

int kernel_set_budget(struct kernel *k, const uint64_t *chain, unsigned int depth,
		      const struct pincap_set_budget *b)
{
	int err;

	if (!depth || depth > PINCAP_MAX_DEPTH)
		return -EINVAL;
	/* Root first: whoever finds an entry must find its ancestors. */
	for (unsigned int i = depth; i-- > 0;) {
		err = make_entry(k, chain[i], i + 1 < depth ? chain[i + 1] : 0, depth - 1 - i);
		if (err)
			return err;
	}
	return kernel_change_budget(k, chain[0], b);
}

/* Of a map that is read: entries, and how many there is room for. */
struct entries {
	size_t key_size, value_size;
	char *keys, *values;
	uint32_t count, room;
};

static int make_room(struct entries *e)
{
	uint32_t room = e->room ? 2 * e->room : 256;
	char *keys = reallocarray(e->keys, room, e->key_size), *values;

	if (!keys)
		return -ENOMEM;
	e->keys = keys;
	values = reallocarray(e->values, room, e->value_size);
	if (!values)
		return -ENOMEM;
	e->values = values;
	e->room = room;
	return 0;
}

/* One go: as many buckets as fit. -ENOENT: that was the last; -ENOSPC: not even one. */
static int read_buckets(int fd, struct entries *e, uint32_t *batch, bool first)
{
	uint32_t count = e->room - e->count;
	int err;

	err = bpf_map_lookup_batch(fd, first ? NULL : batch, batch,
				   e->keys + e->count * e->key_size,
				   e->values + e->count * e->value_size, &count, NULL);
	if (!err || err == -ENOENT)
		e->count += count;
	return err;
}

/*
 * Read a whole hash map, bucket by bucket. Stepping from key to key would start
 * over whenever the last key was deleted meanwhile. *ret_keys and *ret_values are
 * malloc'd arrays; returns their length or a negative errno. Takes the memory that
 * the entries need and not what a full map would: most are nearly empty.
 */
static int read_all(int fd, size_t key_size, size_t value_size, void **ret_keys, void **ret_values)
{
	struct entries e = { .key_size = key_size, .value_size = value_size };
	bool first = true;
	uint32_t batch = 0;
	int err;

	do {
		err = e.count == e.room ? make_room(&e) : 0;
		if (!err)
			err = read_buckets(fd, &e, &batch, first);
		if (err == -ENOSPC)
			err = make_room(&e);
		else
			first = false;
	} while (!err);
	*ret_keys = e.keys;
	*ret_values = e.values;
	return err == -ENOENT ? (int)e.count : err;
}

int kernel_each_cgroup(struct kernel *k, kernel_cgroup_fn fn, void *ctx)
{
	_cleanup_free_ struct pincap_cgroup *cgs = NULL;
	_cleanup_free_ uint64_t *ids = NULL;
	int n = read_all(k->cgroups_fd, sizeof(*ids), sizeof(*cgs), (void **)&ids, (void **)&cgs);
	int err = MIN(n, 0);

	for (int i = 0; i < n && !err; i++) {
		clamp(&cgs[i]);
		err = fn(ids[i], &cgs[i], ctx);
	}
	return err;
}

int kernel_each_process(struct kernel *k, kernel_process_fn fn, void *ctx)
{
	_cleanup_free_ struct pincap_process *ps = NULL;
	_cleanup_free_ uint64_t *keys = NULL;
	int n = read_all(k->processes_fd, sizeof(*keys), sizeof(*ps), (void **)&keys, (void **)&ps);
	int err = MIN(n, 0);

	for (int i = 0; i < n && !err; i++)
		if (ps[i].mm)
			err = fn(&ps[i], ctx);
	return err;
}

int kernel_each_buffer(struct kernel *k, kernel_buffer_fn fn, void *ctx)
{
	_cleanup_free_ struct pincap_buffer *bs = NULL;
	_cleanup_free_ struct pincap_buffer_key *keys = NULL;
	int n = read_all(k->buffers_fd, sizeof(*keys), sizeof(*bs), (void **)&keys, (void **)&bs);
	int err = MIN(n, 0);

	for (int i = 0; i < n && !err; i++)
		err = fn(&bs[i], ctx);
	return err;
}

int kernel_each_range(struct kernel *k, kernel_range_fn fn, void *ctx)
{
	_cleanup_free_ struct pincap_range_key *keys = NULL;
	_cleanup_free_ struct pincap_range *rs = NULL;
	int n = read_all(k->ranges_fd, sizeof(*keys), sizeof(*rs), (void **)&keys, (void **)&rs);
	int err = MIN(n, 0);

	for (int i = 0; i < n && !err; i++)
		err = fn(keys[i].birth, keys[i].start, rs[i].end, ctx);
	return err;
}

int kernel_get_overdue(struct kernel *k, uint64_t since_ns, uint64_t *ret_bytes)
{
	_cleanup_free_ struct pincap_thread *ts = NULL;
	_cleanup_free_ uint32_t *keys = NULL;
	int n = read_all(k->threads_fd, sizeof(*keys), sizeof(*ts), (void **)&keys, (void **)&ts);
	uint64_t sum = 0;

	for (int i = 0; i < n; i++)
		if (ts[i].since_ns < since_ns)
			sum += ts[i].lock + ts[i].driver;
	if (n >= 0)
		*ret_bytes = sum;
	return MIN(n, 0);
}
