/* SPDX-License-Identifier: MIT */
/*
 * linux/kfd_ioctl.h asks for drm/drm.h, which Debian ships under libdrm/ only.
 */
#ifndef KFD_DRM_FORWARD_H
#define KFD_DRM_FORWARD_H

#include <libdrm/drm.h>

#endif
