# SPDX-License-Identifier: MIT
# One Makefile for everything; objects and products go to $(O).
#   make            build            make check   all tests (root)
#   make demo       the main job     make deps    install the Debian packages
#   make help       the rest
O ?= build
CC ?= gcc
CLANG ?= clang
BPFTOOL ?= $(shell command -v bpftool || echo /usr/sbin/bpftool)
PKG_CONFIG ?= pkg-config
DESTDIR ?=
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
INCLUDEDIR ?= $(PREFIX)/include
MULTIARCH := $(shell $(CC) -print-multiarch 2>/dev/null)
LIBDIR ?= $(PREFIX)/lib$(if $(MULTIARCH),/$(MULTIARCH))
PRELOADDIR ?= $(LIBDIR)/pincap
UNITDIR ?= $(PREFIX)/lib/systemd/system
DOCDIR ?= $(PREFIX)/share/doc/pincap

# A release is tagged; between releases the commit is named.
RELEASE := 0.1.0
VERSION := $(RELEASE)$(addprefix +g,$(shell git describe --always --dirty --exclude "*" 2>/dev/null))

ifeq ($(V),1)
Q =
msg =
else
Q = @
msg = @printf '  %-7s %s\n' '$(1)' '$(patsubst $(O)/%,%,$(2))';
endif

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Werror
CFLAGS ?= -O2 -g
HARDEN := -fstack-protector-strong -fcf-protection
# _FORTIFY_SOURCE needs optimisation
HARDEN += $(if $(filter -O0,$(CFLAGS)),,-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
override CFLAGS := -std=gnu11 -D_GNU_SOURCE $(WARN) $(HARDEN) $(CFLAGS) -I. -I$(O)
override LDFLAGS := -Wl,-z,relro,-z,now $(LDFLAGS)
BPF_CFLAGS := -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_x86 -Ibpf -Wall -Wextra \
	-Wno-unused-parameter -Werror $(if $(MULTIARCH),-idirafter /usr/include/$(MULTIARCH))

# One of the names in tests/mutants.sh: a kernel side with that error in it.
BPF_CFLAGS += $(addprefix -DMUTANT_,$(MUTANT))

# Lazily, so that `make deps` works before there is a pkg-config.
CLI_LIBS = $(shell $(PKG_CONFIG) --libs libbpf libcgroup jansson libsystemd)
CONFIG_LIBS = $(shell $(PKG_CONFIG) --libs libcyaml yaml-0.1 libcgroup)
DAEMON_LIBS = $(CONFIG_LIBS) $(shell $(PKG_CONFIG) --libs libbpf libsystemd)
HIP_CFLAGS := -D__HIP_PLATFORM_AMD__

include userspace/sources.mk
include tests/tests.mk

.DELETE_ON_ERROR:
.SECONDARY: $(O)/pincap.raw.o $(O)/pincap.bpf.o
.PHONY: all
.DEFAULT_GOAL := all

PRODUCTS := $(O)/pincap $(O)/pincapd $(O)/libpincap.so $(O)/libpincap.a $(O)/libpincap-preload.so $(O)/libpincap.pc \
	$(O)/stand-in32.so
all: $(PRODUCTS)

# ---- eBPF ----

$(O)/%.raw.o: bpf/%.bpf.c
	$(call msg,BPF,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -MMD -MP -MT $@ -MF $(@:.o=.d) -c $< -o $@

$(O)/%.bpf.o: $(O)/%.raw.o
	$(call msg,LINK,$@)
	$(Q)$(BPFTOOL) gen object $@ $<

$(O)/%.skel.h: $(O)/%.bpf.o
	$(call msg,SKEL,$@)
	$(Q)$(BPFTOOL) gen skeleton $< name $*_bpf >$@

$(O)/userspace/control/kernel_load.o: $(O)/pincap.skel.h

# Who shows the version is built again when it changes, and nobody else.
VERSIONED := $(addprefix $(O)/userspace/,cli/main.o daemon/main.o control/kernel_load.o lib/api.pic.o)
$(VERSIONED): override CFLAGS += -DPINCAP_VERSION='"$(VERSION)"'
$(VERSIONED): $(O)/version
$(O)/version: FORCE
	@mkdir -p $(@D)
	@echo '$(VERSION)' | cmp -s - $@ || echo '$(VERSION)' >$@

# Likewise where the preload library will be.
PLACED := $(addprefix $(O)/userspace/cli/,run_options.o cmd_attach_host.o)
$(PLACED): override CFLAGS += -DPINCAP_LIBDIR='"$(PRELOADDIR)"' \
	-DPINCAP_LIBREL='"$(patsubst $(PREFIX)/%,%,$(PRELOADDIR))"'
$(PLACED): $(O)/libdir
$(O)/libdir: FORCE
	@mkdir -p $(@D)
	@echo '$(PRELOADDIR)' | cmp -s - $@ || echo '$(PRELOADDIR)' >$@
FORCE:

# ---- C ----

$(O)/%.o: %.c
	$(call msg,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $($(*D)_CFLAGS) -MMD -MP -c $< -o $@

$(O)/%.pic.o: %.c
	$(call msg,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) -fPIC -fvisibility=hidden -MMD -MP -c $< -o $@

$(O)/pincap: $(CLI_OBJS)
	$(call msg,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(CLI_LIBS)

$(O)/pincapd: $(DAEMON_OBJS)
	$(call msg,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $^ $(DAEMON_LIBS)

$(O)/libpincap.so.1: $(LIB_OBJS) userspace/lib/libpincap.map
	$(call msg,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-z,defs -Wl,-soname,libpincap.so.1 \
		-Wl,--version-script=userspace/lib/libpincap.map -o $@ $(LIB_OBJS)

$(O)/libpincap.so: $(O)/libpincap.so.1
	$(Q)ln -sf libpincap.so.1 $@

$(O)/libpincap.a: $(LIB_OBJS)
	$(call msg,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(O)/libpincap-preload.so: $(PRELOAD_OBJS) userspace/lib/libpincap-preload.map
	$(call msg,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-z,defs \
		-Wl,--version-script=userspace/lib/libpincap-preload.map -o $@ $(PRELOAD_OBJS)

# Empty: what a 32-bit ld.so finds where /etc/ld.so.preload names the library.
$(O)/stand-in32.so: Makefile
	$(call msg,LD,$@)
	@mkdir -p $(@D)
	$(Q)echo '.section .note.GNU-stack,"",@progbits' | $(AS) --32 -o $(@:.so=.o) -
	$(Q)$(LD) -m elf_i386 -shared -z noexecstack -soname libpincap-preload.so -o $@ $(@:.so=.o)

$(O)/libpincap.pc: userspace/lib/libpincap.pc.in Makefile $(O)/version $(O)/libdir
	@mkdir -p $(@D)
	$(Q)sed -e 's|@prefix@|$(PREFIX)|' -e 's|@libdir@|$(LIBDIR)|' \
		-e 's|@includedir@|$(INCLUDEDIR)|' -e 's|@version@|$(VERSION)|' $< >$@

# ---- people ----

# Where a 32-bit ld.so looks when the entry says $LIB, by distribution.
LIB_DEBIAN := $(filter %/lib/x86_64-linux-gnu/pincap,$(PRELOADDIR))
STANDIN_DIRS := $(LIB_DEBIAN:/x86_64-linux-gnu/pincap=/i386-linux-gnu/pincap) \
	$(LIB_DEBIAN:/lib/x86_64-linux-gnu/pincap=/lib32/pincap) \
	$(patsubst %/lib64/pincap,%/lib/pincap,$(filter %/lib64/pincap,$(PRELOADDIR)))

UNITS := pincap.service pincapd.service

.PHONY: install uninstall deps demo demo-pressure check check-vm bench-admission bench-accounting format lint clean help
install: all
	install -d $(DESTDIR)$(BINDIR) $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(PRELOADDIR) \
		$(DESTDIR)$(INCLUDEDIR) $(DESTDIR)$(DOCDIR)
	install -m 755 $(O)/pincap $(O)/pincapd $(DESTDIR)$(BINDIR)/
	install -m 644 $(O)/libpincap.so.1 $(DESTDIR)$(LIBDIR)/libpincap.so.1
	ln -sf libpincap.so.1 $(DESTDIR)$(LIBDIR)/libpincap.so
	install -m 644 $(O)/libpincap.a $(DESTDIR)$(LIBDIR)/libpincap.a
	# By rename: every program of the host may be loading it (attach-host).
	install -m 644 $(O)/libpincap-preload.so $(DESTDIR)$(PRELOADDIR)/.libpincap-preload.so.new
	mv -f $(DESTDIR)$(PRELOADDIR)/.libpincap-preload.so.new \
		$(DESTDIR)$(PRELOADDIR)/libpincap-preload.so
	set -e; for d in $(STANDIN_DIRS); do install -d $(DESTDIR)$$d; \
		install -m 644 $(O)/stand-in32.so $(DESTDIR)$$d/libpincap-preload.so; done
	install -m 644 userspace/lib/pincap.h $(DESTDIR)$(INCLUDEDIR)/pincap.h
	install -m 644 $(O)/libpincap.pc $(DESTDIR)$(LIBDIR)/pkgconfig/libpincap.pc
	install -m 644 README.md LICENSE configs/pincap.yaml $(DESTDIR)$(DOCDIR)/
	install -d $(DESTDIR)$(UNITDIR)
	set -e; for u in $(UNITS); do \
		sed -e 's|@BINDIR@|$(BINDIR)|' -e 's|@DOCDIR@|$(DOCDIR)|' configs/systemd/$$u.in >$(DESTDIR)$(UNITDIR)/$$u; done

uninstall:
	[ -n "$(DESTDIR)" ] || ! grep -qs libpincap-preload /etc/ld.so.preload || \
		$(BINDIR)/pincap attach-host off
	for d in $(STANDIN_DIRS); do \
		rm -f $(DESTDIR)$$d/libpincap-preload.so; rmdir $(DESTDIR)$$d || :; done
	rm -f $(DESTDIR)$(BINDIR)/pincap $(DESTDIR)$(BINDIR)/pincapd \
		$(DESTDIR)$(LIBDIR)/libpincap.so.1 \
		$(DESTDIR)$(LIBDIR)/libpincap.so $(DESTDIR)$(LIBDIR)/libpincap.a \
		$(DESTDIR)$(PRELOADDIR)/libpincap-preload.so $(DESTDIR)$(INCLUDEDIR)/pincap.h \
		$(DESTDIR)$(LIBDIR)/pkgconfig/libpincap.pc $(DESTDIR)$(DOCDIR)/README.md \
		$(DESTDIR)$(DOCDIR)/LICENSE $(DESTDIR)$(DOCDIR)/pincap.yaml \
		$(addprefix $(DESTDIR)$(UNITDIR)/,$(UNITS))
	-rmdir $(DESTDIR)$(PRELOADDIR) $(DESTDIR)$(DOCDIR)

deps:
	tests/deps.sh

# Where a package is missing these install it first, in a make of their own so
# that pkg-config is asked afterwards.
demo demo-pressure check check-vm bench-admission bench-accounting:
	@tests/deps.sh --missing
	@$(MAKE) --no-print-directory -f Makefile $@-run

SOURCES = $(shell git ls-files '*.c' '*.h' 2>/dev/null)
format:
	clang-format -i $(SOURCES)

TIDY_CFLAGS = -std=gnu11 -D_GNU_SOURCE -I. -I$(O) -DPINCAP_VERSION=\"0\" -DPINCAP_LIBDIR=\"/\" -DPINCAP_LIBREL=\"lib\"
lint: lint-format lint-cppcheck lint-tidy
.PHONY: lint-format lint-cppcheck lint-tidy
lint-format:
	$(Q)clang-format --dry-run -Werror $(SOURCES)
lint-cppcheck:
	$(Q)cppcheck --quiet --std=c11 --error-exitcode=1 --inline-suppr -D__linux__ -D_GNU_SOURCE \
		--enable=warning,performance,portability '-DLIBBPF_OPTS(t,n,...)=struct t n = { __VA_ARGS__ }' --suppressions-list=tests/cppcheck.txt \
		-I. userspace tests
lint-tidy: $(O)/pincap.skel.h
	$(Q)printf '%s\n' $(filter userspace/%.c,$(SOURCES)) | xargs -P 2 -n 8 sh -c \
		'clang-tidy --quiet "$$@" -- $(TIDY_CFLAGS)' sh

clean:
	rm -rf $(O)

help:
	@echo 'all              build the tool and the libraries in $$O (build)'
	@echo 'demo             the main job: a loader on the real HIP runtime, with a budget and without'
	@echo 'demo-pressure    a small memory cgroup that swaps, and the same with a budget'
	@echo 'check            every test; ends with "N passed, N failed, N skipped"'
	@echo 'check-vm         the tests of the kernel side on the kernels of tests/vm/kernels, in'
	@echo '                 virtual machines (KERNEL=6.12 ONLY="load kernel-count": some)'
	@echo 'bench-admission  cost of admission against a bare system call'
	@echo 'bench-accounting cost of counting to everybody, sweep, eBPF time per event'
	@echo '                 (KERNEL=6.12: in a virtual machine, where fexit loads)'
	@echo 'fuzz             the configuration and its patterns, FUZZ_SECONDS (60) each'
	@echo 'deps             install the Debian packages that building and testing need'
	@echo 'install          to $$DESTDIR$$PREFIX (/usr/local)'
	@echo 'uninstall clean format lint'
	@echo 'V=1 shows commands; O=DIR builds elsewhere; CC=clang'

-include $(shell find $(O) -path $(O)/rocm -prune -o -type f -name '*.d' -print 2>/dev/null)
