/* SPDX-License-Identifier: MIT */
/*
 * Events as the KFD has them before version 1.14, which introduced ages.
 *
 * No wake-up is lost: a signal stays with its event until a waiter has seen it,
 * and a waiter also sees every signal that came after it began to wait, even if
 * another waiter has taken it already. Waking once too often is harmless, for
 * the runtime looks at its own value again.
 */
#include "tests/kfd/shim.h"
#include "userspace/common/util.h"

#define EVENT_WAIT_MAX	 64 /* of one call; the runtime waits for a handful */
#define EVENT_FOREVER_MS 0xffffffffu
/* Not zero, or else the runtime takes the GPU for one that cannot interrupt. */
#define EVENT_PAGE_OFFSET (1ULL << 63)

struct event {
	bool is_used;
	bool is_set;
	bool is_auto_reset;
	uint64_t signals;
	uint64_t birth; /* tells events apart that had the same number */
};

struct wait_state {
	uint64_t signals;
	uint64_t birth;
};

static pthread_mutex_t event_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t event_changed = PTHREAD_COND_INITIALIZER;
static struct event events[KFD_SIGNAL_EVENT_LIMIT]; /* number 0 is none */
static uint64_t births;

static struct event *find_event(uint32_t id)
{
	return id < ARRAY_SIZE(events) && events[id].is_used ? &events[id] : NULL;
}

int event_create(struct kfd_ioctl_create_event_args *args)
{
	uint32_t id = 1;

	pthread_mutex_lock(&event_mutex);
	while (id < ARRAY_SIZE(events) && events[id].is_used)
		id++;
	if (id < ARRAY_SIZE(events))
		events[id] = (struct event){ .is_used = true,
					     .is_auto_reset = args->auto_reset,
					     .birth = ++births };
	pthread_mutex_unlock(&event_mutex);
	if (id == ARRAY_SIZE(events))
		return -ENOSPC;

	args->event_id = id;
	args->event_slot_index = id;
	args->event_trigger_data = id;
	if (args->event_type == KFD_IOC_EVENT_SIGNAL ||
	    args->event_type == KFD_IOC_EVENT_DEBUG_EVENT)
		args->event_page_offset = EVENT_PAGE_OFFSET;
	return 0;
}

int event_destroy(uint32_t id)
{
	struct event *e;

	pthread_mutex_lock(&event_mutex);
	e = find_event(id);
	if (e)
		e->is_used = false;
	pthread_cond_broadcast(&event_changed);
	pthread_mutex_unlock(&event_mutex);
	return e ? 0 : -EINVAL;
}

int event_set(uint32_t id)
{
	struct event *e;

	pthread_mutex_lock(&event_mutex);
	e = find_event(id);
	if (e) {
		e->is_set = true;
		e->signals++;
		pthread_cond_broadcast(&event_changed);
	}
	pthread_mutex_unlock(&event_mutex);
	return e ? 0 : -EINVAL;
}

int event_reset(uint32_t id)
{
	struct event *e;

	pthread_mutex_lock(&event_mutex);
	e = find_event(id);
	if (e)
		e->is_set = false;
	pthread_mutex_unlock(&event_mutex);
	return e ? 0 : -EINVAL;
}

static int begin_wait(const struct kfd_event_data *data, uint32_t n, struct wait_state *states)
{
	const struct event *e;
	uint32_t i;

	for (i = 0; i < n; i++) {
		e = find_event(data[i].event_id);
		if (!e)
			return -EINVAL;
		states[i] = (struct wait_state){ .signals = e->signals, .birth = e->birth };
	}
	return 0;
}

/* True: the wait is over, with *ret_result. */
static bool check_wait(const struct kfd_event_data *data, uint32_t n, bool is_for_all,
		       const struct wait_state *states, uint32_t *ret_result)
{
	uint32_t i, done = 0;

	for (i = 0; i < n; i++) {
		const struct event *e = find_event(data[i].event_id);

		if (!e || e->birth != states[i].birth) {
			*ret_result = KFD_IOC_WAIT_RESULT_FAIL;
			return true;
		}
		done += e->is_set || e->signals != states[i].signals;
	}
	*ret_result = KFD_IOC_WAIT_RESULT_COMPLETE;
	return is_for_all ? done == n : done > 0;
}

static void take_signals(const struct kfd_event_data *data, uint32_t n)
{
	struct event *e;
	uint32_t i;

	for (i = 0; i < n; i++) {
		e = find_event(data[i].event_id);
		if (e && e->is_auto_reset)
			e->is_set = false;
	}
}

static int wait_locked(struct kfd_ioctl_wait_events_args *args, const struct kfd_event_data *data)
{
	struct timespec deadline = shim_deadline(args->timeout * 1000000ULL);
	struct wait_state states[EVENT_WAIT_MAX];
	int err;

	err = begin_wait(data, args->num_events, states);
	while (!err && !check_wait(data, args->num_events, args->wait_for_all, states,
				   &args->wait_result)) {
		args->wait_result = KFD_IOC_WAIT_RESULT_TIMEOUT;
		if (args->timeout == 0)
			return 0;
		if (args->timeout == EVENT_FOREVER_MS)
			pthread_cond_wait(&event_changed, &event_mutex);
		else if (pthread_cond_clockwait(&event_changed, &event_mutex, CLOCK_MONOTONIC,
						&deadline) == ETIMEDOUT)
			return 0;
	}
	if (!err)
		take_signals(data, args->num_events);
	return err;
}

int event_wait(struct kfd_ioctl_wait_events_args *args)
{
	const struct kfd_event_data *data = (const void *)(uintptr_t)args->events_ptr;
	int err;

	if (!args->num_events || args->num_events > EVENT_WAIT_MAX)
		return -EINVAL;
	pthread_mutex_lock(&event_mutex);
	err = wait_locked(args, data);
	pthread_mutex_unlock(&event_mutex);
	return err;
}

void event_forget(void)
{
	pthread_mutex_lock(&event_mutex);
	memset(events, 0, sizeof(events));
	pthread_cond_broadcast(&event_changed);
	pthread_mutex_unlock(&event_mutex);
}

void event_lock(void)
{
	pthread_mutex_lock(&event_mutex);
}

void event_unlock(void)
{
	pthread_mutex_unlock(&event_mutex);
}

/* The parent's waiters are not here to be woken. */
void event_forked(void)
{
	memset(events, 0, sizeof(events));
	event_changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
}
