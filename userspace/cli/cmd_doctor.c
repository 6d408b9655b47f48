/* SPDX-License-Identifier: MIT */
#include <argp.h>
#include <errno.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "userspace/cli/attribution.h"
#include "userspace/cli/cli.h"
#include "userspace/cli/doctor_selftest.h"
#include "userspace/common/cgroup.h"
#include "userspace/common/log.h"
#include "userspace/common/size.h"
#include "userspace/control/control_client.h"
#include "userspace/control/kernel.h"
#include "userspace/control/losses.h"
#include "userspace/control/probe.h"

static const char *const row_format = "  %-24s %-9s %s\n";

static void row(const char *name, const char *state, const char *note)
{
	printf(row_format, name, state, note);
}

static void row_err(const char *name, int err, const char *fine, const char *without)
{
	char note[256];

	if (!err) {
		row(name, "yes", fine);
		return;
	}
	snprintf(note, sizeof(note), "%s; %s", strerror(-err), without);
	row(name, err == -EPERM || err == -EACCES ? "refused" : "no", note);
}

/* What counting wakes up on, the cost it has, and what its absence costs. */
static const struct trigger {
	const char *link;
	const char *what;
} triggers[] = {
	{ "mm_exited", "a dead address space is uncharged at once" },
	{ "process_forked", "a newborn address space starts at 0" },
	{ "process_execed", "likewise after exec" },
	{ "thread_exited", "requests that died with their thread are dropped" },
	{ "task_attached", "migration between cgroups" },
	{ "cgroup_removed", "removal of cgroups" },
	{ "ring_registered", "io_uring's fixed buffers (unregistered ones within one sweep)" },
	{ "sweep", "every task, at start and each second of a run; the truth" },
	{ "admit_setsockopt", "admission: charge, uncharge" },
	{ "admit_getsockopt", "admission: settle, status" },
};

/* What is in force, and why nothing better is. */
static void show_choices(void)
{
	const char *gpu = kernel_gpu_trigger_loaded();
	int fexit_err = probe_fexit_syscall();
	char note[256];

	if (streq(kernel_trigger(), "fexit"))
		snprintf(note, sizeof(note),
			 "locked_vm, at the end of each call that changes it; costs nothing else");
	else
		snprintf(note, sizeof(note),
			 "locked_vm, at every release of an mmap lock, because fexit %s%s",
			 fexit_err ? "is refused: " : "was not wanted",
			 fexit_err ? strerror(-fexit_err) : "");
	row("trigger", kernel_trigger(), note);
	if (streq(gpu, "driver"))
		snprintf(note, sizeof(note), "amdgpu's own functions; stand-ins by system call");
	else if (streq(gpu, "syscall"))
		snprintf(note, sizeof(note),
			 "ioctl and what unmaps; amdgpu's own functions were "
			 "not known at load, or not wanted");
	else
		snprintf(note, sizeof(note), "each system call pays some 50 ns, because fexit %s%s",
			 fexit_err ? "is refused: " : "was not wanted",
			 fexit_err ? strerror(-fexit_err) : "");
	row("GPU trigger", kernel_gpu_trigger(), note);
}

static void show_triggers(void)
{
	printf("In use:\n");
	show_choices();
	for (size_t i = 0; i < ARRAY_SIZE(triggers); i++)
		row(triggers[i].link, kernel_has_link(triggers[i].link) ? "attached" : "off",
		    triggers[i].what);
}

static void show_kernel(void)
{
	struct utsname u;

	if (!uname(&u))
		printf("Kernel %s permits:\n", u.release);
	row_err("BTF", probe_btf(), "/sys/kernel/btf/vmlinux", "nothing can be loaded without it");
	row_err("tracepoints (tp_btf)", probe_tracepoint("mmap_lock_released"),
		"the triggers above", "no counting");
	row_err("task iterator", probe_iter("task"), "the sweep", "no counting");
	row_err("fexit on system calls", probe_fexit_syscall(), "the best trigger",
		"counting pays a little at every change of a mapping instead");
	row_err("fmod_ret on mlock", probe_fmod_ret_mlock(),
		"possible; this version does not use it",
		"the kernel cannot refuse mlock to programs without the library");
	row_err("LSM programs", probe_lsm(), "possible; this version does not use them",
		"CAP_IPC_LOCK cannot be withheld from a full cgroup");
}

static void show_losses(struct kernel *k)
{
	struct loss lost[LOSSES_MAX];
	struct pincap_stats st;
	char note[256];
	size_t n;

	if (kernel_get_stats(k, &st))
		return;
	n = losses_find(&st, lost);
	if (!n)
		return;
	printf("INCOMPLETE since the load:\n");
	for (size_t i = 0; i < n; i++) {
		snprintf(note, sizeof(note), "%llu times; %s", (unsigned long long)lost[i].times,
			 lost[i].remedy);
		row(lost[i].name, "lost", note);
	}
}

static bool every_process_in_root(void)
{
	_cleanup_free_ char *cgpath = NULL;

	return !cgroup_of_pid(0, &cgpath) && streq(cgpath, "/") && !cgroup_of_pid(1, &cgpath) &&
	       streq(cgpath, "/");
}

static void describe(const struct control_status *st, char *text, size_t size)
{
	char above[SIZE_FORMAT_BYTES], reserve[SIZE_FORMAT_BYTES];
	uint64_t distance = (uint64_t)(st->above_bytes < 0 ? -st->above_bytes : st->above_bytes);
	int n = snprintf(text, size, "%llu budgets, %llu over, %llu libraries (%llu deaf)%s",
			 (unsigned long long)st->budgets, (unsigned long long)st->over,
			 (unsigned long long)st->libraries, (unsigned long long)st->deaf,
			 st->dry_run ? "; dry run: nothing is refused" : "");

	if (st->reserve_bytes)
		snprintf(text + n, size - (size_t)n, "; the host is %s %s its reserve of %s",
			 size_format(distance, above), st->above_bytes < 0 ? "below" : "above",
			 size_format(st->reserve_bytes, reserve));
}

static void show_daemon(void)
{
	const struct control_request req = { .kind = CONTROL_STATUS };
	struct control_reply reply;
	char text[512];
	int err = control_ask(&req, &reply);

	if (control_is_absent(err)) {
		row("pincapd", "no", "budgets are those set by 'pincap run' and 'pincap set'");
		return;
	}
	if (err) {
		row("pincapd", "?", strerror(-err));
		return;
	}
	describe(&reply.status, text, sizeof(text));
	row("pincapd", "yes", text);
	if (reply.text[0])
		row("", "note", reply.text);
}

static void show_host(void)
{
	const char *mount = cgroup_mount();
	struct stat st;

	printf("Host:\n");
	row("cgroup v2", mount ? "yes" : "no", mount ? mount : "not mounted; nothing to charge");
	if (mount && every_process_in_root())
		row("", "note",
		    "process 1 and this shell are in its root: workloads outside of 'pincap run' "
		    "cannot be told apart");
	row("/dev/kfd", stat("/dev/kfd", &st) ? "no" : "yes",
	    "AMD's GPU driver; its ioctls are read while it is there, or --kfd names a file");
}

static int on_process(const struct pincap_process *p, void *ctx)
{
	attribution_add(ctx, p);
	return 0;
}

static void show_attribution(struct kernel *k)
{
	struct attribution a = { 0 };

	if (!kernel_each_process(k, on_process, &a) && attribution_fails(&a))
		row("", "note", ATTRIBUTION_FAILS);
}

static void show_blind_spots(void)
{
	printf("Seen in part, or by no counter of the kernel:\n");
	row("NVIDIA host memory", "held", "counted only when asked for through the library");
	row("XDP umem, MSG_ZEROCOPY", "no", "accounted per user, or not at all with CAP_IPC_LOCK");
	row("SHM_LOCK", "apart", "accounted per user: in stat and explain, in no cgroup's sum");
	row("hugetlb", "no", "never counted as locked");
	row("32-bit programs", "unmanaged",
	    "counted; the kernel does not pass their socket options on");
	row("GPU memory from before", "no",
	    "what a process had the driver hold when pincap was loaded: restart it");
	row("SVM ranges", "yes", "memory that goes by brk or shmdt: within one sweep");
	row("DRM buffers", "yes", "those left in a render node that was closed: within one sweep");
	row("MCL_FUTURE, MAP_LOCKED", "counted",
	    "what they lock later is not asked for, and not refused");
}

static int self_test(struct kernel *k)
{
	int counting = selftest_counting(k), admission = selftest_admission();

	printf("Self-test:\n");
	row_err("counting", counting, "a locked page equals VmLck to the byte", "CANNOT COUNT");
	row_err("admission", admission, "charge, settle and uncharge are answered",
		"CANNOT REFUSE");
	return counting || admission ? CLI_FAILURE : CLI_OK;
}

int cmd_doctor(int argc, char **argv)
{
	static const struct argp argp = {
		.doc = "Say which triggers are in use, what this kernel refuses and what that "
		       "costs, and prove counting and admission on this very process. Loads the "
		       "kernel side for the time being if it is not there. Exits with 1 if "
		       "counting or admission cannot work.",
	};
	struct kernel_devices devices = { getenv("PINCAP_KFD"), getenv("PINCAP_DRM") };
	struct kernel *k;
	int code;

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	if (kernel_open(&k, false, &devices)) {
		show_kernel();
		show_host();
		return CLI_FAILURE;
	}
	show_triggers();
	show_losses(k);
	show_kernel();
	show_host();
	show_daemon();
	show_attribution(k);
	show_blind_spots();
	code = self_test(k);
	kernel_release(k);
	return code;
}
