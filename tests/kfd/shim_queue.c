/* SPDX-License-Identifier: MIT */
/*
 * Queues. The runtime writes packets to a ring in its own memory and rings a
 * doorbell that no one can listen to, so each queue has a thread that looks at
 * the ring, at longer intervals the longer nothing comes. Waiting for events
 * and completing packets cut the interval short: after them things happen.
 */
#include <signal.h>
#include <sys/prctl.h>

#include "tests/kfd/shim.h"
#include "userspace/common/util.h"

#define QUEUE_MAX	   64
#define QUEUE_STACK_BYTES  (256 << 10)
#define QUEUE_SLACK_NS	   2000 /* the default of 50 us would more than double a short nap */
#define QUEUE_DOORBELL_GAP 8

/* Naps since the last packet, and how long each is. An idle queue costs a
 * thousand short looks a second at first and 250 in the end. */
static const struct {
	unsigned below;
	uint64_t ns;
} naps[] = {
	{ 50, 20000 },
	{ 250, 100000 },
	{ 1250, 1000000 },
	{ ~0U, 4000000 },
};

static pthread_mutex_t queue_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t queue_kicked = PTHREAD_COND_INITIALIZER;
static struct queue queues[QUEUE_MAX];
static uint64_t kicks;

static uint64_t nap_ns(unsigned idle)
{
	size_t i = 0;

	while (i < ARRAY_SIZE(naps) - 1 && idle >= naps[i].below)
		i++;
	return naps[i].ns;
}

/* False: the queue is to stop. */
static bool nap(struct queue *q)
{
	struct timespec deadline = shim_deadline(nap_ns(q->idle));
	bool is_stopping;

	pthread_mutex_lock(&queue_mutex);
	if (q->kicks == kicks && !q->is_stopping)
		pthread_cond_clockwait(&queue_kicked, &queue_mutex, CLOCK_MONOTONIC, &deadline);
	if (q->kicks != kicks)
		q->idle = 0;
	else
		q->idle++;
	q->kicks = kicks;
	is_stopping = q->is_stopping;
	pthread_mutex_unlock(&queue_mutex);
	return !is_stopping;
}

static bool is_stopping(struct queue *q)
{
	return __atomic_load_n(&q->is_stopping, __ATOMIC_ACQUIRE);
}

static void *run_queue(void *arg)
{
	struct queue *q = arg;
	bool (*step)(struct queue *) =
		q->type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL ? aql_step : sdma_step;

	prctl(PR_SET_TIMERSLACK, QUEUE_SLACK_NS);
	prctl(PR_SET_NAME, "kfd-shim queue");
	do {
		while (!is_stopping(q) && step(q))
			q->idle = 0;
	} while (nap(q));
	return NULL;
}

/* The workload's signals are for its own threads. */
static int start_thread(struct queue *q)
{
	pthread_attr_t attr;
	sigset_t all, old;
	int err;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, QUEUE_STACK_BYTES);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	err = pthread_create(&q->thread, &attr, run_queue, q);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return -err;
}

static int start_queue(const struct kfd_ioctl_create_queue_args *args, uint32_t *ret_id)
{
	uint32_t slot = 0;
	struct queue *q;
	int err;

	while (slot < QUEUE_MAX && queues[slot].is_used)
		slot++;
	if (slot == QUEUE_MAX)
		return -ENOMEM;
	q = &queues[slot];
	*q = (struct queue){
		.id = slot + 1,
		.type = args->queue_type,
		.ring = args->ring_base_address,
		.ring_bytes = args->ring_size,
		.read_index = (uint64_t *)(uintptr_t)args->read_pointer_address,
		.write_index = (uint64_t *)(uintptr_t)args->write_pointer_address,
		.kicks = kicks,
	};
	err = start_thread(q);
	if (err)
		return err;
	q->is_used = true;
	*ret_id = q->id;
	return 0;
}

static bool is_emulated_type(uint32_t type)
{
	return type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL || type == KFD_IOC_QUEUE_TYPE_SDMA ||
	       type == KFD_IOC_QUEUE_TYPE_SDMA_XGMI;
}

int queue_create(struct kfd_ioctl_create_queue_args *args)
{
	uint32_t id;
	int err;

	if (!is_emulated_type(args->queue_type) || !args->ring_size)
		return -EINVAL;
	pthread_mutex_lock(&queue_mutex);
	err = start_queue(args, &id);
	pthread_mutex_unlock(&queue_mutex);
	if (err)
		return err;
	args->queue_id = id;
	args->doorbell_offset = KFD_EMU_DOORBELL_OFFSET + id * QUEUE_DOORBELL_GAP;
	shim_log("queue %u of type %u, ring %#llx + %u", id, args->queue_type,
		 (unsigned long long)args->ring_base_address, args->ring_size);
	return 0;
}

/* The slot stays taken until the thread is gone. False: it has no queue, or
 * another thread is stopping it. */
static bool stop_queue(struct queue *q)
{
	bool is_ours;

	pthread_mutex_lock(&queue_mutex);
	is_ours = q->is_used && !q->is_stopping;
	if (is_ours) {
		__atomic_store_n(&q->is_stopping, true, __ATOMIC_RELEASE);
		pthread_cond_broadcast(&queue_kicked);
	}
	pthread_mutex_unlock(&queue_mutex);
	if (!is_ours)
		return false;

	pthread_join(q->thread, NULL);
	pthread_mutex_lock(&queue_mutex);
	q->is_used = false;
	pthread_mutex_unlock(&queue_mutex);
	return true;
}

int queue_destroy(uint32_t id)
{
	if (!id || id > QUEUE_MAX)
		return -EINVAL;
	return stop_queue(&queues[id - 1]) ? 0 : -EINVAL;
}

void queue_stop_within(uint64_t addr, uint64_t bytes)
{
	size_t i;

	for (i = 0; i < QUEUE_MAX; i++)
		if (queues[i].is_used && queues[i].ring - addr < bytes)
			stop_queue(&queues[i]);
}

void queue_stop_all(void)
{
	size_t i;

	for (i = 0; i < QUEUE_MAX; i++)
		stop_queue(&queues[i]);
}

void queue_kick(void)
{
	pthread_mutex_lock(&queue_mutex);
	kicks++;
	pthread_cond_broadcast(&queue_kicked);
	pthread_mutex_unlock(&queue_mutex);
}

void queue_lock(void)
{
	pthread_mutex_lock(&queue_mutex);
}

void queue_unlock(void)
{
	pthread_mutex_unlock(&queue_mutex);
}

/* The threads stayed with the parent. */
void queue_forked(void)
{
	memset(queues, 0, sizeof(queues));
	queue_kicked = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}
