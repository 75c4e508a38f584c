"""`python -m tests.chaos.matrix [FAULT[:STAGE] ...] [--resume FILE] [--seed N]`: faults by stages.

Without arguments: all cells that are not in the file yet.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.chaos.matrix.cell import run_cell, stand
from tests.chaos.matrix.faults import FAULTS
from tests.chaos.matrix.job import STAGES
from tests.chaos.matrix.result import Result, keep, load, table
from tests.chaos.session import session

Cell = tuple[str, str]


def main() -> int:
    """Run what is asked for and print the table; 1 if anything did not hold."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.matrix")
    parser.add_argument("cells", nargs="*", metavar="FAULT[:STAGE]", help=", ".join(FAULTS))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--resume", type=Path, help="results; what is good there is not repeated")
    parser.add_argument("--keep", action="store_true", help="leave the folder for a look")
    options = parser.parse_args()
    cells = [cell for word in options.cells or FAULTS for cell in cells_of(parser, word)]
    # Ray's socket paths must be short, and so must this.
    folder = Path(tempfile.mkdtemp(prefix="cm-"))
    results = run_cells(cells, folder, options.resume or folder / "results.jsonl", options.seed)
    print(f"\n{table(results)}")
    if options.keep:
        print(f"left in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if all(each.is_good for each in results) else 1


def cells_of(parser: argparse.ArgumentParser, word: str) -> list[Cell]:
    """The cells that a word on the command line means."""
    fault, _, stage = word.partition(":")
    if fault not in FAULTS or (stage and stage not in STAGES):
        parser.error(f"no such cell: {word}")
    return [(fault, stage)] if stage else [(fault, each) for each in FAULTS[fault].stages]


def run_cells(cells: list[Cell], folder: Path, file: Path, seed: int) -> list[Result]:
    """Run the cells of which the file holds no good result."""
    kept = [each for each in load(file) if each.seed == seed and each.is_good]
    done = {(each.fault, each.stage): each for each in kept}
    left = [cell for cell in cells if cell not in done]
    if left:
        with session(folder) as shared, stand(shared) as common:
            for fault, stage in left:
                done[fault, stage] = run_cell(common, fault, stage, seed)
                keep(file, done[fault, stage])
                print(done[fault, stage].line(), flush=True)
    return [done[cell] for cell in cells]


if __name__ == "__main__":
    sys.exit(main())
