# SPDX-License-Identifier: MIT
# What each product is made of. Dependencies point one way:
# cli, daemon -> control -> common; lib -> libc.

COMMON_SRCS := $(wildcard userspace/common/*.c)
# The daemon's configuration: libcyaml goes into pincapd alone.
CONFIG_SRCS := $(wildcard userspace/control/config*.c) \
	$(addprefix userspace/control/,glob.c owner.c rules.c)
CONTROL_SRCS := $(filter-out $(CONFIG_SRCS),$(wildcard userspace/control/*.c))
CLI_SRCS := $(wildcard userspace/cli/*.c)
CLI_OBJS := $(patsubst %.c,$(O)/%.o,$(COMMON_SRCS) $(CONTROL_SRCS) $(CLI_SRCS))

DAEMON_SRCS := $(wildcard userspace/daemon/*.c)
DAEMON_OBJS := $(patsubst %.c,$(O)/%.o,$(COMMON_SRCS) $(CONTROL_SRCS) $(CONFIG_SRCS) $(DAEMON_SRCS))

LIB_SRCS := $(addprefix userspace/lib/,advice.c api.c client.c release.c state.c)
LIB_OBJS := $(LIB_SRCS:%.c=$(O)/%.pic.o)
# The client is inside, so that an unmodified program needs this one file alone.
PRELOAD_SRCS := $(LIB_SRCS) $(addprefix userspace/lib/,held.c note.c preload.c real.c span.c)
PRELOAD_OBJS := $(PRELOAD_SRCS:%.c=$(O)/%.pic.o)
