"""`python -m tests.fuzz --seconds 600 --seed 1`; `--only 17` plays a case again."""

import argparse
import faulthandler
import json
import multiprocessing
import random
import sys
import time
import traceback
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from tests.fuzz.readers import read_one
from tests.fuzz.specs import load_one

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import Synchronized

CASES = {"readers": read_one, "specs": load_one}
CASES_A_PROCESS = 500


def case(what: str, seed: int, number: int, folder: Path) -> str | None:
    """One case; what is wrong, if anything."""
    try:
        return CASES[what](random.Random(f"{what} {seed} {number}"), folder)
    except Exception:
        return traceback.format_exc(limit=-6)


def cases(what: str, seed: int, first: int, at: "Synchronized[int]") -> None:
    """Some cases in a process of their own, since they may kill it."""
    faulthandler.enable()
    with TemporaryDirectory() as folder:
        for number in range(first, first + CASES_A_PROCESS):
            at.value = number
            if said := case(what, seed, number, Path(folder)):
                print(f"{what} --seed {seed} --only {number}: {said}", flush=True)


def fuzz(seconds: float, seed: int) -> dict[str, int]:
    """Cases of each kind in turn, for so long; how many there were, and deaths."""
    fork = multiprocessing.get_context("fork")
    done: Counter[str] = Counter(deaths=0)
    begun = time.monotonic()
    for first in range(0, sys.maxsize, CASES_A_PROCESS):
        for what in CASES:
            at = fork.Value("l", first)
            process = fork.Process(target=cases, args=(what, seed, first, at))
            process.start()
            process.join()
            done[what] += CASES_A_PROCESS
            if process.exitcode:
                done["deaths"] += 1
                print(f"{what} --seed {seed} --only {at.value}: died of {process.exitcode}")
        if time.monotonic() - begun > seconds:
            return dict(done)
    return dict(done)


def main() -> None:
    """Fuzz, and say how much."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="number of the one case to play again")
    given = parser.parse_args()
    if given.only is None:
        print(json.dumps(fuzz(given.seconds, given.seed)))
        return
    with TemporaryDirectory() as folder:
        for what in CASES:
            print(what, case(what, given.seed, given.only, Path(folder)) or "is fine")


if __name__ == "__main__":
    main()
