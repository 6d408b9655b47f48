# SPDX-License-Identifier: MIT
# Test programs, the emulated GPU driver, and what runs them.

T := $(O)/tests

# ---- the emulated GPU driver and the loader (real HIP runtime) ----

KFD_CFLAGS := -Itests/kfd/include
driver_CFLAGS := $(KFD_CFLAGS)
KFD_DRIVER_SRCS := $(wildcard tests/kfd/driver*.c)
KFD_SHIM_SRCS := $(wildcard tests/kfd/shim*.c)
$(T)/kfd-driver: $(KFD_DRIVER_SRCS:%.c=$(O)/%.o)
$(KFD_DRIVER_SRCS:%.c=$(O)/%.o): override CFLAGS += $(KFD_CFLAGS)
$(KFD_SHIM_SRCS:%.c=$(O)/%.pic.o): override CFLAGS += $(KFD_CFLAGS)
$(T)/libkfd-shim.so: $(KFD_SHIM_SRCS:%.c=$(O)/%.pic.o)
	$(call msg,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -pthread -Wl,-z,defs -o $@ $^

$(T)/mkmodel: $(O)/tests/e2e/mkmodel.o
$(T)/loader: $(addprefix $(O)/tests/e2e/,loader.o safetensors.o work.o)
$(T)/locker: $(addprefix $(O)/tests/e2e/,locker.o work.o)
$(O)/tests/e2e/loader.o: override CFLAGS += $(HIP_CFLAGS)
$(T)/loader: LIBS = -lamdhip64 -ljansson

# ---- unit tests: cmocka, no kernel side ----

UNIT_TESTS := size decide hostmem cgroup notify scopes preload_text smaps attribution shmlock control_auth
UNIT_OBJS := $(patsubst %.c,$(O)/%.o,$(COMMON_SRCS) userspace/control/decide.c \
	userspace/control/peer.c userspace/control/scope.c \
	userspace/control/control_auth.c) \
	$(patsubst %.c,$(O)/%.o,$(wildcard userspace/control/notify*.c)) \
	$(patsubst %,$(O)/userspace/cli/%.o,smaps spans footprint attribution) $(O)/tests/unit/listener.o
$(foreach t,$(UNIT_TESTS),$(eval $(T)/test_$(t): $(O)/tests/unit/test_$(t).o $(UNIT_OBJS)))
$(T)/test_preload_text: $(O)/userspace/cli/preload_text.o
$(UNIT_TESTS:%=$(T)/test_%): LIBS = -lcmocka $(shell $(PKG_CONFIG) --libs libcgroup libsystemd)

# The daemon's configuration, with its sanitizers: it reads what people write.
CONFIG_TESTS := config config_wrong rules glob cgrules
CONFIG_TEST_SRCS := $(COMMON_SRCS) $(CONFIG_SRCS) userspace/daemon/check.c tests/unit/config_case.c
CONFIG_OBJS := $(CONFIG_TEST_SRCS:%.c=$(O)/san/%.o)
SAN_CFLAGS := -fsanitize=address,undefined -fno-sanitize-recover=all
$(O)/san/%.o: %.c
	$(call msg,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(filter-out -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2,$(CFLAGS)) $(SAN_CFLAGS) -MMD -MP -c $< -o $@
$(foreach t,$(CONFIG_TESTS),$(eval $(T)/test_$(t): $(O)/san/tests/unit/test_$(t).o $(CONFIG_OBJS)))
$(CONFIG_TESTS:%=$(T)/test_%): LIBS = $(SAN_CFLAGS) -lcmocka $(CONFIG_LIBS)

# ---- fuzzing: make fuzz FUZZ_SECONDS=600 ----

FUZZ_TESTS := config glob
FUZZ_SECONDS ?= 60
FUZZ_CFLAGS := -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all
$(O)/fuzz/%.o: %.c
	$(call msg,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(filter-out -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2,$(CFLAGS)) \
		$(FUZZ_CFLAGS) -MMD -MP -c $< -o $@
$(foreach t,$(FUZZ_TESTS),$(eval $(T)/fuzz_$(t): $(O)/fuzz/tests/fuzz/fuzz_$(t).o \
	$(patsubst %.c,$(O)/fuzz/%.o,$(COMMON_SRCS) $(CONFIG_SRCS))))
$(FUZZ_TESTS:%=$(T)/fuzz_%):
	$(call msg,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CLANG) $(FUZZ_CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(CONFIG_LIBS)

.PHONY: fuzz
fuzz: $(FUZZ_TESTS:%=$(T)/fuzz_%)
	@for t in $(FUZZ_TESTS); do \
		mkdir -p $(T)/corpus-$$t && cp -n tests/fuzz/$$t-*.seed $(T)/corpus-$$t/ && \
		$(T)/fuzz_$$t -max_total_time=$(FUZZ_SECONDS) -timeout=5 -rss_limit_mb=1024 \
			-verbosity=0 -print_final_stats=1 -artifact_prefix=$(T)/fuzz-$$t- \
			$(if $(wildcard tests/fuzz/*.dict),-dict=tests/fuzz/$$t.dict) \
			$(T)/corpus-$$t || exit 1; \
	done

# ---- the library: a fake HIP runtime and a fake kernel, no root ----

LIB_TESTS := hooks local lock notify release guest default
L := $(T)/lib
$(O)/tests/lib/%.o: override CFLAGS += -fPIC
$(L)/libamdhip64.so.5: $(O)/tests/lib/fakehip.o tests/lib/fakehip.map
	$(call msg,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libamdhip64.so.5 \
		-Wl,--version-script=tests/lib/fakehip.map -o $@ $<
$(L)/plugin.so: $(O)/tests/lib/plugin.o $(L)/libamdhip64.so.5
	$(call msg,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-rpath,'$$ORIGIN' -o $@ $^
$(foreach t,$(LIB_TESTS),$(eval $(L)/test_$(t): $(addprefix $(O)/tests/lib/,test_$(t).o fakekernel.o controller.o) $(O)/libpincap.so))
$(L)/test_hooks $(L)/test_guest: LIBS += $(L)/libamdhip64.so.5
$(L)/test_hooks $(L)/test_guest: $(L)/libamdhip64.so.5
$(LIB_TESTS:%=$(L)/test_%): $(O)/libpincap-preload.so
$(LIB_TESTS:%=$(L)/test_%): LIBS += $(O)/libpincap.so -rdynamic -pthread -lcmocka \
	-Wl,-rpath,'$$ORIGIN:$$ORIGIN/../..'

# ---- the kernel side: root ----

KERNEL_TESTS := $(patsubst tests/kernel/test_%.c,%,$(wildcard tests/kernel/test_*.c))
KERNEL_OBJS := $(patsubst %.c,$(O)/%.o,$(filter-out tests/kernel/actor.c tests/kernel/test_%.c,$(wildcard tests/kernel/*.c)))
$(foreach t,$(KERNEL_TESTS),$(eval $(T)/kernel/test_$(t): $(O)/tests/kernel/test_$(t).o $(KERNEL_OBJS)))
$(KERNEL_TESTS:%=$(T)/kernel/test_%): LIBS = -pthread -lcmocka -luring $(shell $(PKG_CONFIG) --libs jansson libbpf)
# It is the controller itself.
$(T)/kernel/test_gate: $(patsubst %.c,$(O)/%.o,$(COMMON_SRCS) $(CONTROL_SRCS))
$(T)/kernel/test_gate: LIBS += $(shell $(PKG_CONFIG) --libs libcgroup libsystemd)
$(T)/kernel/actor: $(O)/tests/kernel/actor.o
$(T)/kernel/actor: LIBS = -luring

# ---- the daemon: root ----

DAEMON_TESTS := $(patsubst tests/daemon/test_%.c,%,$(wildcard tests/daemon/test_*.c))
DAEMON_TEST_OBJS := $(KERNEL_OBJS) $(patsubst %.c,$(O)/%.o,$(filter-out tests/daemon/test_%.c,$(wildcard tests/daemon/*.c)))
$(foreach t,$(DAEMON_TESTS),$(eval $(T)/daemon/test_$(t): $(O)/tests/daemon/test_$(t).o $(DAEMON_TEST_OBJS) $(COMMON_SRCS:%.c=$(O)/%.o) $(O)/libpincap.a))
$(DAEMON_TESTS:%=$(T)/daemon/test_%): LIBS = $(O)/libpincap.a -pthread -lcmocka -luring $(shell $(PKG_CONFIG) --libs jansson libbpf libcgroup)

$(T)/render_client: $(O)/tests/kfd/render_client.o
$(O)/tests/kfd/render_client.o: override CFLAGS += $(KFD_CFLAGS)
$(T)/pins: $(O)/tests/rocm/pins.o
$(O)/tests/rocm/pins.o: override CFLAGS += $(HIP_CFLAGS)
$(T)/gpu_life: $(O)/tests/e2e/gpu_life.o
$(O)/tests/e2e/gpu_life.o: override CFLAGS += $(HIP_CFLAGS)
$(T)/gpu_life: LIBS = -pthread -lamdhip64

# Called by everybody in every way: as it is, static, and set-user-ID.
$(T)/lock: $(O)/tests/e2e/lock.o
$(T)/lock-static: $(O)/tests/e2e/lock.o
$(T)/lock-static: LIBS = -static

$(T)/bench_accounting: $(O)/tests/bench/bench_accounting.o
$(T)/bench_sweep: $(O)/tests/bench/bench_sweep.o $(patsubst %.c,$(O)/%.o,$(COMMON_SRCS) $(CONTROL_SRCS))
$(T)/bench_sweep: LIBS = $(shell $(PKG_CONFIG) --libs libbpf libcgroup libsystemd)
$(T)/bench_admission: $(O)/tests/bench/bench_admission.o

TEST_PROGRAMS := $(T)/kfd-driver $(T)/mkmodel $(T)/loader $(T)/locker $(T)/gpu_life $(T)/lock $(T)/lock-static $(T)/render_client $(T)/pins $(T)/bench_admission $(T)/bench_accounting $(T)/bench_sweep \
	$(T)/kernel/actor \
	$(UNIT_TESTS:%=$(T)/test_%) $(CONFIG_TESTS:%=$(T)/test_%) $(LIB_TESTS:%=$(L)/test_%) $(KERNEL_TESTS:%=$(T)/kernel/test_%) \
	$(DAEMON_TESTS:%=$(T)/daemon/test_%)

$(TEST_PROGRAMS):
	$(call msg,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(filter %.o,$^) $(LIBS)

# A pincap of the layout before, for test_upgrade.
$(O)/old/pincap: $(O)/pincap FORCE
	@$(MAKE) -s O=$(O)/old MUTANT=OLD_ABI CFLAGS='-O1 -DMUTANT_OLD_ABI' $@

.PHONY: tests check-run check-vm-run demo-run demo-pressure-run bench-admission-run bench-accounting-run
tests: all $(O)/old/pincap $(TEST_PROGRAMS) $(T)/libkfd-shim.so $(L)/plugin.so

export PINCAP = $(abspath $(O))/pincap
export PINCAP_OLD = $(abspath $(O))/old/pincap
export PINCAPD = $(abspath $(O))/pincapd
export BPFTOOL
TABS := $(abspath $(T))
# One old and one new kernel with every check; all of them, and all tests, by check-vm.
VM_NEW := 6.12
VM_QUICK := load doctor kernel-admission kernel-ranges kernel-oracle daemon-budgets daemon-kill unload
VM_KERNELS := $(shell sed -n 's/^\([^\#[:space:]]\{1,\}\).*/\1/p' tests/vm/kernels)
E2E_TESTS := $(patsubst tests/e2e/%.bats,%,$(wildcard tests/e2e/*.bats))
CHECKS = $(foreach t,$(UNIT_TESTS) $(CONFIG_TESTS),unit-$(t)=$(T)/test_$(t)) \
	$(foreach t,$(LIB_TESTS),'lib-$(t)=LD_PRELOAD=$(abspath $(O))/libpincap-preload.so $(L)/test_$(t) $(L)/plugin.so') \
	'transparent=tests/lib/test_transparent.sh $(O) .' \
	$(foreach t,$(KERNEL_TESTS),'kernel-$(t)=$(T)/kernel/test_$(t)') \
	$(foreach t,$(DAEMON_TESTS),'daemon-$(t)=ACTOR=$(T)/kernel/actor $(T)/daemon/test_$(t)') \
	$(foreach t,$(E2E_TESTS),'e2e-$(t)=T=$(TABS) bats --formatter tap tests/e2e/$(t).bats') \
	'mutants=tests/mutants.sh $(O)' \
	'static=tests/static.sh $(O)' \
	$(foreach k,6.1 $(VM_NEW),'vm-$(k)=O=$(O) LIMIT=400 tests/vm/check.sh $(k) $(VM_QUICK)')
VM_CHECKS = $(foreach k,$(or $(KERNEL),$(VM_KERNELS)),'vm-$(k)=O=$(O) tests/vm/check.sh $(k) $(ONLY)')

# make check ONLY='unit-size e2e-run' runs some of them.
check-run: tests
	@tests/run.sh $(T)/log $(if $(ONLY),$(foreach c,$(ONLY),"$$(printf '%s\n' $(CHECKS) | grep '^$(c)=')"),$(CHECKS))

# make check-vm KERNEL='6.1 6.12' ONLY='load kernel-count' runs some of them.
check-vm-run: tests
	@TEST_TIMEOUT=1800 tests/run.sh $(T)/log $(VM_CHECKS); rc=$$?; \
	tests/vm/table.sh $(T)/log $(or $(KERNEL),$(VM_KERNELS)); exit $$rc

demo-run: tests
	@T=$(TABS) tests/demo.sh

demo-pressure-run: tests
	@T=$(TABS) tests/pressure/demo.sh

bench-admission-run: all $(T)/bench_admission
	@tests/bench/admission.sh $(T)/bench_admission

bench-accounting-run: all $(T)/bench_accounting $(T)/bench_sweep $(if $(KERNEL),tests)
	@tests/bench/accounting.py $(T) $(if $(KERNEL),--guest $(KERNEL))
