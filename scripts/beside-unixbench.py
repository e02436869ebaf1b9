#!/usr/bin/env python3
"""Runs our Unix tests and UnixBench's in turn and prints the ratios of their rates.

    sudo scripts/beside-unixbench.py ROOT MINUTES [TEST...]

ROOT is a directory tree that holds /unix (helpers/bin/linux_*/unix), /ub (the
programs of UnixBench 5.1.3, multi.sh and tst.sh), /work (sort.src) and /bin with
busybox; docs/unix-index.md says how to make it. Without TEST it takes all. Each pair
is one window of each: 1 s; 2 s for file-copy, where UnixBench writes, reads and
sleeps for 15 s before; 5 s for the shells and execl, which end between two seconds;
10 s for whetstone, whose rate depends on the window. Which goes first is random. All
but the shells run on the last CPU alone, so that no other CPU is woken.

A row: pairs, median ratio with its exact 95 % interval, by wall time and by CPU time
(user and system, of all processes of the test), what the interval by CPU time says of
"within 5 %", and both rates. Where a host gives the machine less of its CPUs at times,
CPU time is the fairer clock.
"""
import ctypes, json, math, os, random, select, statistics, subprocess, sys, time

ENV = {"PATH": "/bin", "UB_BINDIR": "/ub", "LANG": "C"}
PR_SET_CHILD_SUBREAPER = 36  # what UnixBench's programs leave behind comes to us, with its CPU time


def run(argv, pin):
    """Output, wall and CPU seconds of a program inside ROOT until all that it has
    started has ended, and its CPU seconds before the last so many: a function."""
    def enter():
        os.chroot(root)
        os.chdir("/work")
        if pin:
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    begin = time.monotonic()
    p = subprocess.Popen(argv, env=ENV, preexec_fn=enter, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    out, seen = b"", [(begin, 0.0)]
    while True:
        if select.select([p.stdout], [], [], 0.1)[0]:
            chunk = os.read(p.stdout.fileno(), 65536)
            if not chunk:
                break
            out += chunk
        with open(f"/proc/{p.pid}/schedstat") as f:  # nanoseconds on a CPU come first
            seen.append((time.monotonic(), int(f.read().split()[0]) / 1e9))
    end, cpu, status = time.monotonic(), 0.0, None
    while True:
        try:
            pid, ended, used = os.wait4(-1, 0)
        except ChildProcessError:
            break
        cpu += used.ru_utime + used.ru_stime
        if pid == p.pid:
            status = p.returncode = ended
    text = out.decode()
    if status != 0:
        sys.exit(f"{' '.join(argv)}: wait status {status:#x}: {text}")
    return text, end - begin, cpu, lambda last: max(c for t, c in seen if t <= end - last)


def ours(args, window, pin):
    """Rates by wall and by CPU time."""
    r = json.loads(run(["/unix", *args, "--seconds", str(window), "--dir", "/work"], pin)[0])
    return r["value"], r.get("cpu_value") or r["value"] * r["seconds"] / r["cpu_seconds"]


def theirs(args, window, pin, per=1, elapsed=False, rounds=False):
    """The same of a program that reports COUNT|n|...; elapsed: it stops on no exact
    second; rounds: its last round ends after it, and is in no count."""
    out, wall, cpu, before = run([str(window) if a == "SECONDS" else a for a in args], pin)
    count = float([line for line in out.splitlines() if "COUNT|" in line][-1].split("|")[1])
    if args[0] == "/ub/whets":  # a rate by CPU time
        return math.nan, count
    if args[0] == "/ub/fstime":  # a rate; it slept for 1 s before the copying
        length = float(out.split("Copy done:")[1].split()[2].rstrip(","))
        return count, count * length / (cpu - before(length + 0.2))
    count += rounds
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
    "shell-1": (["shell-1"], ["/ub/looper", "SECONDS", "/ub/multi.sh", "1"], {"per": 60, "elapsed": True, "rounds": True}),
    "shell-8": (["shell-8"], ["/ub/looper", "SECONDS", "/ub/multi.sh", "8"], {"per": 60, "elapsed": True, "rounds": True}),
}


def pair(test):
    mine, other, how = TESTS[test]
    pin = not test.startswith("shell")
    window = 10 if test == "whetstone" else 5 if not pin or test == "execl" else 2 if test.startswith("file-copy") else 1
    if random.random() < 0.5:
        a = ours(mine, window, pin)
        return a, theirs(other, window, pin, **how)
    b = theirs(other, window, pin, **how)
    return ours(mine, window, pin), b


def interval(ratios):
    """The exact 95 % interval of the median, by order statistics; None with too few pairs."""
    r, k, tail = sorted(ratios), 0, 0.0
    while (tail := tail + math.comb(len(r), k) / 2 ** len(r)) <= 0.025:
        k += 1
    return (r[k - 1], r[-k]) if k else None


def median(ratios):
    """The median and its interval as text; "-" where no ratio is known."""
    if math.isnan(ratios[0]):
        return "-"
    span = interval(ratios)
    return f"{statistics.median(ratios):.3f} " + (f"[{span[0]:.3f}, {span[1]:.3f}]" if span else "(too few pairs)")


def within(ratios):
    span = interval(ratios)
    if not span or (span[0] < 1 / 1.05 or span[1] > 1.05) and not (span[1] < 1 / 1.05 or span[0] > 1.05):
        return "open"
    return "within 5 %" if span[0] >= 1 / 1.05 and span[1] <= 1.05 else "more than 5 % apart"


if len(sys.argv) < 3 or not set(sys.argv[3:]) <= set(TESTS):
    sys.exit(f"{__doc__}\nTests: {', '.join(TESTS)}")
if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
    sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
root, pairs = sys.argv[1], {test: [] for test in sys.argv[3:] or TESTS}
end = time.monotonic() + 60 * float(sys.argv[2])
while time.monotonic() < end:
    for test in pairs:
        pairs[test].append(pair(test))
for test, seen in pairs.items():
    rates = [statistics.median(p[side][0] for p in seen) for side in (0, 1)]
    wall, cpu = ([a[clock] / b[clock] for a, b in seen] for clock in (0, 1))
    print(f"{test:20} {len(seen):3} wall {median(wall)}  CPU {median(cpu)}  {within(cpu)}  rates {rates[0]:.0f} {rates[1]:.0f}")
