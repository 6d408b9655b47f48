/* SPDX-License-Identifier: MIT */
#include <errno.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>

#include "userspace/common/log.h"
#include "userspace/control/kernel_trigger.h"
#include "userspace/control/probe.h"

/* Without these the count would miss changes; other calls a kernel may lack. */
static const char *const needed_calls[] = { "mlock", "mlock2", "munlock", "mlockall", "munlockall",
					    "mmap",  "munmap", "mremap",  "brk" };

static const char *const words[] = {
	[TRIGGER_FEXIT] = "fexit",
	[TRIGGER_MMAP_LOCK] = "mmap_lock",
};

static const char *const gpu_words[] = {
	[GPU_TRIGGER_DRIVER] = "driver",
	[GPU_TRIGGER_SYSCALL] = "syscall",
	[GPU_TRIGGER_TRACEPOINT] = "tracepoint",
};

static int parse(const char *env, const char *const *list, size_t n, int *ret)
{
	const char *value = getenv(env);

	*ret = 0;
	if (!value || !*value || streq(value, "auto"))
		return 0;
	for (size_t i = 1; i < n; i++) {
		if (streq(value, list[i])) {
			*ret = (int)i;
			return 0;
		}
	}
	pr_err("trigger '%s' (option or %s): not one of auto, %s, %s%s%s", value, env, list[1],
	       list[2], n > 3 ? ", " : "", n > 3 ? list[3] : "");
	return -EINVAL;
}

int trigger_asked(struct triggers *ret)
{
	int memory, gpu, err;

	err = parse(KERNEL_TRIGGER_ENV, words, ARRAY_SIZE(words), &memory);
	if (!err)
		err = parse(KERNEL_GPU_TRIGGER_ENV, gpu_words, ARRAY_SIZE(gpu_words), &gpu);
	if (!err)
		*ret = (struct triggers){ .memory = memory, .gpu = gpu };
	return err;
}

/* ---- what a program is for: its name and its section tell ---- */

static bool starts(const char *s, const char *prefix)
{
	return !strncmp(s, prefix, strlen(prefix));
}

/* The function that a program hooks into, or NULL. */
static const char *hooked(const struct bpf_program *prog)
{
	const char *section = bpf_program__section_name(prog);

	if (!starts(section, "fexit/") && !starts(section, "fentry/"))
		return NULL;
	return strchr(section, '/') + 1;
}

static bool is_needed(const char *name)
{
	if (!starts(name, "call_") && !starts(name, "ia32_"))
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(needed_calls); i++)
		if (streq(strchr(name, '_') + 1, needed_calls[i]))
			return true;
	return false;
}

/* ---- what the kernel has ---- */

struct kernel_btf {
	struct btf *vmlinux;
	struct btf *modules[2]; /* of the GPU driver; NULL where it is not loaded */
};

static void btf_open(struct kernel_btf *b)
{
	static const char *const modules[] = { "amdgpu", "drm" };

	b->vmlinux = btf__load_vmlinux_btf();
	if (libbpf_get_error(b->vmlinux))
		b->vmlinux = NULL;
	for (size_t i = 0; i < ARRAY_SIZE(b->modules); i++) {
		b->modules[i] = b->vmlinux ? btf__load_module_btf(modules[i], b->vmlinux) : NULL;
		if (libbpf_get_error(b->modules[i]))
			b->modules[i] = NULL;
	}
}

static void btf_close(struct kernel_btf *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(b->modules); i++)
		btf__free(b->modules[i]);
	btf__free(b->vmlinux);
}

static bool has_function(const struct kernel_btf *b, const char *name)
{
	if (b->vmlinux && btf__find_by_name_kind(b->vmlinux, name, BTF_KIND_FUNC) > 0)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(b->modules); i++)
		if (b->modules[i] && btf__find_by_name_kind(b->modules[i], name, BTF_KIND_FUNC) > 0)
			return true;
	return false;
}

/* 0: the kernel takes a program on this function of its own. */
static int try_function(const struct kernel_btf *b, const char *name)
{
	int id = b->vmlinux ? btf__find_by_name_kind(b->vmlinux, name, BTF_KIND_FUNC) : -ENOENT;

	return id < 0 ? id : probe_fexit(id);
}

/* ---- the choice ---- */

static void load_only(struct bpf_object *obj, const char *prefix, bool wanted)
{
	struct bpf_program *prog;

	bpf_object__for_each_program(prog, obj)
	{
		if (starts(bpf_program__name(prog), prefix))
			bpf_program__set_autoload(prog, wanted);
	}
}

static void load_hooks(struct bpf_object *obj, bool wanted)
{
	struct bpf_program *prog;

	bpf_object__for_each_program(prog, obj)
	{
		if (hooked(prog) && !starts(bpf_program__name(prog), "gpu_"))
			bpf_program__set_autoload(prog, wanted);
	}
}

/* Leave out what this kernel does not have. Returns 0, or the reason why what is
 * left would not be exact. */
static int fit_hooks(struct bpf_object *obj, const struct kernel_btf *b)
{
	bool has_ia32 = has_function(b, "__ia32_sys_mlock");
	struct bpf_program *prog;
	int err;

	bpf_object__for_each_program(prog, obj)
	{
		const char *name = bpf_program__name(prog);

		if (!hooked(prog) || starts(name, "gpu_"))
			continue;
		err = try_function(b, hooked(prog));
		if (!err)
			continue;
		if (is_needed(name) && (has_ia32 || !starts(name, "ia32_")))
			return err;
		bpf_program__set_autoload(prog, false);
	}
	return 0;
}

static int choose_memory(struct bpf_object *obj, const struct kernel_btf *b, struct triggers *t)
{
	int err = t->memory == TRIGGER_MMAP_LOCK ? -ECANCELED : fit_hooks(obj, b);

	if (err && t->memory == TRIGGER_FEXIT)
		return log_ret(err, "trigger 'fexit': this kernel takes no such programs; "
				    "use 'auto' or 'mmap_lock'");
	t->memory = err ? TRIGGER_MMAP_LOCK : TRIGGER_FEXIT;
	load_only(obj, "mm_unlocked", t->memory == TRIGGER_MMAP_LOCK);
	if (err)
		load_hooks(obj, false);
	return 0;
}

static bool has_driver(struct bpf_object *obj, const struct kernel_btf *b)
{
	struct bpf_program *prog;

	bpf_object__for_each_program(prog, obj)
	{
		if (starts(bpf_program__name(prog), "gpu_drv_") && !has_function(b, hooked(prog)))
			return false;
	}
	return true;
}

/* The driver's own functions where they are known; beside them the system call, for
 * files that stand in for devices. */
static int choose_gpu(struct bpf_object *obj, const struct kernel_btf *b, struct triggers *t)
{
	int err = try_function(b, "__x64_sys_ioctl");
	enum gpu_trigger best = err		      ? GPU_TRIGGER_TRACEPOINT
				: !has_driver(obj, b) ? GPU_TRIGGER_SYSCALL
						      : GPU_TRIGGER_DRIVER;

	if (t->gpu && t->gpu < best) {
		pr_err("GPU trigger '%s': %s; use 'auto' or '%s'", gpu_words[t->gpu],
		       err ? "this kernel takes no such programs"
			   : "the module amdgpu is not loaded, or has no BTF",
		       gpu_words[best]);
		return err ? err : -ENOENT;
	}
	if (!t->gpu)
		t->gpu = best;
	load_only(obj, "gpu_drv_", t->gpu == GPU_TRIGGER_DRIVER);
	load_only(obj, "gpu_call_", t->gpu != GPU_TRIGGER_TRACEPOINT);
	load_only(obj, "gpu_map_", t->gpu != GPU_TRIGGER_TRACEPOINT);
	load_only(obj, "gpu_sys_", t->gpu == GPU_TRIGGER_TRACEPOINT);
	return 0;
}

int trigger_choose(struct bpf_object *obj, struct triggers *t)
{
	struct kernel_btf b;
	int err;

	btf_open(&b);
	err = choose_memory(obj, &b, t);
	if (!err)
		err = choose_gpu(obj, &b, t);
	btf_close(&b);
	return err;
}

/* ---- what is in force: the pins tell ---- */

static bool has_prog(const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), PIN_DIR "/progs/%s", name);
	return access(path, F_OK) == 0;
}

static enum gpu_trigger gpu_loaded(void)
{
	if (has_prog("gpu_drv_alloc"))
		return GPU_TRIGGER_DRIVER;
	return has_prog("gpu_call_exit") ? GPU_TRIGGER_SYSCALL : GPU_TRIGGER_TRACEPOINT;
}

static enum memory_trigger memory_loaded(void)
{
	return kernel_has_link("mm_unlocked") ? TRIGGER_MMAP_LOCK : TRIGGER_FEXIT;
}

static int check_one(const char *what, const char *asked, const char *loaded)
{
	if (!asked || streq(asked, loaded))
		return 0;
	pr_err("%s '%s': pincap is loaded with '%s'; 'pincap unload' it first", what, asked,
	       loaded);
	return -EBUSY;
}

int trigger_check(void)
{
	struct triggers t;
	int err = trigger_asked(&t);

	if (!err)
		err = check_one("trigger", words[t.memory], words[memory_loaded()]);
	if (!err)
		err = check_one("GPU trigger", gpu_words[t.gpu], gpu_words[gpu_loaded()]);
	return err;
}

bool trigger_reads_driver(void)
{
	return gpu_loaded() == GPU_TRIGGER_DRIVER;
}

const char *kernel_trigger(void)
{
	return words[memory_loaded()];
}

const char *kernel_gpu_trigger(void)
{
	bool driver = kernel_has_link("gpu_drv_alloc"), call = kernel_has_link("gpu_call_exit");

	if (driver)
		return call ? "driver, syscall" : "driver";
	if (call)
		return "syscall";
	return kernel_has_link("gpu_sys_exit") ? "tracepoint" : "off";
}

const char *kernel_gpu_trigger_loaded(void)
{
	return gpu_words[gpu_loaded()];
}
