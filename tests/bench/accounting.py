#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What counting costs everybody: the same operations without pincap, with it, and
with the GPU driver's ioctls read as well, in turn, in one run. Prints the median
of the ratios of neighbouring runs, their quartiles, and a verdict against the
bound; "inconclusive" where the bound lies between the quartiles. Then the sweep
over 3,000 processes, and eBPF's own time per event.

usage: accounting.py BENCH_ACCOUNTING [ROUNDS]     environment: PINCAP, BPFTOOL
"""
import json, os, signal, statistics, subprocess, sys, time

pincap = os.environ.get("PINCAP", "build/pincap")
bpftool = os.environ.get("BPFTOOL") or "bpftool"
bench = sys.argv[1]
rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 12
bounds = {"mlock+munlock of 4 KiB": 1.25, "mmap+munmap of 64 KiB": 1.03,
          "page fault": 1.03, "bare system call": 1.03}
SLEEPERS = 3000


def run(*args):
    return subprocess.run(args, check=True, stdout=subprocess.PIPE, text=True).stdout


def measure():
    return {n: float(v) for n, v in (l.split("\t") for l in run(bench).splitlines())}


def print_ratio(name, ratios, bound):
    low, mid, high = statistics.quantiles(ratios, n=4)
    verdict = "no bound" if bound is None else (
        "holds" if high <= bound else "broken" if low > bound else "inconclusive")
    print(f"  {name:<26} {mid:5.2f} times  (quartiles {low:.2f} to {high:.2f}; "
          + (f"bound {bound}: " if bound else "") + verdict + ")")


def compare():
    off, on, gpu = [], [], []
    for i in range(rounds):
        off.append(measure())
        run(pincap, "load")
        on.append(measure())
        run(pincap, "load", "--kfd", "/dev/null")
        gpu.append(measure())
        said = json.loads(run(pincap, "stat", "--json", "/"))
        run(pincap, "unload")
        print(f"\rround {i + 1} of {rounds}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    print(f"trigger: {said['trigger']}; for the GPU driver: {said['gpu_trigger']}")
    for title, these, bounded in (("counting on, against off", on, True),
                                  ("with the GPU driver's ioctls read", gpu, False)):
        print(title + ":")
        for name, bound in bounds.items():
            ratios = [a[name] / b[name] for a, b in zip(these, off)]
            print_ratio(name, ratios, bound if bounded else None)


def programs():
    listed = json.loads(run(bpftool, "-j", "prog", "show"))
    return {p["name"]: p for p in listed if p.get("run_cnt")}


def print_sweep():
    pids = []
    stats = "/proc/sys/kernel/bpf_stats_enabled"
    before = open(stats).read()
    run(pincap, "load", "--kfd", "/dev/null")
    try:
        for _ in range(SLEEPERS):
            pid = os.fork()
            if not pid:
                signal.pause()
            pids.append(pid)
        open(stats, "w").write("1")
        times = []
        last = 0
        for _ in range(10):
            run(pincap, "stat", "/")
            now = programs()["sweep"]["run_time_ns"]
            times.append((now - last) / 1e6)
            last = now
        measure()
        print(f"a sweep over {SLEEPERS} processes: {statistics.median(times):.1f} ms "
              f"of eBPF (median of {len(times)}; bound 50)")
        print("eBPF per event:")
        for name, p in sorted(programs().items()):
            print(f"  {name:<20} {p['run_time_ns'] / p['run_cnt']:8.0f} ns  ({p['run_cnt']} events)")
    finally:
        open(stats, "w").write(before)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        run(pincap, "unload")


if os.path.exists("/sys/fs/bpf/pincap"):
    sys.exit("accounting.py: pincap is loaded; 'pincap unload' it first")
compare()
print_sweep()
