/* SPDX-License-Identifier: MIT */
/*
 * Packets of the copy engines, as of SDMA 4 and 5. They are carried out for
 * real, so that the workload can verify what it copied.
 */
#include <string.h>

#include "tests/kfd/shim.h"

enum sdma_op {
	SDMA_NOP = 0,
	SDMA_COPY = 1,
	SDMA_FENCE = 5,
	SDMA_TRAP = 6,
	SDMA_POLL = 8,
	SDMA_ATOMIC = 10,
	SDMA_FILL = 11,
	SDMA_TIMESTAMP = 13,
	SDMA_GCR = 17,
};

#define SDMA_COPY_LINEAR	0
#define SDMA_ATOMIC_ADD64	47  /* with and without the old value returned, */
#define SDMA_ATOMIC_ADD64_NORTN 111 /* which goes nowhere in either case */
#define SDMA_COUNT_MASK		0x3fffffffu
#define SDMA_EVENT_MASK		0xfffffffu

/* Lengths of packets in 32-bit words. */
#define SDMA_COPY_WORDS	     7
#define SDMA_FENCE_WORDS     4
#define SDMA_TRAP_WORDS	     2
#define SDMA_POLL_WORDS	     6
#define SDMA_ATOMIC_WORDS    8
#define SDMA_FILL_WORDS	     5
#define SDMA_TIMESTAMP_WORDS 3
#define SDMA_GCR_WORDS	     5

static uint64_t word64(const uint32_t *p, int i)
{
	return p[i] | (uint64_t)p[i + 1] << 32;
}

static unsigned sub_op(const uint32_t *p)
{
	return p[0] >> 8 & 0xff;
}

static void do_copy(const uint32_t *p)
{
	uint64_t bytes = (p[1] & SDMA_COUNT_MASK) + 1ULL;
	const void *from;
	void *to;

	if (sub_op(p) != SDMA_COPY_LINEAR) {
		shim_complain("copy of kind %u is not emulated", sub_op(p));
		return;
	}
	from = memory_cpu(word64(p, 3), bytes);
	to = memory_cpu(word64(p, 5), bytes);
	shim_log("copy %llu bytes %p -> %p", (unsigned long long)bytes, from, to);
	memmove(to, from, bytes);
}

static void do_fence(const uint32_t *p)
{
	uint32_t *to = memory_cpu(word64(p, 1), sizeof(*to));

	__atomic_store_n(to, p[3], __ATOMIC_RELEASE);
}

/* The count is that of the last word's first byte. */
static void do_fill(const uint32_t *p)
{
	uint64_t words = (p[4] & SDMA_COUNT_MASK) / sizeof(uint32_t) + 1, i;
	uint32_t *to = memory_cpu(word64(p, 1), words * sizeof(uint32_t));

	for (i = 0; i < words; i++)
		to[i] = p[3];
}

static void do_atomic(const uint32_t *p)
{
	uint64_t *to = memory_cpu(word64(p, 1), sizeof(*to));
	unsigned op = p[0] >> 25;

	if (op == SDMA_ATOMIC_ADD64 || op == SDMA_ATOMIC_ADD64_NORTN)
		__atomic_add_fetch(to, word64(p, 3), __ATOMIC_ACQ_REL);
	else
		shim_complain("atomic operation %u is not emulated", op);
}

static void do_timestamp(const uint32_t *p)
{
	uint64_t *to = memory_cpu(word64(p, 1), sizeof(*to));

	__atomic_store_n(to, shim_gpu_clock(), __ATOMIC_RELEASE);
}

/* Without the memory flag the packet flushes a cache, and there is none. */
static bool is_poll_over(const uint32_t *p)
{
	uint32_t *from, value;

	if (!(p[0] >> 31))
		return true;
	from = memory_cpu(word64(p, 1), sizeof(*from));
	value = __atomic_load_n(from, __ATOMIC_ACQUIRE) & p[4];
	switch (p[0] >> 28 & 7) {
	case 0:
		return true;
	case 1:
		return value < p[3];
	case 2:
		return value <= p[3];
	case 3:
		return value == p[3];
	case 4:
		return value != p[3];
	case 5:
		return value >= p[3];
	default:
		return value > p[3];
	}
}

/* The packet's length in words; 0: it has to wait. */
static uint32_t execute(const uint32_t *p)
{
	switch (p[0] & 0xff) {
	case SDMA_NOP:
		return 1 + (p[0] >> 16 & 0x3fff);
	case SDMA_COPY:
		do_copy(p);
		return sub_op(p) == SDMA_COPY_LINEAR ? SDMA_COPY_WORDS : 13;
	case SDMA_FENCE:
		do_fence(p);
		return SDMA_FENCE_WORDS;
	case SDMA_TRAP:
		event_set(p[1] & SDMA_EVENT_MASK);
		queue_kick();
		return SDMA_TRAP_WORDS;
	case SDMA_POLL:
		return is_poll_over(p) ? SDMA_POLL_WORDS : 0;
	case SDMA_ATOMIC:
		do_atomic(p);
		queue_kick();
		return SDMA_ATOMIC_WORDS;
	case SDMA_FILL:
		do_fill(p);
		return SDMA_FILL_WORDS;
	case SDMA_TIMESTAMP:
		do_timestamp(p);
		return SDMA_TIMESTAMP_WORDS;
	case SDMA_GCR:
		return SDMA_GCR_WORDS;
	default:
		shim_complain("copy engine packet %#x is not emulated", p[0]);
		return 1;
	}
}

/* Indices count bytes and never wrap; a packet never crosses the ring's end. */
bool sdma_step(struct queue *q)
{
	uint64_t read = __atomic_load_n(q->read_index, __ATOMIC_ACQUIRE);
	uint64_t write = __atomic_load_n(q->write_index, __ATOMIC_ACQUIRE);
	uint32_t words;

	if (read >= write)
		return false;
	words = execute((const uint32_t *)(uintptr_t)(q->ring + read % q->ring_bytes));
	if (!words)
		return false;
	__atomic_store_n(q->read_index, read + words * sizeof(uint32_t), __ATOMIC_RELEASE);
	return true;
}
