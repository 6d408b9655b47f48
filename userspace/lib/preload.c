/* SPDX-License-Identifier: MIT */
/*
 * The interposers: for each line of hooks.def charge -> real call -> settle, and
 * for those that free, real call -> uncharge. A refused call never reaches the
 * real function. Everything that frees passes, always.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "userspace/lib/advice.h"
#include "userspace/lib/client.h"
#include "userspace/lib/held.h"
#include "userspace/lib/note.h"
#include "userspace/lib/pincap.h"
#include "userspace/lib/real.h"
#include "userspace/lib/span.h"

#define EXPORT __attribute__((visibility("default")))

/* From hip_runtime_api.h, unchanged since 3.x; hipError_t is an int in the ABI.
 * The flags of hipExtMallocWithFlags are values, not bits: 3 is device memory. */
#define HIP_OUT_OF_MEMORY	 2
#define HIP_NOT_INITIALIZED	 3
#define HIP_MALLOC_SIGNAL_MEMORY 0x2

/* Beside the answers of client_charge(). */
#define ALREADY_LOCKED 2

#define LOCK_ENOMEM (errno = ENOMEM, -1)
#define RAW(...)    (int)syscall(__VA_ARGS__)

struct hook_call {
	const char *name;
	int kind;
	bool allocates; /* the memory as well: there is nothing to go on with instead */
	bool outer;	/* not called from within another hook */
	bool admitted;	/* settle it */
	bool refused;
	const void *ptr; /* what is freed, and the bytes held for it */
	uint64_t held;
};

/* Runtimes lock memory, and call their own exported functions, on behalf of the
 * call that was admitted. */
static __thread unsigned int depth __attribute__((tls_model("initial-exec")));

static struct hook_call begin(const char *name, int kind)
{
	return (struct hook_call){ .name = name, .kind = kind, .outer = depth++ == 0 };
}

/* Some programs take a refused allocation for fatal: the administrator may have
 * it let through. Asked after a refusal only, for it costs another question. */
static bool is_let_through(const struct hook_call *call)
{
	struct pincap_status status;

	return call->allocates && client_status(&status) == 0 && status.alloc == PINCAP_ALLOC_PASS;
}

/* A refusal counts all pages of the range; what is locked already needs no room.
 * The look at the mappings is worth it only now. */
static int charge_unlocked(const void *start, uint64_t *bytes)
{
	uint64_t missing = span_unlocked(start, *bytes);

	if (missing >= *bytes)
		return -EDQUOT;
	*bytes = missing;
	return missing ? client_charge(missing, PINCAP_KIND_LOCK) : ALREADY_LOCKED;
}

static const char *answer_str(int rc)
{
	switch (rc) {
	case 0:
		return "admitted";
	case PINCAP_UNMANAGED:
		return "passed on, nobody answered";
	case ALREADY_LOCKED:
		return "passed on, locked already";
	case CLIENT_STOPPED:
		return "refused, stopped";
	case -ENOMEM:
		return "refused, reserve";
	case -EAGAIN:
		return "refused, no room to remember";
	default:
		return "refused, budget";
	}
}

static void ask(struct hook_call *call, uint64_t bytes, const void *start)
{
	uint64_t wanted = bytes;
	int first;
	int rc;

	/* The real function has an answer to nonsense, and it is not ours. */
	if (bytes == 0 || bytes > PINCAP_MAX_BYTES) {
		advice_poll();
		note(call->name, "passed on", bytes);
		return;
	}
	first = rc = client_charge(bytes, call->kind);
	if (rc < 0 && start) {
		rc = charge_unlocked(start, &bytes);
		if (rc < 0)
			rc = first;
	}
	if (rc < 0 && is_let_through(call)) {
		note(call->name, "passed, over", bytes);
		return;
	}
	call->admitted = rc == 0;
	call->refused = rc < 0;
	if (rc == CLIENT_STOPPED)
		advice_withheld(wanted);
	note(call->name, answer_str(rc), rc < 0 ? wanted : bytes);
}

/* Does the kernel side see what this process's driver takes? Then the call took no
 * more than was seen: the pointer was registered already, or the runtime had room. */
static bool is_driver_seen(void)
{
	struct pincap_status status;

	return client_status(&status) == 0 && status.gpu > 0;
}

static void end(struct hook_call *call, bool ok, const void *ptr)
{
	int64_t held = call->admitted ? client_settle() : 0;
	/* What a failed call took is not taken. What the kernel counts itself is not held
	 * either: nothing would ever give it back. */
	bool stays = held > 0 && ok && call->kind != PINCAP_KIND_LOCK && !is_driver_seen();

	if (stays)
		held_add(ptr, (uint64_t)held);
	else if (held > 0)
		client_uncharge((uint64_t)held);
	if (call->admitted && !ok)
		note(call->name, "failed, settled", 0);
	else if (stays)
		note(call->name, "settled, held", (uint64_t)held);
	depth--;
}

static void begin_free(struct hook_call *call, const void *ptr)
{
	if (!call->outer)
		return;
	advice_poll();
	call->ptr = ptr;
	call->held = held_take(ptr);
}

static void end_free(struct hook_call *call, bool ok)
{
	if (call->held && ok) {
		client_uncharge(call->held);
		note(call->name, "given back", call->held);
	} else if (call->held) {
		held_add(call->ptr, call->held);
	}
	depth--;
}

#define PIN_(symbol, params, args, kind_, allocates_, absent, refusal, bytes, freed_by)          \
	EXPORT int symbol params;                                                                \
	int symbol params                                                                        \
	{                                                                                        \
		static _Atomic(void *) slot;                                                     \
		int(*const real) params = (int(*) params)real_find(&slot, #symbol);              \
		const bool is_lock = PINCAP_KIND_##kind_ == PINCAP_KIND_LOCK;                    \
		struct hook_call call = begin(#symbol, PINCAP_KIND_##kind_);                     \
		int rc;                                                                          \
                                                                                                 \
		call.allocates = (allocates_);                                                   \
		if (call.outer && !api_is_asking() && (real || is_lock))                         \
			ask(&call, bytes, is_lock ? (const void *)(freed_by) : NULL);            \
		if (call.refused)                                                                \
			rc = refusal;                                                            \
		else                                                                             \
			rc = real ? real args : absent;                                          \
		end(&call, rc == 0, rc == 0 && call.admitted ? (const void *)(freed_by) : NULL); \
		return rc;                                                                       \
	}

#define PIN(symbol, params, args, kind, ...)   PIN_(symbol, params, args, kind, false, __VA_ARGS__)
#define ALLOC(symbol, params, args, kind, ...) PIN_(symbol, params, args, kind, true, __VA_ARGS__)

#define FREE(symbol, params, args, absent, pinned_as)                               \
	EXPORT int symbol params;                                                   \
	int symbol params                                                           \
	{                                                                           \
		static _Atomic(void *) slot;                                        \
		int(*const real) params = (int(*) params)real_find(&slot, #symbol); \
		struct hook_call call = begin(#symbol, 0);                          \
		int rc;                                                             \
                                                                                    \
		begin_free(&call, pinned_as);                                       \
		rc = real ? real args : absent;                                     \
		end_free(&call, rc == 0);                                           \
		return rc;                                                          \
	}

#include "userspace/lib/hooks.def"
