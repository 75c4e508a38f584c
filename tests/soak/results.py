"""What a case has shown, how it is kept, and the table of all."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass
class Struck:
    """A run that was struck, and brought to its end."""

    fault: str
    words: str
    runs: int = 0
    """How often it was started, the last time to see that nothing is left to do."""
    kills: int = 0
    has_hit: bool = False
    """Whether the fault found the run at work."""
    rows: int = 0
    lost: int = 0
    doubled: int = 0


@dataclass
class Result:
    """A seed's result."""

    seed: int
    where: str
    pipeline: str
    struck: list[Struck] = field(default_factory=list)
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)
    verified: int = 0
    """Rows that, predicted again at the end, came out as they are published."""

    @property
    def is_good(self) -> bool:
        """Whether everything held."""
        return not self.problems

    def line(self) -> str:
        """In one line."""
        kills = sum(each.kills for each in self.struck)
        rows = sum(each.rows for each in self.struck)
        said = "; ".join(each.words for each in self.struck)
        end = "ok" if self.is_good else f"FAILED {' | '.join(self.problems)}"
        figures = (
            f"{self.seed:6} {self.where:7} {kills:3} kills {rows:6} rows {self.seconds:5.0f} s"
        )
        return f"{figures}  {self.pipeline}: {said}: {end}"


def load(file: Path) -> list[Result]:
    """Results kept earlier."""
    lines = file.read_text().splitlines() if file.exists() else []
    raw = [json.loads(line) for line in lines]
    return [Result(**{**each, "struck": [Struck(**s) for s in each["struck"]]}) for each in raw]


def keep(file: Path, result: Result) -> None:
    """Append a result."""
    with file.open("a") as opened:
        opened.write(json.dumps(asdict(result)) + "\n")


COLUMNS = ("struck", "on a cluster", "hit", "kills", "started", "rows", "lost", "doubled")


def table(results: Iterable[Result]) -> str:
    """Runs by fault, in Markdown."""
    sums: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        for each in result.struck:
            for name in (each.fault, "all"):
                sums[name].update(figures(each, result.where))
    shown = [*sorted(set(sums) - {"all"}), *(["all"] if sums else [])]
    lines = [f"| fault | {' | '.join(COLUMNS)} |", f"| --- {'| ---: ' * len(COLUMNS)}|"]
    lines += [
        f"| {name} | {' | '.join(f'{sums[name][column]:,}' for column in COLUMNS)} |"
        for name in shown
    ]
    return "\n".join(lines)


def figures(each: Struck, where: str) -> dict[str, int]:
    """What one of them adds to the table."""
    return {
        "struck": 1,
        "on a cluster": where == "cluster",
        "hit": each.has_hit,
        "kills": each.kills,
        "started": each.runs,
        "rows": each.rows,
        "lost": each.lost,
        "doubled": each.doubled,
    }
