"""One run without Prefect and Ray: `python -m tests.chaos.publisher SPEC.yaml`.

It says how far it is, so that whoever kills it knows where.
"""

import sys
import time

from tasks.plan import PlannedRun, make_plan
from tasks.publish import publish_planned
from tasks.run import left_to_do, next_attempt
from tasks.spec_file import load_spec


def main() -> None:
    """Plan, predict, publish."""
    spec = load_spec(sys.argv[1])
    print("started", flush=True)
    planned = make_plan(spec)
    if planned.nothing_to_do:
        return
    predict(planned)
    print("ready", flush=True)
    publish_planned(planned)


def predict(planned: PlannedRun) -> None:
    """One attempt at what is left to do."""
    gap = left_to_do(planned, tried=False)
    if gap:
        attempt = next_attempt(planned, gap)
        attempt.ensure_started()
        while attempt.look().result is None:
            time.sleep(0.05)


if __name__ == "__main__":
    main()
