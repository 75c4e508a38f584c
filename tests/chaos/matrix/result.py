"""What a cell of the matrix has shown, how it is kept, and how it is printed."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.chaos.matrix.faults import FAULTS
from tests.chaos.matrix.job import STAGES


@dataclass(frozen=True)
class Result:
    """One cell."""

    fault: str
    stage: str
    seed: int
    struck_at_rows: int = 0
    recovery: float = 0.0
    """Seconds; what it means depends on the fault, see `LEGEND`."""
    pause: float = 0.0
    """The longest time after the strike without a new row from the model, beyond its pace; of the
    write stage without a new record."""
    redone: int = 0
    """Rows that the model was handed more than once."""
    jobs: int = 0
    """Jobs submitted for the run."""
    rows: int = 0
    lost: int = 0
    doubled: int = 0
    seconds: float = 0.0
    problems: tuple[str, ...] = ()
    skipped: str = ""
    """Why it could not be tried."""

    @property
    def is_good(self) -> bool:
        """Whether everything held."""
        return not (self.lost or self.doubled or self.problems)

    @property
    def is_in_time(self) -> bool:
        """Whether the goal was reached."""
        return self.recovery <= FAULTS[self.fault].goal_seconds

    def text(self) -> str:
        """The cell as the table shows it."""
        if self.skipped:
            return f"skipped: {self.skipped}"
        slow = "" if self.is_in_time else " (slow)"
        return f"{self.recovery:.1f} s{slow} / {self.redone}" if self.is_good else "FAILED"

    def line(self) -> str:
        """The cell on a line of its own."""
        how = "; ".join(self.problems)
        return (
            f"{self.fault}:{self.stage} {self.text()} (struck at {self.struck_at_rows} rows, pause "
            f"{self.pause:.1f} s, {self.jobs} jobs, {self.rows} rows, {self.lost} lost, "
            f"{self.doubled} doubled, {self.seconds:.0f} s in all) {how}"
        )


LEGEND = """\
Each cell: seconds to recover / rows that the model was handed again, of 4,000.
Seconds are the longest pause after the strike in which no new row left the model, of the write \
stage no new record was stored, beyond the pace before it; after the head's death from the moment \
when a cluster answers again; for flow and prefect-worker from the new flow's plan to its first \
sign of following the job, which goes on meanwhile."""


def table(results: list[Result]) -> str:
    """All cells in Markdown: a row a fault, a column a stage."""
    cells = {(each.fault, each.stage): each.text() for each in results}
    faults = [fault for fault in FAULTS if any(fault == each for each, _ in cells)]
    lines = [f"| fault | {' | '.join(STAGES)} | goal |", "| --- " * (len(STAGES) + 2) + "|"]
    for fault in faults:
        shown = [cells.get((fault, stage), "-") for stage in STAGES]
        lines.append(f"| {fault} | {' | '.join(shown)} | {FAULTS[fault].goal_seconds:g} s |")
    return "\n".join([*lines, "", LEGEND])


def load(file: Path) -> list[Result]:
    """Results kept earlier."""
    lines = file.read_text().splitlines() if file.exists() else []
    raw = [json.loads(line) for line in lines]
    return [Result(**{**each, "problems": tuple(each["problems"])}) for each in raw]


def keep(file: Path, result: Result) -> None:
    """Append a result."""
    with file.open("a") as opened:
        opened.write(json.dumps(asdict(result)) + "\n")
