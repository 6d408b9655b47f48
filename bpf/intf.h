/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * The whole interface between the kernel side and user space: map keys and
 * values, the private socket options, and the names of what can be lost.
 *
 * Compiled by clang -target bpf, gcc and g++. Data only. Fixed-width fields,
 * no implicit padding, sizes asserted, enums append-only with 0 invalid.
 * Amounts are bytes. Counters are signed where two CPUs may apply a decrease
 * before the increase it belongs to; at rest they are never negative.
 */
#ifndef PINCAP_INTF_H
#define PINCAP_INTF_H

#include <linux/bpf.h>
#include <linux/types.h>

#ifdef __cplusplus
#define PINCAP_ASSERT_SIZE(type, size) static_assert(sizeof(type) == (size), #type)
#else
#define PINCAP_ASSERT_SIZE(type, size) _Static_assert(sizeof(type) == (size), #type)
#endif

/*
 * Layout of every structure here. A loader that finds another number pinned under bpffs
 * replaces the kernel side instead of adopting it, and from PINCAP_ABI_CARRIED on takes
 * over what it had: since then structures grow at their end alone.
 */
#ifndef MUTANT_OLD_ABI
#define PINCAP_ABI 3
#else /* for tests/kernel/test_upgrade.c: the layout before */
#define PINCAP_ABI 2
#endif
#define PINCAP_ABI_CARRIED 2

#define PINCAP_UNLIMITED   (~0ULL)	 /* no budget set */
#define PINCAP_MAX_BYTES   (1ULL << 46)	 /* one request; x86-64 has 2^47 of user space */
#define PINCAP_MAX_DEPTH   64		 /* cgroup levels walked; deeper is counted in `too_deep` */
#define PINCAP_SMALL_BYTES (64ULL << 10) /* admitted per address space though a budget is full */
#define PINCAP_DEVICES	   16		 /* device files whose ioctls are read */

/* How long what the controller published is believed, CLOCK_MONOTONIC. A dead
 * one's headroom must not hold the host for ever, and a hanging one must not
 * keep new cgroups waiting. */
#define PINCAP_HEADROOM_NS  5000000000ULL
#define PINCAP_HEARTBEAT_NS 1000000000ULL

/*
 * The private socket options, level SOL_PINCAP, on any socket ("PCAP").
 *
 *	setsockopt CHARGE	struct pincap_charge	0 | EDQUOT | ENOMEM | EAGAIN |
 *						EINPROGRESS | EINVAL
 *	getsockopt SETTLE	__u64			0; the bytes that stay held
 *	setsockopt UNCHARGE	__u64 bytes		0 | EINVAL
 *	getsockopt STATUS	struct pincap_status	0
 *
 * EDQUOT: a budget on the way up is full. ENOMEM: the host is below its
 * reserve. EAGAIN: the kernel side has no room to remember the charge.
 * EINPROGRESS: the cgroup is so new that the controller has not decided on its
 * budget, or (also of SETTLE and UNCHARGE) the kernel side is being exchanged: ask again
 * in a moment. Any other error means that nobody answered,
 * and the caller goes on unmanaged.
 */
#define SOL_PINCAP 0x50434150

enum pincap_option {
	PINCAP_CHARGE = 1,
	PINCAP_SETTLE = 2,
	PINCAP_UNCHARGE = 3,
	PINCAP_STATUS = 4,
};

enum pincap_kind {
	PINCAP_LOCK = 1,   /* mlock and its kin: the kernel will show it in locked_vm */
	PINCAP_DRIVER = 2, /* a device driver pins; what the kernel cannot see stays held */
};

struct pincap_charge {
	__u64 bytes; /* rounded up to pages; 0 and above PINCAP_MAX_BYTES are EINVAL */
	__u32 kind;  /* enum pincap_kind */
	__u32 zero;  /* must be 0 */
};
PINCAP_ASSERT_SIZE(struct pincap_charge, 16);

/* What a process may know of itself and of the budget that binds it most. */
struct pincap_status {
	__u32 abi;	     /* PINCAP_ABI */
	__u32 level;	     /* depth of the cgroup that binds; 0 is the root */
	__u64 cgroup_id;     /* that the caller is charged to */
	__u64 bound_id;	     /* the cgroup with the least room on the way up */
	__u64 limit;	     /* of bound_id; PINCAP_UNLIMITED where no budget is set */
	__u64 current_bytes; /* of bound_id */
	__u64 room;	     /* bytes that a charge may ask for now; PINCAP_UNLIMITED likewise */
	__u64 locked;	     /* this address space, by class */
	__u64 pinned;
	__u64 gpu;
	__u64 held;
	__u32 alloc;   /* enum pincap_alloc, of the nearest cgroup upwards that says one */
	__u32 release; /* enum pincap_release, likewise */
};
PINCAP_ASSERT_SIZE(struct pincap_status, 88);

/* What the library does with a refused call that allocates pinned memory. */
enum pincap_alloc {
	PINCAP_ALLOC_UNSET = 0,
	PINCAP_ALLOC_REFUSE = 1,   /* the API's own error: the default */
	PINCAP_ALLOC_PAGEABLE = 2, /* ordinary memory instead */
	PINCAP_ALLOC_PASS = 3,	   /* let through and counted: over */
};

/* What it gives back when asked to. */
enum pincap_release {
	PINCAP_RELEASE_UNSET = 0,
	PINCAP_RELEASE_NONE = 1,
	PINCAP_RELEASE_COOPERATIVE = 2, /* what the program itself offers: the default */
	PINCAP_RELEASE_TRANSPARENT = 3, /* registrations behind the program's back, too */
};

/* Map `processes`, key: __u64 address of the mm_struct. One per address space
 * that ever locked, pinned or asked; gone with the address space. */
struct pincap_process {
	struct bpf_spin_lock lock; /* covers every field below */
	__u32 tgid;
	__u64 mm;	  /* the key again; 0 once released, so a late writer sees it */
	__u64 birth;	  /* unique over all records: an mm_struct's address is not */
	__u64 cgroup_id;  /* charged with the amounts below */
	__u64 locked;	  /* mm->locked_vm */
	__u64 pinned;	  /* mm->pinned_vm */
	__u64 gpu;	  /* host memory that the GPU driver holds, SVM ranges included */
	__u64 svm;	  /* of gpu: ranges that the GPU may access in place */
	__u64 held;	  /* admitted, not seen by the kernel (yet) */
	__u64 in_flight;  /* the part of held that some thread has not settled */
	__u64 small;	  /* of PINCAP_SMALL_BYTES, used up */
	__u64 generation; /* of the last sweep that saw it */
	__u64 svm_head;	  /* start of the first of its `ranges`; 0: none */
	__u32 svm_lock;	  /* 1: somebody changes the list */
	__u32 zero;
	char comm[16];
};
PINCAP_ASSERT_SIZE(struct pincap_process, 128);

/* Map `threads`, key: __u32 thread id. What a thread has under way; only the
 * thread itself writes it. */
struct pincap_thread {
	__u64 mm;    /* the record that `lock` and `driver` are part of ... */
	__u64 birth; /* ... and its birth */
	__u64 lock;  /* in flight, by kind */
	__u64 driver;
	__u64 since_ns;	   /* since when it has anything in flight */
	__u64 free_file;   /* a buffer whose freeing was entered and not left: its key ... */
	__u64 free_handle; /* ... */
	__u64 free_addr;   /* ... and value; free_bytes is 0 when there is none */
	__u64 free_bytes;
	__u32 free_kind;
	__u32 zero;
	__u64 create_bytes; /* GEM_CREATE entered and not left: what it asked for */
	__u64 unmap_end;    /* brk or shmdt likewise: where the heap or the segment ended */
};
PINCAP_ASSERT_SIZE(struct pincap_thread, 96);

/* Map `buffers`: host memory in the GPU driver's hands. */
struct pincap_buffer_key {
	__u64 birth;  /* of the address space's record */
	__u64 file;   /* DRM handles belong to an open file: its id in `files`; 0 for KFD */
	__u64 handle; /* the driver's */
};
PINCAP_ASSERT_SIZE(struct pincap_buffer_key, 24);

enum pincap_buffer_kind {
	PINCAP_BUFFER_USERPTR = 1, /* the process's own memory, registered */
	PINCAP_BUFFER_GTT = 2,	   /* the driver's, in host memory */
};

struct pincap_buffer {
	__u64 mm;
	__u64 addr; /* where the process has it; 0 for GTT */
	__u64 bytes;
	__u32 kind; /* enum pincap_buffer_kind */
	__u32 tgid;
};
PINCAP_ASSERT_SIZE(struct pincap_buffer, 32);

/* Map `files`, key: __u64 address of the struct file. Render nodes that are open and
 * have had buffers. */
struct pincap_file {
	__u64 id; /* unique over all that are ever opened: the address is not */
	__u64 private_data;
};
PINCAP_ASSERT_SIZE(struct pincap_file, 16);

/* Map `ranges`: the SVM ranges of an address space, disjoint, as a sorted list. */
struct pincap_range_key {
	__u64 birth;
	__u64 start;
};
PINCAP_ASSERT_SIZE(struct pincap_range_key, 16);

struct pincap_range {
	__u64 end;  /* first byte behind it */
	__u64 next; /* start of the next; 0: the last */
};
PINCAP_ASSERT_SIZE(struct pincap_range, 16);

enum pincap_cgroup_flags {
	PINCAP_CGROUP_DEAD = 1,	  /* its directory was removed */
	PINCAP_CGROUP_RULED = 2,  /* its budget is a rule's, not set by hand */
	PINCAP_CGROUP_FROZEN = 4, /* the controller froze it */
};

/* Map `cgroups`, key: __u64 id of a cgroup v2 (the inode of its directory).
 * Every field counts the whole subtree, so that parent = sum of children plus
 * the parent's own processes. `current` is the sum of the four classes. */
struct pincap_cgroup {
	__u64 parent; /* id; 0 for the root */
	__u32 level;  /* 0 for the root */
	__u32 flags;  /* enum pincap_cgroup_flags */
	__s64 current;
	__s64 locked;
	__s64 pinned;
	__s64 gpu;
	__s64 held;
	__s64 in_flight; /* the part of held that some thread has not settled */
	__s64 peak;	 /* highest of each since the entry was made */
	__s64 peak_locked;
	__s64 peak_pinned;
	__s64 peak_gpu;
	__s64 peak_held;
	__u64 limit;	   /* PINCAP_UNLIMITED: no budget of its own */
	__u64 high;	   /* likewise */
	__u64 min;	   /* up to here the host's reserve refuses nothing; 0: unprotected */
	__u32 alloc;	   /* enum pincap_alloc */
	__u32 release;	   /* enum pincap_release */
	__u32 observe;	   /* 1: neither its limit nor the reserve refuses anything here */
	__u32 below_since; /* the sweep (low half) that first saw an amount below 0; 0 */
	__u64 charges;	   /* requests admitted */
	__u64 refused;	   /* requests refused, whichever level decided */
	__u64 refused_bytes;
	__u64 dead_since;   /* the sweep that first saw it dead and empty; 0 */
	__u64 limit_hits;   /* refusals that this entry's own limit decided */
	__u64 reserve_hits; /* of refused: the host's reserve decided */
	__u64 would_refuse; /* admitted only because this entry observes ... */
	__u64 would_refuse_bytes;
	__u64 taken;   /* level 1: of the headroom, since it was published; see gate.bpf.h */
	__u64 told_ns; /* when the last event of this entry went out */
#ifndef MUTANT_OLD_ABI
	__s64 records; /* address spaces that are charged here or below */
#else
#define records would_refuse_bytes
#endif
};
PINCAP_ASSERT_SIZE(struct pincap_cgroup, PINCAP_ABI == 2 ? 224 : 232);

/* What may still be admitted before the host falls below its reserve, as the
 * controller last published it. */
struct pincap_headroom {
	__s64 bytes;	/* MemAvailable - reserve - in flight at the snapshot */
	__u64 snapshot; /* `admitted`, read before MemAvailable */
	__u64 share;	/* the most of it that one top-level cgroup takes or has in flight */
	__u64 time_ns;	/* when; 0: never. Ignored after PINCAP_HEADROOM_NS */
	__u32 epoch;	/* another one with each; only its low 16 bits count */
	__u32 observe;	/* 1: refuse nothing, count what would be */
};
PINCAP_ASSERT_SIZE(struct pincap_headroom, 40);

/*
 * Map `gate`, one element, mapped by the controller: what it says to admission
 * from moment to moment. Each word is written whole; a headroom is written into
 * the slot that is not in use, then `slot` flips.
 */
struct pincap_gate {
	__u64 admitted;	    /* by admission: bytes since the load, less what it took back */
	__u64 lost;	    /* by the triggers: cgroups made that no event told of */
	__u64 heartbeat_ns; /* the controller lives: at least 4 times a second */
	__u64 decided_id;   /* budgets are decided for cgroups up to this id; ids rise */
	__u64 observed;	    /* by admission: requests the reserve would have refused */
	__u32 slot;	    /* in use, 0 or 1 */
	__u32 shut;	    /* 1, with a heartbeat: being filled, requests are put off */
	struct pincap_headroom headroom[2];
};
PINCAP_ASSERT_SIZE(struct pincap_gate, 128);

/*
 * Ring buffer `events`: a doorbell for a controller that lives, at most ten a
 * second and cgroup. Losing one is made good by its next look, but for MKDIR,
 * whose losses are counted in gate.lost.
 */
enum pincap_event_kind {
	PINCAP_EVENT_MKDIR = 1,	  /* a cgroup was made; struct pincap_mkdir_event */
	PINCAP_EVENT_RMDIR = 2,	  /* and removed */
	PINCAP_EVENT_HIGH = 3,	  /* current rose above its high */
	PINCAP_EVENT_FULL = 4,	  /* current rose to its limit, or above it */
	PINCAP_EVENT_REFUSED = 5, /* a request for `bytes` was; cgroup_id: whose limit decided,
				   * or who asked when it was the reserve */
	PINCAP_EVENT_SET = 6,	  /* a budget was changed, by hand; bytes: current */
};

struct pincap_event {
	__u32 kind; /* enum pincap_event_kind */
	__u32 tgid; /* in whose context it happened */
	__u64 cgroup_id;
	__u64 time_ns; /* CLOCK_MONOTONIC */
	__u64 bytes;   /* REFUSED: asked for; HIGH, FULL: current */
	__s32 err;     /* REFUSED: -EDQUOT or -ENOMEM */
	__u32 zero;
	char comm[16];
};
PINCAP_ASSERT_SIZE(struct pincap_event, 56);

#define PINCAP_EVENT_PATH 256

struct pincap_mkdir_event {
	struct pincap_event event;
	char path[PINCAP_EVENT_PATH]; /* NUL-terminated, cut where longer */
};
PINCAP_ASSERT_SIZE(struct pincap_mkdir_event, 312);

enum pincap_device_kind {
	PINCAP_DEVICE_KFD = 1,		 /* /dev/kfd */
	PINCAP_DEVICE_DRM = 2,		 /* a render node of amdgpu's */
	PINCAP_DEVICE_BY_DRIVER = 0x100, /* and this: the driver's own functions tell of it */
};

/* A device whose ioctls are read: a character device by its number, or a regular
 * file (tests) by file system and inode, as the kernel numbers them. */
struct pincap_device {
	__u64 ino;  /* 0: a character device */
	__u32 dev;  /* kernel-internal dev_t: major << 20 | minor */
	__u32 kind; /* enum pincap_device_kind; 0: the end of the list */
};
PINCAP_ASSERT_SIZE(struct pincap_device, 16);

enum pincap_config_flags {
	PINCAP_CONFIG_PERSISTENT = 1, /* loaded to stay: only `unload` removes it */
};

/* Map `config`, one element, written by user space alone. */
struct pincap_config {
	__u32 abi;
	__u32 flags;	  /* enum pincap_config_flags */
	__u64 generation; /* of the sweep that runs, or ran last */
	struct pincap_device devices[PINCAP_DEVICES];
	char version[32]; /* of the loader */
};
PINCAP_ASSERT_SIZE(struct pincap_config, 304);

/* Map `stats`, one element: every early return and every loss, by name. */
#define PINCAP_STATS(X)                                                                           \
	X(processes_full) /* no record for an address space: EAGAIN, the sweep retries */         \
	X(threads_full)	  /* no room for a thread: EAGAIN */                                      \
	X(cgroups_full)	  /* no room for a cgroup: charged to the one above, the sweep retries */ \
	X(ranges_full)	  /* no room for an SVM range: its bytes are not counted */               \
	X(svm_busy)	  /* a list of SVM ranges stayed locked: a change was lost */             \
	X(buffers_full)	  /* no room for a GPU buffer: its bytes are not counted */               \
	X(files_full)	  /* no room for an open render node: its buffers are not counted */      \
	X(cgroup_gone)	  /* a walk met a missing entry */                                        \
	X(too_deep)	  /* deeper than PINCAP_MAX_DEPTH: charged to the ancestor there */       \
	X(sync_retries)	  /* a process kept migrating while it was read */                        \
	X(charge_races)	  /* an admission lost its compare-and-exchange for good */               \
	X(stale_record)	  /* a newborn address space found a dead one's record */                 \
	X(underflow)	  /* more uncharged than was held */                                      \
	X(user_fault)	  /* an ioctl's arguments could not be read */                            \
	X(undecided)	  /* asked before the budget of a new cgroup was decided */               \
	X(events_lost)	  /* no room for an event */                                              \
	X(below_zero)	  /* two sweeps in a row found an amount of a cgroup below 0 */

struct pincap_stats {
#define PINCAP_STAT_FIELD(name) __u64 name;
	PINCAP_STATS(PINCAP_STAT_FIELD)
#undef PINCAP_STAT_FIELD
};

enum pincap_set_mask {
	PINCAP_SET_LIMIT = 1,
	PINCAP_SET_HIGH = 2,
	PINCAP_SET_MIN = 4,
	PINCAP_SET_OBSERVE = 8,
	PINCAP_SET_ALLOC = 16,
	PINCAP_SET_RELEASE = 32,
	PINCAP_SET_RULED = 64,	 /* it is a rule's budget; without, limit, high and min are
				  * set by hand */
	PINCAP_SET_FROZEN = 128, /* set and clear PINCAP_CGROUP_FROZEN */
	PINCAP_SET_THAWED = 256,
};

/* Argument of the `set_budget` program, which writes into the entry where it
 * lies: -ENOENT where there is none. */
struct pincap_set_budget {
	__u64 cgroup_id;
	__u64 limit; /* bytes; PINCAP_UNLIMITED to lift */
	__u64 high;  /* likewise */
	__u64 min;   /* bytes; 0 to lift */
	__u32 mask;  /* enum pincap_set_mask: what to change, the rest stays */
	__u32 observe;
	__u32 alloc;
	__u32 release;
};
PINCAP_ASSERT_SIZE(struct pincap_set_budget, 48);

/* Map `carried`, key: address of an mm_struct. What is to be added to its record; a
 * record that is not there yet is made. */
struct pincap_carry {
	__u64 birth;
	__u64 cgroup_id;
	__u64 locked; /* of a record that is made */
	__u64 pinned;
	__s64 gpu;
	__s64 svm;
	__u64 held;
	__u64 in_flight;
	__u64 small;
	__u64 svm_head;
	__u32 gone; /* 1: forget the record of this birth instead */
	__u32 zero;
};
PINCAP_ASSERT_SIZE(struct pincap_carry, 88);

#endif
