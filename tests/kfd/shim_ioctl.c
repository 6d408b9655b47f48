/* SPDX-License-Identifier: MIT */
/*
 * The KFD's ioctls. Where memory is concerned the driver decides, by the real
 * ioctl on its file, and this side follows. All others are carried out here and
 * then also issued for real, so that whoever watches system calls sees them
 * with their arguments filled in.
 */
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/kfd/shim.h"
#include "userspace/common/util.h"

#define NR(cmd) _IOC_NR(cmd)

static int ask_driver(int fd, unsigned long cmd, void *arg)
{
	return syscall(SYS_ioctl, fd, cmd, arg) < 0 ? -errno : 0;
}

static int do_alloc(int fd, unsigned long cmd, void *arg)
{
	struct kfd_ioctl_alloc_memory_of_gpu_args *args = arg;
	struct kfd_ioctl_free_memory_of_gpu_args back;
	void *user_cpu = (void *)(uintptr_t)args->mmap_offset;
	int err;

	err = ask_driver(fd, cmd, args);
	if (!err) {
		err = memory_add(args, user_cpu);
		if (err) {
			back.handle = args->handle;
			ask_driver(fd, AMDKFD_IOC_FREE_MEMORY_OF_GPU, &back);
		}
	}
	shim_log("alloc %#llx + %llu flags %#x -> handle %#llx: %d",
		 (unsigned long long)args->va_addr, (unsigned long long)args->size, args->flags,
		 (unsigned long long)args->handle, err);
	return err;
}

static int do_free(int fd, unsigned long cmd, void *arg)
{
	const struct kfd_ioctl_free_memory_of_gpu_args *args = arg;
	struct buffer b;
	bool is_known;
	int err;

	is_known = memory_take(args->handle, &b);
	if (is_known && b.cpu)
		queue_stop_within((uintptr_t)b.cpu, b.cpu_bytes);
	err = ask_driver(fd, cmd, arg);
	if (is_known && err)
		memory_put(&b);
	else if (is_known)
		memory_drop(&b);
	shim_log("free handle %#llx: %d", (unsigned long long)args->handle, err);
	return err;
}

static int do_nothing(void *arg)
{
	(void)arg;
	return 0;
}

/* By the first queue the runtime has read the topology. */
static int do_create_queue(void *arg)
{
	topology_drop();
	return queue_create(arg);
}

static int do_destroy_queue(void *arg)
{
	return queue_destroy(((struct kfd_ioctl_destroy_queue_args *)arg)->queue_id);
}

static int do_clock_counters(void *arg)
{
	struct kfd_ioctl_get_clock_counters_args *args = arg;

	args->gpu_clock_counter = shim_gpu_clock();
	args->cpu_clock_counter = shim_now_ns();
	args->system_clock_counter = shim_now_ns();
	args->system_clock_freq = 1000000000;
	return 0;
}

static int do_create_event(void *arg)
{
	return event_create(arg);
}

static int do_destroy_event(void *arg)
{
	return event_destroy(((struct kfd_ioctl_destroy_event_args *)arg)->event_id);
}

static int do_set_event(void *arg)
{
	return event_set(((struct kfd_ioctl_set_event_args *)arg)->event_id);
}

static int do_reset_event(void *arg)
{
	return event_reset(((struct kfd_ioctl_reset_event_args *)arg)->event_id);
}

/* Who waits has something in a queue. */
static int do_wait_events(void *arg)
{
	queue_kick();
	return event_wait(arg);
}

static int do_tile_config(void *arg)
{
	struct kfd_ioctl_get_tile_config_args *args = arg;

	args->num_tile_configs = 0;
	args->num_macro_tile_configs = 0;
	args->gb_addr_config = 0x2a114042; /* Vega 10's; nothing here tiles */
	args->num_banks = 2;
	args->num_ranks = 1;
	return 0;
}

static int do_apertures(void *arg)
{
	struct kfd_ioctl_get_process_apertures_new_args *args = arg;
	struct kfd_process_device_apertures *to =
		(void *)(uintptr_t)args->kfd_process_device_apertures_ptr;

	if (args->num_of_nodes && to)
		*to = (struct kfd_process_device_apertures){
			.gpu_id = KFD_EMU_GPU_ID,
			.lds_base = 0x1000000000000,
			.lds_limit = 0x10000ffffffff,
			.scratch_base = 0x2000000000000,
			.scratch_limit = 0x20000ffffffff,
			.gpuvm_base = 0x1000000,
			.gpuvm_limit = 0x7fffffffffff,
		};
	args->num_of_nodes = 1;
	return 0;
}

static int do_xnack_mode(void *arg)
{
	((struct kfd_ioctl_set_xnack_mode_args *)arg)->xnack_enabled = 0;
	return 0;
}

static int do_available_memory(void *arg)
{
	((struct kfd_ioctl_get_available_memory_args *)arg)->available = 15ULL << 30;
	return 0;
}

/* Exactly one of the two: the driver decides, or this side does. */
struct command {
	const char *name;
	int (*decided)(int fd, unsigned long cmd, void *arg);
	int (*emulated)(void *arg);
};

static const struct command commands[] = {
	[NR(AMDKFD_IOC_GET_VERSION)] = { "GET_VERSION", ask_driver, NULL },
	[NR(AMDKFD_IOC_CREATE_QUEUE)] = { "CREATE_QUEUE", NULL, do_create_queue },
	[NR(AMDKFD_IOC_DESTROY_QUEUE)] = { "DESTROY_QUEUE", NULL, do_destroy_queue },
	[NR(AMDKFD_IOC_SET_MEMORY_POLICY)] = { "SET_MEMORY_POLICY", NULL, do_nothing },
	[NR(AMDKFD_IOC_GET_CLOCK_COUNTERS)] = { "GET_CLOCK_COUNTERS", NULL, do_clock_counters },
	[NR(AMDKFD_IOC_UPDATE_QUEUE)] = { "UPDATE_QUEUE", NULL, do_nothing },
	[NR(AMDKFD_IOC_CREATE_EVENT)] = { "CREATE_EVENT", NULL, do_create_event },
	[NR(AMDKFD_IOC_DESTROY_EVENT)] = { "DESTROY_EVENT", NULL, do_destroy_event },
	[NR(AMDKFD_IOC_SET_EVENT)] = { "SET_EVENT", NULL, do_set_event },
	[NR(AMDKFD_IOC_RESET_EVENT)] = { "RESET_EVENT", NULL, do_reset_event },
	[NR(AMDKFD_IOC_WAIT_EVENTS)] = { "WAIT_EVENTS", NULL, do_wait_events },
	[NR(AMDKFD_IOC_SET_SCRATCH_BACKING_VA)] = { "SET_SCRATCH_BACKING_VA", NULL, do_nothing },
	[NR(AMDKFD_IOC_GET_TILE_CONFIG)] = { "GET_TILE_CONFIG", NULL, do_tile_config },
	[NR(AMDKFD_IOC_SET_TRAP_HANDLER)] = { "SET_TRAP_HANDLER", NULL, do_nothing },
	[NR(AMDKFD_IOC_GET_PROCESS_APERTURES_NEW)] = { "GET_APERTURES", NULL, do_apertures },
	[NR(AMDKFD_IOC_ACQUIRE_VM)] = { "ACQUIRE_VM", NULL, do_nothing },
	[NR(AMDKFD_IOC_ALLOC_MEMORY_OF_GPU)] = { "ALLOC_MEMORY_OF_GPU", do_alloc, NULL },
	[NR(AMDKFD_IOC_FREE_MEMORY_OF_GPU)] = { "FREE_MEMORY_OF_GPU", do_free, NULL },
	[NR(AMDKFD_IOC_MAP_MEMORY_TO_GPU)] = { "MAP_MEMORY_TO_GPU", ask_driver, NULL },
	[NR(AMDKFD_IOC_UNMAP_MEMORY_FROM_GPU)] = { "UNMAP_MEMORY_FROM_GPU", ask_driver, NULL },
	[NR(AMDKFD_IOC_SET_CU_MASK)] = { "SET_CU_MASK", NULL, do_nothing },
	[NR(AMDKFD_IOC_SVM)] = { "SVM", svm_ioctl, NULL },
	[NR(AMDKFD_IOC_SET_XNACK_MODE)] = { "SET_XNACK_MODE", NULL, do_xnack_mode },
	[NR(AMDKFD_IOC_AVAILABLE_MEMORY)] = { "AVAILABLE_MEMORY", NULL, do_available_memory },
};

static const struct command *find_command(unsigned long cmd)
{
	unsigned nr = NR(cmd);

	if (_IOC_TYPE(cmd) != AMDKFD_IOCTL_BASE || nr >= ARRAY_SIZE(commands))
		return NULL;
	return commands[nr].name ? &commands[nr] : NULL;
}

int kfd_ioctl(int fd, unsigned long cmd, void *arg)
{
	const struct command *c = find_command(cmd);
	int err;

	if (!c) {
		ask_driver(fd, cmd, arg);
		shim_log("ioctl %#lx is not emulated", cmd);
		return -EINVAL;
	}
	if (c->decided) {
		err = c->decided(fd, cmd, arg);
	} else {
		err = c->emulated(arg);
		if (!err)
			ask_driver(fd, cmd, arg);
	}
	shim_log("%s: %d", c->name, err);
	return err;
}
