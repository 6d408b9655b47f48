/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "userspace/common/clock.h"
#include "userspace/control/gate.h"
#include "userspace/control/kernel_priv.h"

#define GATE_LOCK RUN_DIR "/controller.lock"

struct gate {
	struct pincap_gate *page; /* shared with the kernel side */
	size_t page_bytes;
	struct ring_buffer *ring;
	gate_event_fn fn;
	void *ctx;
	int lock_fd;
};

static int on_record(void *ctx, void *data, size_t size)
{
	struct gate *g = ctx;
	const struct pincap_event *e = data;
	const struct pincap_mkdir_event *m = data;

	if (size >= sizeof(*m) && e->kind == PINCAP_EVENT_MKDIR)
		g->fn(e, m->path, g->ctx);
	else if (size >= sizeof(*e))
		g->fn(e, NULL, g->ctx);
	return 0;
}

static int take_lock(void)
{
	_cleanup_close_ int fd = open(GATE_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	return TAKE_FD(fd);
}

static int map_page(struct gate *g)
{
	_cleanup_close_ int fd = kernel_get_pinned("maps/gate");
	void *page;

	if (fd < 0)
		return fd;
	g->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	page = mmap(NULL, g->page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	g->page = page;
	return 0;
}

static int open_ring(struct gate *g)
{
	_cleanup_close_ int fd = kernel_get_pinned("maps/events");

	if (fd < 0)
		return fd;
	g->ring = ring_buffer__new(fd, on_record, g, NULL); /* keeps its own mappings */
	return g->ring ? 0 : -errno;
}

int gate_open(struct gate **ret, struct kernel *k, gate_event_fn fn, void *ctx)
{
	_cleanup_(gate_closep) struct gate *g = calloc(1, sizeof(*g));
	int err;

	(void)k; /* held open by the caller, so that nobody unloads what is mapped here */
	if (!g)
		return -ENOMEM;
	g->fn = fn;
	g->ctx = ctx;
	g->lock_fd = take_lock();
	if (g->lock_fd < 0)
		return g->lock_fd;
	err = map_page(g);
	if (!err)
		err = open_ring(g);
	if (err)
		return err;
	*ret = TAKE_PTR(g);
	return 0;
}

struct gate *gate_close(struct gate *g)
{
	if (!g)
		return NULL;
	if (g->page) {
		gate_withdraw(g);
		__atomic_store_n(&g->page->heartbeat_ns, 0, __ATOMIC_RELEASE);
		munmap(g->page, g->page_bytes);
	}
	ring_buffer__free(g->ring);
	closep(&g->lock_fd);
	free(g);
	return NULL;
}

void gate_closep(struct gate **g)
{
	*g = gate_close(*g);
}

int gate_fd(const struct gate *g)
{
	return ring_buffer__epoll_fd(g->ring);
}

int gate_dispatch(struct gate *g)
{
	int n = ring_buffer__consume(g->ring);

	return MIN(n, 0);
}

void gate_beat(struct gate *g)
{
	__atomic_store_n(&g->page->heartbeat_ns, clock_ns(), __ATOMIC_RELEASE);
}

void gate_decided(struct gate *g, uint64_t cgid)
{
	__atomic_store_n(&g->page->decided_id, cgid, __ATOMIC_RELEASE);
}

uint64_t gate_lost(const struct gate *g)
{
	return __atomic_load_n(&g->page->lost, __ATOMIC_ACQUIRE);
}

uint64_t gate_admitted(const struct gate *g)
{
	return __atomic_load_n(&g->page->admitted, __ATOMIC_ACQUIRE);
}

uint64_t gate_observed(const struct gate *g)
{
	return __atomic_load_n(&g->page->observed, __ATOMIC_ACQUIRE);
}

/* Into the slot that nobody reads, then flip. A reader that still has the other
 * one uses the headroom before this. */
uint32_t gate_publish(struct gate *g, const struct pincap_headroom *room)
{
	uint32_t last = g->page->slot & 1;
	struct pincap_headroom *next = &g->page->headroom[!last];

	*next = *room;
	next->epoch = g->page->headroom[last].epoch + 1;
	next->time_ns = clock_ns();
	__atomic_store_n(&g->page->slot, !last, __ATOMIC_RELEASE);
	return next->epoch;
}

void gate_withdraw(struct gate *g)
{
	for (size_t i = 0; i < ARRAY_SIZE(g->page->headroom); i++)
		__atomic_store_n(&g->page->headroom[i].time_ns, 0, __ATOMIC_RELEASE);
}
