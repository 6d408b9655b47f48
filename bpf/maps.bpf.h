/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * The maps, and the constants the loader sets. All hash maps are preallocated: a
 * tracepoint must not fail because the loader's memory cgroup is full. None
 * evicts: what was added must be there to be subtracted. The loader scales the
 * sizes (kernel_load.c).
 */
#ifndef PINCAP_MAPS_BPF_H
#define PINCAP_MAPS_BPF_H

#include "kernel.bpf.h"

const volatile __u32 page_shift = 12;	    /* of the page size */
const volatile __u32 processes_max = 65536; /* entries of `processes` */

/* Shown by bpftool prog show. */
const char bpf_metadata_tool[] SEC(".rodata") = "pincap";
const volatile char bpf_metadata_version[32] SEC(".rodata");

/*
 * 0, which the verifier cannot know. Before Linux 6.7 it looks at the body of a bpf_loop,
 * or of another callback, for its first turn only, takes what is a constant then for one
 * in every turn, and drops the branches that this rules out. So what a body reads and
 * has changed in an earlier turn begins as this.
 */
volatile __u64 unknown_0;

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u64);
	__type(value, struct pincap_process);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, u32);
	__type(value, struct pincap_thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 32768);
	__type(key, u64);
	__type(value, struct pincap_cgroup);
} cgroups SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__type(key, struct pincap_buffer_key);
	__type(value, struct pincap_buffer);
} buffers SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, u64);
	__type(value, struct pincap_file);
} files SEC(".maps");

#define RANGES_MAX 65536

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, RANGES_MAX);
	__type(key, struct pincap_range_key);
	__type(value, struct pincap_range);
} ranges SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pincap_config);
} config SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pincap_stats);
} stats SEC(".maps");

static __always_inline struct pincap_config *config_get(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&config, &zero);
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct pincap_gate);
} gate SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 256 << 10);
} events SEC(".maps");

#define STAT(name)                                                                 \
	do {                                                                       \
		u32 zero_ = 0;                                                     \
		struct pincap_stats *stats_ = bpf_map_lookup_elem(&stats, &zero_); \
		if (stats_)                                                        \
			__sync_fetch_and_add(&stats_->name, 1);                    \
	} while (0)

#endif
