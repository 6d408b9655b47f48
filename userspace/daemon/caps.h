/* SPDX-License-Identifier: MIT */
/* Fewer privileges than root's: what the daemon does after its start needs few. */
#ifndef PINCAP_CAPS_H
#define PINCAP_CAPS_H

/* For good, for all that it may ever execute. A failure is a negative errno. */
int caps_drop(void);

#endif
