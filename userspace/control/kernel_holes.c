/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include <bpf/bpf.h>

#include "userspace/common/util.h"
#include "userspace/control/kernel_priv.h"

static int read_all(int link_fd)
{
	_cleanup_close_ int iter = bpf_iter_create(link_fd);
	char buf[64];
	ssize_t n;

	if (iter < 0)
		return iter;
	do {
		n = read(iter, buf, sizeof(buf));
	} while (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)));
	return n < 0 ? -errno : 0;
}

int kernel_find_holes(uint32_t tid)
{
	_cleanup_close_ int prog = kernel_get_pinned("progs/gpu_find_holes");
	_cleanup_close_ int link = -1;
	union bpf_iter_link_info info = { .task.tid = tid };
	LIBBPF_OPTS(bpf_link_create_opts, opts, .iter_info = &info, .iter_info_len = sizeof(info));
	int err;

	if (prog < 0)
		return prog;
	link = bpf_link_create(prog, 0, BPF_TRACE_ITER, &opts);
	if (link < 0)
		return link == -ESRCH ? 0 : link;
	err = read_all(link);
	return err == -ESRCH ? 0 : err;
}
