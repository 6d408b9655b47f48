/* SPDX-License-Identifier: MIT */
/*
 * What the emulated driver and the library inside the workload agree upon
 * besides the kernel's own ioctl interface: the identity of the one GPU and
 * the layout of mmap offsets.
 */
#ifndef KFD_EMU_H
#define KFD_EMU_H

#include <inttypes.h>
#include <stdint.h>
#include <linux/kfd_ioctl.h>

#define KFD_EMU_GPU_ID 0x4242u

/* The runtime keeps the place within the doorbell page in the low 32 bits, so
 * the offset of the page itself must have none of them set. */
#define KFD_EMU_DOORBELL_OFFSET (1ULL << 32)
#define KFD_EMU_FIRST_OFFSET	(2ULL << 32)
#define KFD_EMU_END_OFFSET	(1ULL << 44)
#define KFD_EMU_OFFSET_ALIGN	(2ULL << 20)

#define KFD_EMU_PAGE_BYTES 4096ULL

/* Buffers of these kinds are host memory; the others are not counted. */
#define KFD_EMU_SYSTEM_FLAGS (KFD_IOC_ALLOC_MEM_FLAGS_GTT | KFD_IOC_ALLOC_MEM_FLAGS_USERPTR)

/* Written to the driver's file before a mapping ends: from where, how many
 * bytes. The kernel tells its drivers of that without any call of theirs. */
#define KFD_EMU_UNMAP_BYTES 64
#define KFD_EMU_UNMAP_PRINT "unmap %" PRIx64 " %" PRIx64 "\n"
#define KFD_EMU_UNMAP_SCAN  "unmap %" SCNx64 " %" SCNx64

/* The ring of an AQL queue is mapped twice in a row: the caller names the size
 * of both mappings, the memory behind them is half of it. */
static inline uint64_t kfd_emu_real_bytes(uint64_t size, uint32_t flags)
{
	if (flags & KFD_IOC_ALLOC_MEM_FLAGS_AQL_QUEUE_MEM)
		size >>= 1;
	return (size + KFD_EMU_PAGE_BYTES - 1) & ~(KFD_EMU_PAGE_BYTES - 1);
}

#endif
