/* SPDX-License-Identifier: MIT */
/*
 * Proof by doing: pins a page and compares with what the kernel says of it.
 */
#ifndef PINCAP_DOCTOR_SELFTEST_H
#define PINCAP_DOCTOR_SELFTEST_H

#include "userspace/control/kernel.h"

/* A locked page appears in our record, equal to VmLck. 0 or -errno; -EPROTO: the
 * figures differ. */
int selftest_counting(struct kernel *k);

/* A charge, its settlement and the uncharge are answered and leave nothing. */
int selftest_admission(void);

#endif
