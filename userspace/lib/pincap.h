/* SPDX-License-Identifier: MIT */
/*
 * libpincap: ask before you pin.
 *
 * For programs and libraries that page-lock (pin) memory themselves and want to
 * keep to the budget of their cgroup. The kernel part of pincap answers; no
 * daemon stands in between, no privilege is needed, and where pincap is not
 * loaded every request answers PINCAP_UNMANAGED: pin as you always did.
 *
 *	rc = pincap_charge(size, PINCAP_KIND_DRIVER);
 *	if (rc < 0)
 *		use the memory unpinned;
 *	ok = pin(buf, size);
 *	held = rc == 0 ? pincap_settle() : 0;
 *	if (held > 0 && !ok)
 *		pincap_uncharge(held);
 *	...
 *	unpin(buf);
 *	if (held > 0 && ok)
 *		pincap_uncharge(held);
 *
 * Every function is thread-safe, never prints, allocates nothing, leaves errno
 * alone and never blocks; but the first pincap_charge() of a cgroup that was made
 * just now may take until its budget is decided, and at most a second. Amounts are bytes. After
 *fork() the child starts afresh: nothing of what the parent holds is its own.
 *
 * Under libpincap-preload.so, pins that a thread makes between its own
 * pincap_charge() and pincap_settle() are not asked for a second time.
 */
#ifndef PINCAP_H
#define PINCAP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* Nobody answered: pincap is not loaded, or something forbids to ask. */
#define PINCAP_UNMANAGED 1

/* In struct pincap_info: no budget is set. */
#define PINCAP_NO_LIMIT UINT64_MAX

/* What is going to pin. */
enum pincap_what {
	PINCAP_KIND_LOCK = 1,	/* mlock(2) and its kin: the kernel counts it from then on */
	PINCAP_KIND_DRIVER = 2, /* a device driver, e.g. hipHostRegister() */
};

/*
 * May this thread pin `bytes` more? Rounded up to whole pages. The answer holds
 * until pincap_settle() of the same thread; call that after the pin, whether
 * it succeeded or not.
 *
 * 0			admitted
 * PINCAP_UNMANAGED	nobody answered; pin as without pincap, settle nothing
 * -EDQUOT		refused: a budget is full, or the controller said stop
 * -ENOMEM		refused: the host is below its reserve
 * -EAGAIN		refused: the kernel part has no room to remember it
 * -EINVAL		bytes is 0 or above 2^46, or kind is unknown
 */
int pincap_charge(uint64_t bytes, int kind);

/*
 * The pin is done, or has failed: hand over from the promise to what the kernel
 * counts itself. Returns the bytes that it cannot count, 0 or more: they stay
 * held against the budget until pincap_uncharge(), so remember them with the
 * buffer. -ENOPROTOOPT: nobody answered.
 */
int64_t pincap_settle(void);

/*
 * The pin that settled to `bytes` held is gone. 0, PINCAP_UNMANAGED, or -EINVAL
 * for a size that cannot be.
 */
int pincap_uncharge(uint64_t bytes);

/* What this process may know of itself and of the budget that binds it most. */
struct pincap_info {
	uint32_t size;		/* in: sizeof(struct pincap_info); out: bytes filled in */
	uint32_t stopped;	/* 1 while the controller says stop */
	uint64_t cgroup_id;	/* charged for this process; 0 before its first pin */
	uint64_t bound_id;	/* the cgroup with the least room on the way up */
	uint64_t bound_level;	/* its depth; 0 is the root */
	uint64_t limit;		/* of bound_id, or PINCAP_NO_LIMIT */
	uint64_t current_bytes; /* of bound_id */
	uint64_t room;		/* what a charge may ask for now, or PINCAP_NO_LIMIT */
	uint64_t locked;	/* this process: mlock and its kin */
	uint64_t pinned;	/* io_uring, RDMA and the like */
	uint64_t gpu;		/* host memory that the GPU driver holds */
	uint64_t held;		/* admitted, not seen by the kernel (yet) */
	uint64_t refused_count; /* answered "refused" here, unasked, while stopped ... */
	uint64_t refused_bytes; /* ... and how much they wanted */
	/* As of the second version of this structure: */
	uint64_t epoch;		/* of the controller's last signal that was heard; 0: none */
	uint64_t release_bytes; /* wanted back still; see pincap_on_release() */
};

/*
 * Fill in *ret. Set ret->size first; a library newer or older than the caller's
 * header fills in what both know. 0, PINCAP_UNMANAGED, or -EINVAL for a size
 * smaller than this first version's. Untouched unless 0.
 */
int pincap_status(struct pincap_info *ret);

/*
 * The descriptor to poll(2) for POLLIN when a program that idles wants to hear
 * of stop, resume and release (of the first two others need not: every charge
 * looks). It belongs to the
 * library: do not read, write or close it. It changes when the controller comes
 * back; ask again after each pincap_dispatch(). -ENOTCONN: no controller.
 * -EAGAIN: another thread is at it.
 */
int pincap_fd(void);

/*
 * Read and acknowledge what has come, and let the function of pincap_on_release()
 * give back what is wanted. 1 while stopped, 0 when not.
 */
int pincap_dispatch(void);

/*
 * Give back, by unpinning, up to `bytes` or somewhat more, whatever is easiest to
 * do without. Returns the bytes that are given back, or will be without being
 * asked again; 0: there is nothing to give. What was unpinned is uncharged as
 * always, with pincap_uncharge(). pincap does not take the program at its word but
 * looks at the kernel's count, and asks again later if that did not fall.
 */
typedef uint64_t (*pincap_release_fn)(uint64_t bytes, void *ctx);

/*
 * Have `fn` called when the controller asks for memory back: usage is above the
 * budget, which was lowered, or above the mark where giving back begins. It is
 * called from within pincap_dispatch() alone, in the thread that called that, by
 * one thread at a time, and must return (cancellation is off meanwhile); it may
 * call anything here but this. It is called with what is missing, again at each
 * pincap_dispatch() while that is something, until it returns 0; then not before
 * the controller asks anew.
 *
 * NULL, or no call of this: what is pinned stays pinned, which nobody punishes. 0;
 * -EBUSY: a function is being called, so that none is exchanged while it runs;
 * -ENOSYS: there is no memory to remember it in.
 */
int pincap_on_release(pincap_release_fn fn, void *ctx);

/* Version of the library, e.g. "0.1.0". Static. */
const char *pincap_version(void);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif

#endif
