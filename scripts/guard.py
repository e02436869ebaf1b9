"""Holds what Go tests did against the list of those that may not skip.

    guard.py LOG LIST [LACK...]

LOG is what gotestsum --jsonfile writes, LIST is scripts/guarded, which says how it is
read, and each LACK is a fact that this machine has not. Exit code 1, with a line for
each, where a guarded test skipped, did not run, or did not pass at once though it
has to; and where any test left something behind in one of its runs.
"""

import collections
import json
import re
import sys

MODULE = "github.com/tarelab/tare/"
LEFT = "left behind: "  # of the contract suite's leak check, internal/driver/drivertest


def read(log):
    """What came of each test, by package and name: the actions, in their order, and
    whether a run that failed said that something was left behind."""
    actions, left, said = collections.defaultdict(list), set(), collections.Counter()
    for line in log:
        event = json.loads(line)
        if "Test" not in event:
            continue
        test = event["Package"].removeprefix(MODULE), event["Test"]
        action = event["Action"]
        if action == "output":
            said[test] += LEFT in event["Output"]
        elif action in ("pass", "fail", "skip"):
            actions[test].append(action)
            if action == "fail" and said[test]:
                left.add(test)
            said[test] = 0
    return actions, left


def rules(lines):
    """The list's lines: package, test, marks."""
    for line in lines:
        words = line.split("#")[0].split()
        if words:
            yield re.compile(words[0]), re.compile(words[1]), words[2:]


def problems(actions, left, guarded, lacks):
    for test in sorted(left):
        yield "%s %s left something behind in one of its runs" % test
    for package, name, marks in guarded:
        if any("needs=" + fact in marks for fact in lacks):
            continue
        met = {t: done for t, done in actions.items() if package.fullmatch(t[0]) and name.fullmatch(t[1])}
        if not any("pass" in done for done in met.values()):
            yield "%s %s: no such test has passed" % (package.pattern, name.pattern)
        for test, done in sorted(met.items()):
            if "skip" in done:
                yield "%s %s may not skip" % test
            if "once" in marks and "fail" in done:
                yield "%s %s failed once, which it may not" % test


def main():
    with open(sys.argv[1]) as log, open(sys.argv[2]) as guarded:
        found = list(problems(*read(log), rules(guarded), sys.argv[3:]))
    for problem in found:
        print("guard: " + problem, file=sys.stderr)
    sys.exit(bool(found))


main()
