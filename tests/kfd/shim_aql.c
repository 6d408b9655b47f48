/* SPDX-License-Identifier: MIT */
/*
 * Packets of compute queues (HSA's architected queuing language). Barriers are
 * honoured, kernels are reported as completed and not run. That includes the
 * runtime's own copy kernels, which it falls back to if it can not have a copy
 * engine's queue: then data is not copied.
 */
#include "tests/kfd/shim.h"

#define AQL_PACKET_BYTES 64
#define AQL_BARRIER_DEPS 5

enum aql_type {
	AQL_VENDOR = 0,
	AQL_INVALID = 1,
	AQL_DISPATCH = 2,
	AQL_BARRIER_AND = 3,
	AQL_AGENT = 4,
	AQL_BARRIER_OR = 5,
};

#define AQL_VENDOR_BARRIER_VALUE 2

/* amd_signal_t of the HSA runtime's ABI. */
struct signal {
	int64_t kind;
	int64_t value;
	uint64_t mailbox;
	uint32_t event_id;
	uint32_t reserved;
	uint64_t start_clock;
	uint64_t end_clock;
	uint64_t queue;
	uint64_t reserved2[2];
};

union packet {
	uint16_t header;
	uint8_t bytes[AQL_PACKET_BYTES];
	struct {
		uint64_t head;
		uint64_t deps[AQL_BARRIER_DEPS];
		uint64_t reserved;
		uint64_t completion;
	} barrier;
	struct {
		uint64_t head;
		uint64_t signal;
		int64_t value;
		int64_t mask;
		uint32_t condition;
	} barrier_value;
};
_Static_assert(sizeof(union packet) == AQL_PACKET_BYTES, "HSA ABI");

static int64_t signal_value(uint64_t handle)
{
	struct signal *s = (struct signal *)(uintptr_t)handle;

	return __atomic_load_n(&s->value, __ATOMIC_ACQUIRE);
}

/* The waiter may recycle the signal as soon as the value changes, so all else
 * is read and written before. */
static void complete_signal(uint64_t handle, uint64_t start_clock)
{
	struct signal *s = (struct signal *)(uintptr_t)handle;
	uint64_t *mailbox;
	uint32_t event_id;

	if (!s)
		return;
	mailbox = (uint64_t *)(uintptr_t)s->mailbox;
	event_id = s->event_id;
	s->start_clock = start_clock;
	s->end_clock = shim_gpu_clock();
	__atomic_sub_fetch(&s->value, 1, __ATOMIC_RELEASE);
	if (mailbox) {
		__atomic_store_n(mailbox, event_id, __ATOMIC_RELEASE);
		event_set(event_id);
	}
	queue_kick();
}

static bool are_all_done(const union packet *p)
{
	int i;

	for (i = 0; i < AQL_BARRIER_DEPS; i++)
		if (p->barrier.deps[i] && signal_value(p->barrier.deps[i]) != 0)
			return false;
	return true;
}

/* A barrier without dependencies is open. */
static bool is_any_done(const union packet *p)
{
	bool has_deps = false;
	int i;

	for (i = 0; i < AQL_BARRIER_DEPS; i++) {
		if (!p->barrier.deps[i])
			continue;
		if (signal_value(p->barrier.deps[i]) == 0)
			return true;
		has_deps = true;
	}
	return !has_deps;
}

/* Conditions are numbered as HSA's: equal, not equal, less, not less. */
static bool is_value_reached(const union packet *p)
{
	int64_t value;

	if (p->bytes[2] != AQL_VENDOR_BARRIER_VALUE || !p->barrier_value.signal)
		return true;
	value = signal_value(p->barrier_value.signal) & p->barrier_value.mask;
	switch (p->barrier_value.condition) {
	case 0:
		return value == p->barrier_value.value;
	case 1:
		return value != p->barrier_value.value;
	case 2:
		return value < p->barrier_value.value;
	default:
		return value >= p->barrier_value.value;
	}
}

static bool is_ready(const union packet *p, uint8_t type)
{
	switch (type) {
	case AQL_BARRIER_AND:
		return are_all_done(p);
	case AQL_BARRIER_OR:
		return is_any_done(p);
	case AQL_VENDOR:
		return is_value_reached(p);
	default:
		return true;
	}
}

bool aql_step(struct queue *q)
{
	uint64_t read = __atomic_load_n(q->read_index, __ATOMIC_ACQUIRE);
	uint64_t write = __atomic_load_n(q->write_index, __ATOMIC_ACQUIRE);
	uint64_t packets = q->ring_bytes / AQL_PACKET_BYTES;
	uint64_t start_clock = shim_gpu_clock();
	union packet *p = (union packet *)(uintptr_t)q->ring + read % packets;
	uint8_t type;

	if (read >= write)
		return false;
	/* A packet is reserved first and filled after; its header comes last. */
	type = __atomic_load_n(&p->header, __ATOMIC_ACQUIRE) & 0xff;
	if (type == AQL_INVALID || !is_ready(p, type))
		return false;

	shim_log("queue %u: packet %llu of type %u%s", q->id, (unsigned long long)read, type,
		 type == AQL_DISPATCH ? " (kernel not run)" : "");
	complete_signal(p->barrier.completion, start_clock);
	__atomic_store_n(&p->header, AQL_INVALID, __ATOMIC_RELEASE);
	__atomic_store_n(q->read_index, read + 1, __ATOMIC_RELEASE);
	return true;
}
