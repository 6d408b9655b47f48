/* SPDX-License-Identifier: MIT */
/*
 * RELEASEs are numbered here, since the next controller's epochs begin again, and
 * a number and an amount fit into one word: so that whoever looks never takes the
 * amount of one for that of another, and nothing is given twice.
 */
#include <errno.h>
#include <unistd.h>

#include "userspace/lib/release.h"

#define PAGE_SHIFT  12
#define AMOUNT_BITS 34 /* pages: 2^46 bytes, as much as may be asked for at once */
#define AMOUNT_MAX  ((1ULL << AMOUNT_BITS) - 1)

typedef uint64_t (*release_fn)(uint64_t bytes, void *ctx);

/* Written under `busy`; the context is there before the function is. */
static _Atomic(release_fn) function;
static _Atomic(void *) context;

static uint64_t number_of(uint64_t wanted)
{
	return wanted >> AMOUNT_BITS;
}

static uint64_t bytes_of(uint64_t wanted)
{
	return (wanted & AMOUNT_MAX) << PAGE_SHIFT;
}

static bool try_lock(struct release *r)
{
	return atomic_exchange_explicit(&r->busy, 1, memory_order_acquire) == 0;
}

static void unlock(struct release *r)
{
	atomic_store_explicit(&r->busy, 0, memory_order_release);
}

int release_set_function(release_fn fn, void *ctx)
{
	struct state *s = state_get();

	if (!s)
		return -ENOSYS;
	if (!try_lock(&s->release))
		return -EBUSY;
	function = NULL;
	context = ctx;
	function = fn;
	s->release.done_number = 0; /* this one may be able to */
	unlock(&s->release);
	return 0;
}

void release_want(struct release *r, uint64_t epoch, uint64_t bytes)
{
	uint64_t pages = bytes >> PAGE_SHIFT;

	pages += (bytes & ((1 << PAGE_SHIFT) - 1)) != 0;
	if (pages > AMOUNT_MAX)
		pages = AMOUNT_MAX;
	r->epoch = epoch;
	r->reported = 0;
	r->wanted = (number_of(r->wanted) + 1) << AMOUNT_BITS | pages;
}

bool release_news(const struct release *r, uint64_t *ret_count, uint64_t *ret_bytes)
{
	if (r->given_number != number_of(r->wanted) || r->given_count == r->reported)
		return false;
	*ret_count = r->given_count;
	*ret_bytes = r->given_bytes;
	return true;
}

static uint64_t missing(const struct release *r, uint64_t wanted)
{
	uint64_t given = r->given_number == number_of(wanted) ? r->given_bytes : 0;
	uint64_t bytes = bytes_of(wanted);

	return bytes > given ? bytes - given : 0;
}

uint64_t release_missing(const struct release *r)
{
	return missing(r, r->wanted);
}

/* Under `busy`. */
static uint64_t call_function(struct release *r, uint64_t bytes)
{
	release_fn fn = function;
	int saved = errno;
	uint64_t given;
	int cancel;

	if (!fn)
		return 0;
	cancel = cancel_off();
	given = fn(bytes, context);
	cancel_restore(cancel);
	errno = saved;
	if (!given)
		r->done_number = r->given_number;
	return given;
}

bool release_give(struct release *r)
{
	uint64_t wanted, bytes, given = 0;

	if (!function || !release_missing(r) || !try_lock(r))
		return false;
	wanted = r->wanted;
	if (r->given_number != number_of(wanted)) {
		r->given_bytes = 0;
		r->given_count = 0;
		r->given_number = number_of(wanted);
	}
	bytes = missing(r, wanted);
	if (bytes && r->done_number != r->given_number)
		given = call_function(r, bytes);
	if (given) {
		/* No more than 2^46: it is summed up. */
		r->given_bytes += given < bytes_of(AMOUNT_MAX) ? given : bytes_of(AMOUNT_MAX);
		r->given_count++;
	}
	unlock(r);
	return given != 0;
}
