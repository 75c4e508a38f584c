"""What a scenario found, how it is kept, and how it is shown."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.chaos.compare import Rows, compare, fingerprint
from tests.chaos.session import Place, Session


@dataclass(frozen=True)
class Outcome:
    """One scenario's result."""

    scenario: str
    seed: int
    kills: int
    rows: int
    lost: int
    doubled: int
    again: int = 0
    """Rows handed to the model more than once."""
    bound: int | None = None
    seconds: float = 0.0
    problems: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether everything held."""
        too_often = self.bound is not None and self.again > self.bound
        return not (self.lost or self.doubled or self.problems or too_often)

    def line(self) -> str:
        """In one line."""
        bound = "-" if self.bound is None else str(self.bound)
        return (
            f"{self.scenario:10} {self.seed:5} {self.kills:6} {self.rows:8} {self.lost:6} "
            f"{self.doubled:8} {self.again:8} / {bound:8} {self.seconds:8.0f}  "
            f"{'ok' if self.is_good else 'FAILED ' + '; '.join(self.problems)}"
        )


HEADER = (
    f"{'scenario':10} {'seed':>5} {'kills':>6} {'rows':>8} {'lost':>6} {'doubled':>8} "
    f"{'again':>8} / {'bound':8} {'seconds':>8}"
)
Scenario = Callable[[Session, int], Outcome]


def judge(
    place: Place,
    spec: Path,
    expected: Rows,
    seed: int,
    kills: int,
    *,
    bound: int | None = None,
    handed: int | None = None,
    problems: tuple[str, ...] = (),
) -> Outcome:
    """Compare what is published with what should be, and see that another run does nothing.

    Args:
        place: where the scenario ran.
        spec: its spec; the output is named like it.
        expected: the rows that should be published.
        seed: what the scenario's dice started from.
        kills: processes or trees killed.
        bound: rows that may be handed to the model again.
        handed: rows that were handed to it; read from its log where not given.
        problems: what the scenario noticed itself.
    """
    output = spec.with_suffix("")
    handed = place.logged() if handed is None else handed
    found = compare(output, expected)
    before = fingerprint(output)
    report = place.finish(spec)
    if report["published"] or fingerprint(output) != before:
        problems += ("another run was no no-op",)
    if compare(output, expected) != found:
        problems += ("another run changed the rows",)
    again = max(0, handed - found.rows) if bound is not None else 0
    return Outcome(
        place.folder.name.rpartition("-")[0],
        seed,
        kills,
        found.rows,
        found.lost,
        found.doubled,
        again,
        bound,
        problems=problems,
    )


def load(file: Path) -> list[Outcome]:
    """Results kept from earlier sessions."""
    lines = file.read_text().splitlines() if file.exists() else []
    raw = [json.loads(line) for line in lines]
    return [Outcome(**{**each, "problems": tuple(each["problems"])}) for each in raw]


def keep(file: Path, outcome: Outcome) -> None:
    """Append a result."""
    with file.open("a") as opened:
        opened.write(json.dumps(asdict(outcome)) + "\n")


def timed(run: Callable[[], Outcome]) -> Outcome:
    """Run a scenario with a clock; what it raises is a result too."""
    started = time.monotonic()
    outcome = run()
    return Outcome(**{**asdict(outcome), "seconds": round(time.monotonic() - started, 1)})
