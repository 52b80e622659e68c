"""`python -m simulation`: runs seeds, prints what occurred, and replays one with its trace."""

from __future__ import annotations

import argparse
import sys
import time

from simulation import coverage, pool
from simulation import seed as seeds


def main() -> int:
    parser = argparse.ArgumentParser(prog="simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="the seed, or the first of several")
    parser.add_argument("--count", type=int, default=1, help="how many seeds")
    parser.add_argument("--trace", action="store_true", help="print the trace")
    given = parser.parse_args()
    if given.count > 1 and not given.trace:
        return many(given.seed, given.count)
    outcome = seeds.run(given.seed, keep=given.trace)
    if given.trace:
        print("\n".join(outcome.lines))
    verdict = "FAILED" if outcome.violations else "ok"
    print(f"seed {given.seed}: {verdict}, {outcome.tasks} tasks, trace {outcome.digest}")
    for violation in outcome.violations:
        print(f"  {violation}")
    return 1 if outcome.violations else 0


def many(first: int, count: int) -> int:
    """Runs seeds over processes and prints what occurred."""
    began = time.perf_counter()
    total = pool.run_all(first, count, lambda so_far: print(f"{so_far.seeds} seeds ...", file=sys.stderr))
    print(coverage.report(total))
    print(f"{time.perf_counter() - began:.1f} s")
    print(total.complaint() or "all kept their promises")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
