/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "userspace/common/util.h"
#include "userspace/control/probe.h"

/* r0 = 0; exit: accepted wherever a program of its kind is. */
static int try_load_on(enum bpf_prog_type type, enum bpf_attach_type attach, int btf_id)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = attach,
		    .attach_btf_id = MAX(btf_id, 0));
	_cleanup_close_ int fd = -1;

	if (btf_id < 0)
		return btf_id;
	fd = bpf_prog_load(type, "probe", "GPL", insns, ARRAY_SIZE(insns), &opts);
	return fd < 0 ? fd : 0;
}

static int try_load(enum bpf_prog_type type, enum bpf_attach_type attach, const char *target)
{
	return try_load_on(type, attach, libbpf_find_vmlinux_btf_id(target, attach));
}

int probe_fexit(int btf_id)
{
	return try_load_on(BPF_PROG_TYPE_TRACING, BPF_TRACE_FEXIT, btf_id);
}

int probe_fexit_syscall(void)
{
	return try_load(BPF_PROG_TYPE_TRACING, BPF_TRACE_FEXIT, "__x64_sys_mlock");
}

int probe_fmod_ret_mlock(void)
{
	return try_load(BPF_PROG_TYPE_TRACING, BPF_MODIFY_RETURN, "__x64_sys_mlock");
}

int probe_lsm(void)
{
	return try_load(BPF_PROG_TYPE_LSM, BPF_LSM_MAC, "capable");
}

int probe_tracepoint(const char *name)
{
	return try_load(BPF_PROG_TYPE_TRACING, BPF_TRACE_RAW_TP, name);
}

int probe_iter(const char *name)
{
	return try_load(BPF_PROG_TYPE_TRACING, BPF_TRACE_ITER, name);
}

int probe_btf(void)
{
	return access("/sys/kernel/btf/vmlinux", R_OK) ? -errno : 0;
}

bool probe_is_new_enough(void)
{
	return libbpf_probe_bpf_helper(BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_FUNC_loop, NULL) != 0;
}
