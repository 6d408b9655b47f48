/* SPDX-License-Identifier: MIT */
/*
 * The files of the topology: one node for the processors, one for the GPU, in
 * the kernel's own format.
 */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>
#include <linux/kfd_sysfs.h>

#include "tests/kfd/shim.h"
#include "userspace/common/util.h"

#define VRAM_BYTES (16ULL << 30)
/* The queue packet processor's and the copy engines' firmware. */
#define FW_VERSION	468U
#define SDMA_FW_VERSION 430U
/* Processor numbers of a GPU start here, so that they differ from any CPU's. */
#define GPU_SIMD_BASE 2147487744u

/* Real cards, of one generation each. */
static const struct gpu_model {
	int gfx;
	const char *name;
	unsigned device_id, target_version;
	unsigned wave_size, units, simds_per_unit, arrays, units_per_array;
} models[] = {
	{ 900, "vega10", 0x687f, 90000, 64, 64, 4, 4, 16 },
	{ 1030, "sienna_cichlid", 0x73bf, 100300, 32, 80, 2, 8, 10 },
};

static const struct gpu_model *find_model(int gfx)
{
	return gfx == 1030 ? &models[1] : &models[0];
}

static int generation(char *buf, size_t size, int gfx)
{
	(void)gfx;
	return snprintf(buf, size, "1\n");
}

static int system_properties(char *buf, size_t size, int gfx)
{
	(void)gfx;
	return snprintf(buf, size, "platform_oem 0\nplatform_id 0\nplatform_rev 0\n");
}

static int cpu_id(char *buf, size_t size, int gfx)
{
	(void)gfx;
	return snprintf(buf, size, "0\n");
}

static int cpu_name(char *buf, size_t size, int gfx)
{
	(void)gfx;
	return snprintf(buf, size, "\n");
}

static int cpu_properties(char *buf, size_t size, int gfx)
{
	(void)gfx;
	return snprintf(buf, size,
			"cpu_cores_count %ld\nsimd_count 0\nmem_banks_count 1\ncaches_count 1\n"
			"io_links_count 1\np2p_links_count 0\ncpu_core_id_base 0\n"
			"simd_id_base 0\nmax_waves_per_simd 0\nlds_size_in_kb 0\n"
			"gds_size_in_kb 0\nnum_gws 0\nwave_front_size 0\narray_count 0\n"
			"simd_arrays_per_engine 0\ncu_per_simd_array 0\nsimd_per_cu 0\n"
			"max_slots_scratch_cu 0\ngfx_target_version 0\nvendor_id 0\n"
			"device_id 0\nlocation_id 0\ndomain 0\ndrm_render_minor 0\nhive_id 0\n"
			"num_sdma_engines 0\nnum_sdma_xgmi_engines 0\n"
			"num_sdma_queues_per_engine 0\nnum_cp_queues 0\n"
			"max_engine_clk_ccompute 3000\n",
			sysconf(_SC_NPROCESSORS_ONLN));
}

static int cpu_memory(char *buf, size_t size, int gfx)
{
	uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);

	(void)gfx;
	return snprintf(buf, size,
			"heap_type 0\nsize_in_bytes %" PRIu64 "\nflags 0\nwidth 64\n"
			"mem_clk_max 3200\n",
			bytes);
}

static int cpu_cache(char *buf, size_t size, int gfx)
{
	(void)gfx;
	return snprintf(buf, size,
			"processor_id_low 0\nlevel 1\nsize 32\ncache_line_size 64\n"
			"cache_lines_per_tag 1\nassociation 8\nlatency 0\ntype 5\n"
			"sibling_map 1\n");
}

static int format_link(char *buf, size_t size, int from, int to)
{
	return snprintf(buf, size,
			"type 2\nversion_major 0\nversion_minor 0\nnode_from %d\nnode_to %d\n"
			"weight 20\nmin_latency 0\nmax_latency 0\nmin_bandwidth 312\n"
			"max_bandwidth 16000\nrecommended_transfer_size 0\nflags 1\n",
			from, to);
}

static int cpu_link(char *buf, size_t size, int gfx)
{
	(void)gfx;
	return format_link(buf, size, 0, 1);
}

static int gpu_link(char *buf, size_t size, int gfx)
{
	(void)gfx;
	return format_link(buf, size, 1, 0);
}

static int gpu_id(char *buf, size_t size, int gfx)
{
	(void)gfx;
	return snprintf(buf, size, "%u\n", KFD_EMU_GPU_ID);
}

static int gpu_name(char *buf, size_t size, int gfx)
{
	return snprintf(buf, size, "%s\n", find_model(gfx)->name);
}

/* Without the SVM API the runtime registers memory as buffers. */
static uint32_t gpu_capability(void)
{
	uint32_t svm = shim_config()->has_svm ? HSA_CAP_SVMAPI_SUPPORTED : 0;

	return svm | HSA_CAP_WATCH_POINTS_SUPPORTED | 2 << HSA_CAP_WATCH_POINTS_TOTALBITS_SHIFT |
	       HSA_CAP_DOORBELL_TYPE_2_0 << HSA_CAP_DOORBELL_TYPE_TOTALBITS_SHIFT;
}

static int gpu_properties(char *buf, size_t size, int gfx)
{
	const struct gpu_model *m = find_model(gfx);

	return snprintf(buf, size,
			"cpu_cores_count 0\nsimd_count %u\nmem_banks_count 1\ncaches_count 1\n"
			"io_links_count 1\np2p_links_count 0\ncpu_core_id_base 0\n"
			"simd_id_base %u\nmax_waves_per_simd 10\nlds_size_in_kb 64\n"
			"gds_size_in_kb 0\nnum_gws 64\nwave_front_size %u\narray_count %u\n"
			"simd_arrays_per_engine 1\ncu_per_simd_array %u\nsimd_per_cu %u\n"
			"max_slots_scratch_cu 32\ngfx_target_version %u\nvendor_id 4098\n"
			"device_id %u\nlocation_id 768\ndomain 0\ndrm_render_minor 128\n"
			"hive_id 0\nnum_sdma_engines 2\nnum_sdma_xgmi_engines 0\n"
			"num_sdma_queues_per_engine 8\nnum_cp_queues 24\n"
			"max_engine_clk_fcompute 1630\nlocal_mem_size %llu\nfw_version %u\n"
			"capability %u\ndebug_prop 0\nsdma_fw_version %u\nunique_id 1234567\n"
			"num_xcc 1\nmax_engine_clk_ccompute 3000\n",
			m->units * m->simds_per_unit, GPU_SIMD_BASE, m->wave_size, m->arrays,
			m->units_per_array, m->simds_per_unit, m->target_version, m->device_id,
			VRAM_BYTES, FW_VERSION, gpu_capability(), SDMA_FW_VERSION);
}

static int gpu_memory(char *buf, size_t size, int gfx)
{
	(void)gfx;
	return snprintf(buf, size,
			"heap_type 1\nsize_in_bytes %llu\nflags 0\nwidth 2048\n"
			"mem_clk_max 945\n",
			VRAM_BYTES);
}

static int gpu_cache(char *buf, size_t size, int gfx)
{
	(void)gfx;
	return snprintf(buf, size,
			"processor_id_low %u\nlevel 2\nsize 4096\ncache_line_size 64\n"
			"cache_lines_per_tag 1\nassociation 16\nlatency 0\ntype 9\n"
			"sibling_map 1\n",
			GPU_SIMD_BASE);
}

static int module_state(char *buf, size_t size, int gfx)
{
	(void)gfx;
	return snprintf(buf, size, "live\n");
}

static int module_version(char *buf, size_t size, int gfx)
{
	(void)gfx;
	return snprintf(buf, size, "6.10.5\n");
}

#define TOPOLOGY "kfd/topology/"
#define CPU	 TOPOLOGY "nodes/0/"
#define GPU	 TOPOLOGY "nodes/1/"

/* The runtime refuses a node without caches, hence the token ones. */
const struct topology_file topology_files[] = {
	{ TOPOLOGY "generation_id", generation },
	{ TOPOLOGY "system_properties", system_properties },
	{ CPU "gpu_id", cpu_id },
	{ CPU "name", cpu_name },
	{ CPU "properties", cpu_properties },
	{ CPU "mem_banks/0/properties", cpu_memory },
	{ CPU "caches/0/properties", cpu_cache },
	{ CPU "io_links/0/properties", cpu_link },
	{ CPU "p2p_links/", NULL },
	{ CPU "perf/", NULL },
	{ GPU "gpu_id", gpu_id },
	{ GPU "name", gpu_name },
	{ GPU "properties", gpu_properties },
	{ GPU "mem_banks/0/properties", gpu_memory },
	{ GPU "caches/0/properties", gpu_cache },
	{ GPU "io_links/0/properties", gpu_link },
	{ GPU "p2p_links/", NULL },
	{ GPU "perf/", NULL },
	{ "amdgpu/initstate", module_state },
	{ "amdgpu/version", module_version },
	{ 0 },
};
