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

/*
 * Read a whole hash map, bucket by bucket. Stepping from key to key would start
 * over whenever the last key was deleted meanwhile. *ret_keys and *ret_values are
 * malloc'd arrays; returns their length or a negative errno.
 */
static int read_all(int fd, size_t key_size, size_t value_size, void **ret_keys, void **ret_values)
{
	struct bpf_map_info info = {};
	uint32_t len = sizeof(info), n = 0, batch = 0;
	_cleanup_free_ char *keys = NULL;
	_cleanup_free_ char *values = NULL;
	int err = bpf_obj_get_info_by_fd(fd, &info, &len);

	if (err)
		return err;
	keys = calloc(info.max_entries, key_size);
	values = calloc(info.max_entries, value_size);
	if (!keys || !values)
		return -ENOMEM;
	for (bool first = true; !err; first = false) {
		uint32_t count = info.max_entries - n;

		err = bpf_map_lookup_batch(fd, first ? NULL : &batch, &batch, keys + n * key_size,
					   values + n * value_size, &count, NULL);
		if (!err || err == -ENOENT)
			n += count;
	}
	if (err != -ENOENT) /* which says that it was the last bucket */
		return err;
	*ret_keys = TAKE_PTR(keys);
	*ret_values = TAKE_PTR(values);
	return (int)n;
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
