#!/usr/bin/env python3
"""Runs our Unix tests and UnixBench's in turn and prints the ratios of their rates.

    sudo scripts/beside-unixbench.py ROOT MINUTES TEST...

ROOT is a directory tree that holds /unix (guest/bin/linux_*/unix), /ub (the
programs of UnixBench 5.1.3, multi.sh and tst.sh), /work (sort.src) and /bin with
busybox; docs/unix-index.md says how to make it. Each pair is one window of each, of
1 s; of 5 s for the shells, of which UnixBench does not count the round that the end
cuts off, and for execl, which ends between two seconds; of 10 s for whetstone, whose
rate depends on the window; which goes first is random. All but the shells run on the last CPU alone, so
that no other CPU is woken. A row: pairs, median ratio with its exact 95 % interval, by
wall time and by CPU time, and both rates.
"""
import json, math, os, random, statistics, subprocess, sys, time

ENV = {"PATH": "/bin", "UB_BINDIR": "/ub", "LANG": "C"}


def run(argv, pin):
    """Standard error and output, wall and CPU seconds of a program inside ROOT."""
    def enter():
        os.chroot(root)
        os.chdir("/work")
        if pin:
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    begin = time.monotonic()
    p = subprocess.Popen(argv, env=ENV, preexec_fn=enter, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    out = p.stdout.read()
    _, status, used = os.wait4(p.pid, 0)
    p.returncode = status
    if status != 0:
        sys.exit(f"{' '.join(argv)}: wait status {status:#x}: {out}")
    return out, time.monotonic() - begin, used.ru_utime + used.ru_stime


def ours(args, window, pin):
    """Rates by wall and by CPU time."""
    r = json.loads(run(["/unix", *args, "--seconds", str(window), "--dir", "/work"], pin)[0])
    return r["value"], r.get("cpu_value") or r["value"] * r["seconds"] / r["cpu_seconds"]


def theirs(args, window, pin, per=1, elapsed=False):
    """The same of a program that reports COUNT|n|...; elapsed: it stops on no exact second."""
    out, wall, cpu = run([str(window) if a == "SECONDS" else a for a in args], pin)
    count = float([line for line in out.splitlines() if "COUNT|" in line][-1].split("|")[1])
    if args[0] == "/ub/whets":  # a rate by CPU time
        return math.nan, count
    if args[0] == "/ub/fstime":  # a rate; most of its CPU time goes into what comes before
        return count, math.nan
    if args[0] == "/ub/context1":  # does not wait for its child, whose CPU time nobody gets
        return count / window, math.nan
    return count * per / (wall if elapsed else window), count * per / cpu


def copy(buffer, blocks):
    sizes = [str(buffer), str(blocks)]
    return (["file-copy", "--buffer", sizes[0], "--blocks", sizes[1]], ["/ub/fstime", "-c", "-t", "SECONDS", "-b", sizes[0], "-m", sizes[1]], {})


TESTS = {  # ours, UnixBench's, how to read it
    "dhrystone2": (["dhrystone2"], ["/ub/dhry2reg", "SECONDS"], {}),
    "whetstone": (["whetstone", "--variant", "as-compiled"], ["/ub/whets"], {}),
    "execl": (["execl"], ["/ub/execl", "SECONDS"], {"elapsed": True}),
    "file-copy-1024": copy(1024, 2000),
    "file-copy-256": copy(256, 500),
    "file-copy-4096": copy(4096, 8000),
    "pipe-throughput": (["pipe-throughput"], ["/ub/pipe", "SECONDS"], {}),
    "pipe-context-switch": (["pipe-context-switch"], ["/ub/context1", "SECONDS"], {}),
    "process-creation": (["process-creation"], ["/ub/spawn", "SECONDS"], {}),
    "syscall": (["syscall"], ["/ub/syscall", "SECONDS"], {}),
    "shell-1": (["shell-1"], ["/ub/looper", "SECONDS", "/ub/multi.sh", "1"], {"per": 60, "elapsed": True}),
    "shell-8": (["shell-8"], ["/ub/looper", "SECONDS", "/ub/multi.sh", "8"], {"per": 60, "elapsed": True}),
}


def pair(test):
    mine, other, how = TESTS[test]
    pin = not test.startswith("shell")
    window = 10 if test == "whetstone" else 5 if not pin or test == "execl" else 1
    if random.random() < 0.5:
        a = ours(mine, window, pin)
        return a, theirs(other, window, pin, **how)
    b = theirs(other, window, pin, **how)
    return ours(mine, window, pin), b


def median(ratios):
    """The median and its exact 95 % interval, by order statistics; "-" where none is known."""
    ratios = list(ratios)
    if math.isnan(ratios[0]):
        return "-"
    r, k, tail = sorted(ratios), 0, 0.0
    while (tail := tail + math.comb(len(r), k) / 2 ** len(r)) <= 0.025:
        k += 1
    interval = f"[{r[k - 1]:.3f}, {r[-k]:.3f}]" if k else "(too few pairs)"
    return f"{statistics.median(r):.3f} {interval}"


if len(sys.argv) < 4 or not set(sys.argv[3:]) <= set(TESTS):
    sys.exit(f"{__doc__}\nTests: {', '.join(TESTS)}")
root, pairs = sys.argv[1], {test: [] for test in sys.argv[3:]}
end = time.monotonic() + 60 * float(sys.argv[2])
while time.monotonic() < end:
    for test in pairs:
        pairs[test].append(pair(test))
for test, seen in pairs.items():
    rates = [statistics.median(p[side][0] for p in seen) for side in (0, 1)]
    ratios = [median(a[clock] / b[clock] for a, b in seen) for clock in (0, 1)]
    print(f"{test:20} {len(seen):3} wall {ratios[0]}  CPU {ratios[1]}  rates {rates[0]:.0f} {rates[1]:.0f}")
