"""`python -m tests.chaos [SCENARIO ...] [--seed N] [--resume FILE]`: scenarios and their table."""

import argparse
import shutil
import sys
import tempfile
import traceback
from pathlib import Path

from tests.chaos.outcome import HEADER, Outcome, Scenario, keep, load, timed
from tests.chaos.scenarios import SCENARIOS
from tests.chaos.session import Session, session


def main() -> int:
    """Run what is asked for; 1 if anything was lost or doubled, or broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=", ".join(SCENARIOS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", type=Path, help="results; what is done there is not repeated")
    parser.add_argument("--keep", action="store_true", help="leave the folder for a look")
    options = parser.parse_args()
    unknown = set(options.scenarios) - set(SCENARIOS)
    if unknown:
        parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
    # Ray's socket paths must be short, and so must this.
    folder = Path(tempfile.mkdtemp(prefix="chaos-"))
    file = options.resume or folder / "results.jsonl"
    names = options.scenarios or list(SCENARIOS)
    done = {each.scenario: each for each in load(file) if each.seed == options.seed}
    left = [name for name in names if name not in done]
    if left:
        with session(folder) as shared:
            for name in left:
                done[name] = attempt(SCENARIOS[name], name, shared, options.seed)
                keep(file, done[name])
    outcomes = [done[name] for name in names]
    print("\n".join([HEADER, *(each.line() for each in outcomes)]))
    if all(each.is_good for each in outcomes) and not options.keep:
        shutil.rmtree(folder)
    else:
        print(f"left in {folder}")
    return 0 if all(each.is_good for each in outcomes) else 1


def attempt(scenario: Scenario, name: str, shared: Session, seed: int) -> Outcome:
    """Run one scenario; that it breaks is a result too."""
    print(f"{name} ...", flush=True)
    try:
        outcome = timed(lambda: scenario(shared, seed))
    except Exception as error:
        traceback.print_exc()
        outcome = Outcome(name, seed, 0, 0, 0, 0, problems=(f"{type(error).__name__}: {error}",))
    print(outcome.line(), flush=True)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
