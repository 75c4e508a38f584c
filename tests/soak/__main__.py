"""`python -m tests.soak [--runs N | --seeds A-B] [--on PLACE] [--resume FILE] [--minutes M]`.

Plays cases, each drawn by its seed, and prints what went wrong with the call that plays it again.
`--table` only prints what is in the file.
"""

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.soak.drawing import draw
from tests.soak.playing import play
from tests.soak.results import keep, load, table
from tests.soak.stand import stand


def main() -> int:
    """Play what is asked for; 1 where a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--runs", type=int, default=20, help="so many seeds, from the first free")
    parser.add_argument("--seeds", metavar="A-B", help="these instead")
    parser.add_argument("--on", choices=("inline", "cluster"), help="else the seed says where")
    parser.add_argument("--resume", type=Path, help="results; what is there is not repeated")
    parser.add_argument("--minutes", type=float, default=600, help="begin no case after so many")
    parser.add_argument("--table", action="store_true", help="print the results only")
    options = parser.parse_args()
    # What is started here is to end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    # Ray's socket paths must be short, and so must this.
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    file = options.resume or folder / "results.jsonl"
    results = load(file)
    if not options.table:
        seeds = seeds_of(options.seeds) if options.seeds else range(1, options.runs + 1)
        cases = [draw(seed, options.on) for seed in seeds]
        done = {(each.seed, each.where) for each in results}
        until = time.monotonic() + 60 * options.minutes
        with stand(folder) as shared:
            for case in cases:
                if (case.seed, case.where) in done or time.monotonic() > until:
                    continue
                results.append(play(shared, case))
                keep(file, results[-1])
                again = "" if results[-1].is_good else f"\n  again: {case.call}"
                print(results[-1].line() + again, flush=True)
    print(table(results))
    is_good = all(each.is_good for each in results)
    if is_good:
        shutil.rmtree(folder)
    else:
        print(f"left in {folder}")
    return 0 if is_good else 1


def seeds_of(words: str) -> range:
    """Seeds as in 7 or 1-200."""
    first, _, last = words.partition("-")
    return range(int(first), int(last or first) + 1)


if __name__ == "__main__":
    sys.exit(main())
