"""What a seed says: a pipeline, its inputs, and what happens to them."""

from dataclasses import dataclass, field, replace
from typing import Literal

Where = Literal["inline", "cluster"]
Action = Literal["run", "redrive", "replace", "limit"]


@dataclass(frozen=True)
class Row:
    """One row of an input."""

    id: int
    x: int
    is_bad: bool = False
    """Whether nobody can read it."""


@dataclass(frozen=True)
class Input:
    """A file at one moment."""

    name: str
    rows: tuple[Row, ...]
    is_damaged: bool = False
    """Whether nobody can read any of it."""


@dataclass(frozen=True)
class Pipeline:
    """What is done to rows."""

    source: str
    steps: tuple[str, ...]
    model: str
    sink: str
    mode: Literal["append", "replace"]
    partitioned: bool
    on_s3: bool
    batch_size: int
    replicas: int
    rows_per_batch: int
    rows_per_file: int | None
    budget: float
    """Share of rows that may be set aside."""
    filter_below: int
    """The step `filter` keeps rows whose x is at least this."""
    broken_every: int
    """The model raises on rows whose id is a multiple of this, until it is mended; 0: on none."""
    row_by_row: bool
    """Whether code that drops or multiplies rows gets one at a time."""

    def __str__(self) -> str:
        words = [self.source, *self.steps, self.model, self.sink, self.mode]
        words += ["partitioned"] * self.partitioned + ["S3"] * self.on_s3
        words += ["row by row"] * self.row_by_row
        sizes = f"batches of {self.batch_size}, {self.replicas} replicas"
        return f"{' > '.join(words)}; {sizes}"


@dataclass(frozen=True)
class Strike:
    """What happens while a run is at work."""

    fault: str
    call: str = ""
    """Of a fault within the process: at which kind of call; see `tests.chaos.calls`."""
    number: int = 1
    after: bool = False
    moment: float = 0.0
    """Of one from outside: after which share of rows; below zero, seconds from the start."""

    def __str__(self) -> str:
        if self.call:
            return f"{self.fault} {'after' if self.after else 'before'} {self.call} {self.number}"
        at = f"{self.moment:.0%} of rows" if self.moment >= 0 else f"{-self.moment:.1f} s"
        return f"{self.fault} at {at}" if self.fault != "none" else "undisturbed"


@dataclass(frozen=True)
class Round:
    """Inputs change, a run is struck, inputs change again, and it is run to its end."""

    action: Action
    strike: Strike
    before: tuple[Input, ...] = ()
    between: tuple[Input, ...] = ()
    removed: tuple[str, ...] = ()
    """Names that are gone between the two."""


@dataclass(frozen=True)
class Case:
    """All that a seed says."""

    seed: int
    where: Where
    pipeline: Pipeline
    inputs: tuple[Input, ...]
    rounds: tuple[Round, ...] = field(default_factory=tuple)

    @property
    def call(self) -> str:
        """What plays it again."""
        return f"python -m tests.soak --seeds {self.seed} --on {self.where}"


@dataclass(frozen=True)
class Lying:
    """What lies at the source."""

    files: dict[str, Input] = field(default_factory=dict)

    def changed(self, new: tuple[Input, ...], removed: tuple[str, ...] = ()) -> "Lying":
        """With other files, and without some."""
        files = {**self.files, **{each.name: each for each in new}}
        return replace(self, files={n: f for n, f in files.items() if n not in removed})

    @property
    def in_order(self) -> list[Input]:
        """By name."""
        return [self.files[name] for name in sorted(self.files)]
