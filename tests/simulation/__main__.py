"""`python -m tests.simulation [--trees N] [--small N] [--large N] [--start S]`.

Runs schedules on as many processes as you like, counts what was done to them, and prints what
went wrong, with the call that does it again. With `--log FILE` it goes on where it was.
"""

import argparse
import json
import sys
import time
from collections import Counter
from itertools import islice
from pathlib import Path

from tests.simulation.running import Done, run_all


def main() -> int:
    """Run what is asked for; exit 1 where some of it shows a violation."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--trees", type=int, default=0, help="trees of crashes")
    parser.add_argument("--small", type=int, default=0, help="runs that race, in small worlds")
    parser.add_argument("--large", type=int, default=0, help="the same in large ones")
    parser.add_argument("--start", type=int, default=0, help="the first seed of each")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60, help="stop after so many")
    parser.add_argument("--log", type=Path, help="a file of what was run, to go on from")
    options = parser.parse_args()
    told = [json.loads(line) for line in lines_of(options.log)]
    asked = {kind: getattr(options, kind) for kind in ("trees", "small", "large")}
    if not any(asked.values()):
        asked = {"trees": 120, "small": 1_000, "large": 200}
    tasks = [(kind, options.start + n) for n in range(max(asked.values())) for kind in asked]
    tasks = [(kind, seed) for kind, seed in tasks if seed - options.start < asked[kind]]
    started, wrong = time.monotonic(), 0
    for each in run_all(list(islice(tasks, len(told), None)), options.processes, options.minutes):
        told.append(each)
        if options.log:
            with options.log.open("a") as file:
                file.write(json.dumps(each) + "\n")
        kind, seed, problem = each[:3]
        if problem:
            wrong += 1
            again = f"python -m tests.simulation --{kind} 1 --start {seed}"
            print(f"{again}: {problem}", flush=True)
    print_sums(told, time.monotonic() - started)
    return 1 if wrong else 0


def lines_of(log: Path | None) -> list[str]:
    return log.read_text().splitlines() if log and log.exists() else []


def print_sums(told: list[Done], seconds: float) -> None:
    """How many schedules, and how often each thing was done to them."""
    tally: Counter[str] = Counter()
    schedules: Counter[str] = Counter()
    runs = wrong = 0
    for kind, _, problem, many, made, done in told:
        schedules[kind] += many
        runs += made
        wrong += problem is not None
        tally.update(done)
    for name, times in sorted(tally.items()):
        print(f"{times:12,} {name}")
    kinds = ", ".join(f"{many:,} {kind}" for kind, many in schedules.items())
    total = sum(schedules.values())
    print(f"{total:12,} schedules ({kinds}) in {runs:,} runs and {seconds:.0f} s")
    print(f"{wrong:12,} violations")


if __name__ == "__main__":
    sys.exit(main())
