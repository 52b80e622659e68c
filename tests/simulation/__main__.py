"""`python -m simulation`: runs seeds, prints what occurred, and replays one with its trace."""

from __future__ import annotations

import argparse
import sys
import time

from simulation import seed as seeds


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the seed, or the first of several")
    parser.add_argument("--count", type=int, default=1, help="how many seeds")
    parser.add_argument("--trace", action="store_true", help="print the trace")
    given = parser.parse_args()
    failed = 0
    began = time.perf_counter()
    for number in range(given.seed, given.seed + given.count):
        outcome = seeds.run(number, keep=given.trace)
        if given.trace:
            print("\n".join(outcome.lines))
        verdict = "FAILED" if outcome.violations else "ok"
        print(f"seed {number}: {verdict}, {outcome.tasks} tasks, trace {outcome.digest}")
        for violation in outcome.violations[:20]:
            print(f"  {violation[:2000]}")
        failed += bool(outcome.violations)
    print(f"{given.count} seeds, {failed} failed, {time.perf_counter() - began:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
