/* SPDX-License-Identifier: (GPL-2.0-only OR MIT) */
/*
 * Open files of render nodes. GEM's handles belong to one, and go with its last
 * reference, which may be a descriptor of any process, a mapping, or a message on its
 * way. Nothing tells of that, so the sweep looks whether the file still is what it
 * was. Its address is none: the next open gets it at once, and its private data's.
 * Hence an open file has an id here, from its first buffer on, and a call that opens
 * ends whatever had the address before.
 */
#ifndef PINCAP_FILE_BPF_H
#define PINCAP_FILE_BPF_H

#include "gpu.bpf.h"

#define FILE_REF_RELEASED 0xc000000000000000ULL /* include/linux/file_ref.h: and above */

__u32 files_known; /* entries of `files`: without any, a call that opens costs nothing */

/* enum pincap_device_kind of the file behind a descriptor, or 0. With
 * PINCAP_DEVICE_BY_DRIVER it is none of those whose ioctls are read. */
static __always_inline u32 device_kind(struct file *file)
{
	struct pincap_config *cfg = config_get();
	struct inode *inode = BPF_CORE_READ(file, f_inode);
	u16 mode = BPF_CORE_READ(inode, i_mode);
	bool is_chr = (mode & S_IFMT) == S_IFCHR;
	u32 dev = is_chr ? BPF_CORE_READ(inode, i_rdev) : BPF_CORE_READ(inode, i_sb, s_dev);
	u64 ino = is_chr ? 0 : BPF_CORE_READ(inode, i_ino);

	for (int i = 0; cfg && i < PINCAP_DEVICES; i++) {
		struct pincap_device *d = &cfg->devices[i];

		if (!d->kind)
			break;
		if (d->dev == dev && d->ino == ino)
			return d->kind;
	}
	return 0;
}

static __always_inline struct file *file_of(struct task_struct *task, u32 fd)
{
	struct files_struct *files = task->files;
	struct fdtable *fdt = files ? files->fdt : NULL;
	struct file *file = NULL;

	if (fdt && fd < fdt->max_fds)
		bpf_probe_read_kernel(&file, sizeof(file), fdt->fd + fd);
	return file;
}

static __always_inline bool has_references(struct file *file)
{
	struct file___count *before = (void *)file;

	if (bpf_core_field_exists(file->f_ref))
		return (u64)BPF_CORE_READ(file, f_ref.refcnt.counter) < FILE_REF_RELEASED;
	return BPF_CORE_READ(before, f_count.counter) > 0;
}

/* The address may be anything's by now: it is read with care, and believed if all of
 * it fits. */
static __always_inline bool is_open(struct file *file, struct pincap_file *f)
{
	return has_references(file) && (u64)BPF_CORE_READ(file, private_data) == f->private_data &&
	       (device_kind(file) & ~PINCAP_DEVICE_BY_DRIVER) == PINCAP_DEVICE_DRM;
}

static long end_buffer(struct bpf_map *map, struct pincap_buffer_key *key,
		       struct pincap_buffer *buf, u64 *id)
{
	u64 mm = buf->mm, bytes = buf->bytes, birth = key->birth;
	struct pincap_process *rec;

	if (key->file != *id || bpf_map_delete_elem(&buffers, key))
		return 0;
	rec = bpf_map_lookup_elem(&processes, &mm);
	if (rec && rec->birth == birth)
		gpu_add(rec, mm, -bytes, 0);
	return 0;
}

/* The open file that had this address is closed: so are its handles. */
static __noinline int file_end(u64 file)
{
	struct pincap_file *f = bpf_map_lookup_elem(&files, &file);
	u64 id;

	if (!f)
		return 0;
	id = f->id;
	if (bpf_map_delete_elem(&files, &file))
		return 0;
	__sync_fetch_and_sub(&files_known, 1);
	bpf_for_each_map_elem(&buffers, end_buffer, &id, 0);
	return 0;
}

/* 0: it has no buffer. */
static __always_inline u64 file_known(struct file *file)
{
	u64 key = (u64)file;
	struct pincap_file *f = bpf_map_lookup_elem(&files, &key);

	return f ? f->id : 0;
}

/* 0: no room. */
static __noinline u64 file_id(struct file *file)
{
	u64 key = (u64)file;
	struct pincap_file fresh = {
		.id = bpf_ktime_get_ns(),
		.private_data = (u64)BPF_CORE_READ(file, private_data),
	};
	u64 id = file_known(file);

	if (id)
		return id;
	if (!bpf_map_update_elem(&files, &key, &fresh, BPF_NOEXIST))
		__sync_fetch_and_add(&files_known, 1);
	id = file_known(file); /* ours, or that of another thread which was faster */
	if (!id)
		STAT(files_full);
	return id;
}

static __always_inline void file_opened(struct file *file)
{
	if (file_known(file))
		file_end((u64)file);
}

/* What was opened unseen, through an io_uring, mostly differs in this. */
static __always_inline void file_used(struct file *file)
{
	u64 key = (u64)file;
	struct pincap_file *f = bpf_map_lookup_elem(&files, &key);

	if (f && f->private_data != (u64)BPF_CORE_READ(file, private_data))
		file_end(key);
}

static long reap_file(struct bpf_map *map, u64 *file, struct pincap_file *f, void *ctx)
{
	u64 key = *file;

	if (!is_open((struct file *)key, f))
		file_end(key);
	return 0;
}

/* At the end of a sweep. */
static __always_inline void reap_files(void)
{
	if (files_known)
		bpf_for_each_map_elem(&files, reap_file, NULL, 0);
}

#endif
