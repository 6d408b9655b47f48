#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What counting costs everybody: the same operations without pincap, with it, and
with the GPU driver's ioctls read as well, in turn, every other time the other way
round, in one run. Prints the median of the ratios of neighbouring runs, their
quartiles, and a verdict against the bound; "inconclusive" where the bound lies between
the quartiles. Then the sweep over 3,000 processes with a locked page each, and eBPF's
own time per event.

usage: accounting.py DIRECTORY [ROUNDS]     environment: PINCAP, BPFTOOL
       accounting.py DIRECTORY --guest KERNEL     in a virtual machine, where fexit loads:
              ratios of emulated time, if there is no KVM
DIRECTORY: of bench_accounting and bench_sweep
"""
import atexit, json, os, statistics, subprocess, sys, tempfile

pincap = os.environ.get("PINCAP", "build/pincap")
bpftool = os.environ.get("BPFTOOL") or "bpftool"
programs_dir = sys.argv[1]
guest = sys.argv[3] if sys.argv[2:3] == ["--guest"] else None
rounds = int(sys.argv[2]) if len(sys.argv) == 3 else 12
bounds = {"mlock+munlock of 4 KiB": 1.25, "mmap+munmap of 64 KiB": 1.03,
          "page fault": 1.03, "bare system call": 1.03}
PROCESSES = 3000
stand_in = tempfile.NamedTemporaryFile(delete=False)  # for /dev/kfd
stand_in.close()  # or pincap warns of us
atexit.register(os.unlink, stand_in.name)


def run(*args):
    return subprocess.run(args, check=True, stdout=subprocess.PIPE, text=True).stdout


def measure():
    lines = run(programs_dir + "/bench_accounting").splitlines()
    return {n: float(v) for n, v in (l.split("\t") for l in lines)}


def print_ratio(name, ratios, bound):
    low, mid, high = statistics.quantiles(ratios, n=4)
    verdict = "no bound" if bound is None else (
        "holds" if high <= bound else "broken" if low > bound else "inconclusive")
    print(f"  {name:<26} {mid:5.2f} times  (quartiles {low:.2f} to {high:.2f}; "
          + (f"bound {bound}: " if bound else "") + verdict + ")")


def print_ratios(title, with_it, without, bounded):
    print(title + ":")
    for name, bound in bounds.items():
        ratios = [a[name] / b[name] for a, b in zip(with_it, without)]
        print_ratio(name, ratios, bound if bounded else None)


def compare():
    off, on, gpu = [], [], []

    def with_pincap():
        global said
        run(pincap, "load")
        on.append(measure())
        run(pincap, "load", "--kfd", stand_in.name)
        gpu.append(measure())
        said = json.loads(run(pincap, "stat", "--json", "/"))
        run(pincap, "unload")

    for i in range(rounds):
        steps = [lambda: off.append(measure()), with_pincap]
        for step in steps if i % 2 == 0 else reversed(steps):
            step()
        print(f"\rround {i + 1} of {rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(f"trigger: {said['trigger']}; for the GPU driver: {said['gpu_trigger']}")
    print_ratios("counting on, against off", on, off, True)
    print_ratios("with the GPU driver's ioctls read", gpu, off, False)


def compare_in_guest():
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    said = subprocess.run([tests + "/vm/vm.sh", "-t", "600", guest, "tests/bench/guest.sh",
                           "tests/bench/guest.sh", programs_dir + "/bench_accounting"],
                          stdout=subprocess.PIPE, text=True)
    if said.returncode:
        sys.exit(said.returncode)
    runs = {"off": [], "on": []}
    trigger = "?"
    for who, name, value in (l.split("\t") for l in said.stdout.splitlines() if "\t" in l):
        if who == "trigger":
            trigger = name
            continue
        if not runs[who] or name in runs[who][-1]:
            runs[who].append({})
        runs[who][-1][name] = float(value)
    emulated = "" if os.access("/dev/kvm", os.W_OK) else " (emulated time)"
    print(f"Linux {guest}{emulated}, trigger: {trigger}")
    print_ratios("counting on, against off", runs["on"], runs["off"], False)


def programs():
    listed = json.loads(run(bpftool, "-j", "prog", "show"))
    return {p["name"]: p for p in listed if p.get("run_cnt")}


def print_events():
    print("eBPF per event:")
    for name, p in sorted(programs().items()):
        print(f"  {name:<20} {p['run_time_ns'] / p['run_cnt']:8.0f} ns  ({p['run_cnt']} events)")


def print_sweep():
    stats = "/proc/sys/kernel/bpf_stats_enabled"
    before = open(stats).read()
    run(pincap, "load", "--kfd", stand_in.name)
    try:
        sweeps = run(programs_dir + "/bench_sweep", str(PROCESSES)).split()
        times = sorted(map(float, sweeps))
        print(f"a sweep over {PROCESSES} processes with a locked page each: "
              f"{statistics.median(times):.1f} ms (median of {len(times)}, longest "
              f"{times[-1]:.1f}; bound 50: {'holds' if times[-1] <= 50 else 'broken'})")
        open(stats, "w").write("1")
        run(programs_dir + "/bench_sweep", str(PROCESSES))
        measure()
        print_events()
    finally:
        open(stats, "w").write(before)
        run(pincap, "unload")


if guest:
    compare_in_guest()
    sys.exit()
if os.path.exists("/sys/fs/bpf/pincap"):
    sys.exit("accounting.py: pincap is loaded; 'pincap unload' it first")
compare()
print_sweep()
