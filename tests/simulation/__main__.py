"""`python -m tests.simulation [--seeds N] [--start S]`: run schedules, print what went wrong."""

import argparse
import sys
import time

from tests.simulation.schedule import run_schedule


def main() -> int:
    """Run the seeds asked for; exit 1 where one of them shows a violation."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2_000, help="how many schedules to run")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--minutes", type=float, default=60, help="stop after so many minutes")
    options = parser.parse_args()
    started = time.monotonic()
    ran = wrong = 0
    for seed in range(options.start, options.start + options.seeds):
        if time.monotonic() - started > options.minutes * 60:
            break
        ran += 1
        if problem := run_schedule(seed):
            wrong += 1
            print(f"seed {seed}: {problem}", flush=True)
    seconds = time.monotonic() - started
    print(f"{ran} schedules, {wrong} violations, {ran / seconds:.1f} schedules a second")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
