/* SPDX-License-Identifier: MIT */
/*
 * The conversation with the kernel part: charge, settle, uncharge, status, as
 * private socket options. Needs no lock, allocates nothing, keeps errno.
 */
#ifndef PINCAP_CLIENT_H
#define PINCAP_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/intf.h"

/* What client_charge() says, beside what pincap_charge() says, when it did not
 * ask because the controller said stop. The caller that gives up on the request
 * reports it with advice_withheld(). */
#define CLIENT_STOPPED (-16)

int client_charge(uint64_t bytes, int kind);
int64_t client_settle(void);
int client_uncharge(uint64_t bytes);
int client_status(struct pincap_status *ret);

/* This thread charged through the public interface and has not settled. */
bool api_is_asking(void);

#endif
