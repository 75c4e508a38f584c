"""What each of the long proofs has shown, read from the results that lie in this folder."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.chaos import outcome
from tests.chaos.matrix import result
from tests.soak import results as soak

HERE = Path(__file__).parent
COLUMNS = ("command", "what was done to the runs", "runs", "rows", "lost", "doubled", "failed")


@dataclass(frozen=True)
class Proof:
    """A proof in figures."""

    command: str
    faults: Counter[str]
    runs: int
    rows: int | None
    """None: rows are no measure of it."""
    lost: int
    doubled: int
    failed: int
    """Runs of which anything else that is promised did not hold."""

    def line(self) -> str:
        """As a row of the table."""
        done = ", ".join(f"{name}: {times:,}" for name, times in self.faults.most_common())
        rows = "" if self.rows is None else f"{self.rows:,}"
        figures = (f"{self.runs:,}", rows, *(f"{n:,}" for n in self.ends))
        return f"| `{self.command}` | {done} | {' | '.join(figures)} |"

    @property
    def ends(self) -> tuple[int, int, int]:
        """What should all be 0."""
        return self.lost, self.doubled, self.failed


def chaos(folder: Path) -> Proof:
    """Scenarios, each a job or several that are killed again and again."""
    found = outcome.load(folder / "chaos.jsonl")
    kills = Counter({f"kills in {len(found)} scenarios": sum(each.kills for each in found)})
    return in_figures("make chaos", kills, found, sum(not each.is_good for each in found))


def matrix(folder: Path) -> Proof:
    """Faults by stages, each on a cluster elsewhere."""
    found = [each for each in result.load(folder / "matrix.jsonl") if not each.skipped]
    faults = Counter(each.fault for each in found)
    failed = sum(not each.is_good for each in found)
    return in_figures("python -m tests.chaos.matrix", faults, found, failed)


def soaked(folder: Path, where: str) -> Proof:
    """Drawn pipelines, in one place."""
    cases = [each for each in soak.load(folder / "soak.jsonl") if each.where == where]
    found = [each for case in cases for each in case.struck]
    faults = Counter(each.fault for each in found if each.has_hit)
    failed = sum(not case.is_good for case in cases)
    return in_figures(f"python -m tests.soak --on {where}", faults, found, failed)


class Shown(Protocol):
    """What a run has shown."""

    @property
    def rows(self) -> int: ...
    @property
    def lost(self) -> int: ...
    @property
    def doubled(self) -> int: ...


def in_figures(command: str, faults: Counter[str], found: Sequence[Shown], failed: int) -> Proof:
    """Runs, and their rows together."""
    rows, lost = sum(each.rows for each in found), sum(each.lost for each in found)
    doubled = sum(each.doubled for each in found)
    return Proof(command, faults, len(found), rows, lost, doubled, failed)


def simulation(folder: Path) -> Proof:
    """Schedules of the protocol alone; one that loses or doubles a row has failed."""
    lines = (folder / "simulation.jsonl").read_text().splitlines()
    done, schedules, failed = Counter[str](), 0, 0
    for _, _, problem, many, _, tally in map(json.loads, lines):
        done.update(tally)
        schedules += many
        failed += problem is not None
    return Proof("make simulate", done, schedules, None, 0, 0, failed)


def table(folder: Path = HERE) -> str:
    """All proofs in Markdown."""
    proofs = [chaos(folder), matrix(folder), soaked(folder, "cluster"), soaked(folder, "inline")]
    proofs.append(simulation(folder))
    head = f"| {' | '.join(COLUMNS)} |\n| --- | --- {'| ---: ' * (len(COLUMNS) - 2)}|"
    return "\n".join([head, *(proof.line() for proof in proofs)])
