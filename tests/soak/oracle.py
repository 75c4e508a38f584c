"""What must become of every row, worked out from the inputs alone, in plain Python."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tests.soak.drawn import Action, Input, Lying, Pipeline, Row
from tests.soak.formats import FORMATS, TEXTS, TILE, num_tiles, part_of

Published = tuple[tuple[str, Any], ...]
"""A row's columns and values, by name."""


@dataclass(frozen=True)
class Fate:
    """What becomes of a row: rows are published, it is set aside, or neither: it is filtered."""

    rows: tuple[Published, ...] = ()
    is_set_aside: bool = False
    is_file: bool = False
    """Whether it stands for the rest of a file that cannot be read."""


@dataclass
class Promise:
    """What must be published by now."""

    pipeline: Pipeline
    is_mended: bool = False
    inputs: dict[str, tuple[Input, list[Fate]]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    """What the ledger's entries must say together, of runs that only add."""

    def keep(self, action: Action, lying: Lying) -> None:
        """A run has published what lies there."""
        if action == "redrive":
            again = {i.name: (i, self.again(i, fates)) for i, fates in self.left(lying)}
            self.inputs |= again
            return
        if self.makes_new_version(action):
            self.inputs = {}
        for file in self.new(lying):
            self.inputs[file.name] = (file, self.fates(file))
            self.counts += count(self.inputs[file.name][1])

    def makes_new_version(self, action: Action) -> bool:
        """Whether nothing that was published stays."""
        return action == "replace" or self.pipeline.mode == "replace"

    def new(self, lying: Lying) -> list[Input]:
        """Files that are not published as they lie there."""
        return [i for i in lying.in_order if self.inputs.get(i.name, (None, []))[0] != i]

    def coming(self, action: Action, lying: Lying) -> list[list[Fate]]:
        """What becomes of the rows that a run would do now, by file."""
        if action == "redrive":
            return [fates for _, fates in self.left(lying)]
        files = lying.in_order if self.makes_new_version(action) else self.new(lying)
        return [self.fates(file) for file in files]

    def left(self, lying: Lying) -> list[tuple[Input, list[Fate]]]:
        """Files that lie there as they were published: of all others no row can be done again."""
        return [(i, fates) for i, fates in self.inputs.values() if lying.files.get(i.name) == i]

    def again(self, file: Input, fates: list[Fate]) -> list[Fate]:
        """What a redrive makes of a file: rows that were set aside get another chance."""
        now = self.fates(file)
        return [new if old.is_set_aside else old for old, new in zip(fates, now, strict=True)]

    def fates(self, file: Input) -> list[Fate]:
        """What becomes of a file's rows; one that nobody can read is one row, set aside."""
        if file.is_damaged:
            return [Fate(is_set_aside=True, is_file=True)]
        return [self.fate(row) for row in file.rows]

    def fate(self, row: Row) -> Fate:
        """What becomes of one row."""
        steps = self.pipeline.steps
        if row.is_bad:
            return Fate(is_set_aside=True)
        if "filter" in steps and row.x < self.pipeline.filter_below:
            return Fate()
        if "thin" in steps and row.id % 4 == 0:
            return Fate()
        children = self.children(row)
        every = self.pipeline.broken_every
        if children and every and row.id % every == 0 and not self.is_mended:
            return Fate(is_set_aside=True)
        return Fate(tuple(published(each) for each in children))

    def children(self, row: Row) -> list[dict[str, Any]]:
        """What a row is, or is made into, with what the model says of it."""
        pipeline = self.pipeline
        y = "prediction" if pipeline.model == "sklearn" else "y"
        whole = {"id": row.id, "x": row.x, y: 3 * row.x + 1, "part": part_of(row.id)}
        if FORMATS[pipeline.source].has_texts and "select" not in pipeline.steps:
            whole["s"] = TEXTS[row.id % len(TEXTS)]
        if "tiles" in pipeline.steps:
            tiles = range(num_tiles(row.id))
            return [{**whole, "tile_x": TILE * at, "tile_y": 0} for at in tiles]
        if "multiply" in pipeline.steps:
            return [{**whole, "child": child} for child in range(row.id % 3)]
        return [whole]

    @property
    def rows(self) -> Counter[Published]:
        """All published rows."""
        fates = [fate for _, of_file in self.inputs.values() for fate in of_file]
        return Counter(row for fate in fates for row in fate.rows)

    @property
    def set_aside(self) -> Counter[tuple[str, int]]:
        """File and row of all that is set aside."""
        return Counter(
            (name, at)
            for name, (_, fates) in self.inputs.items()
            for at, fate in enumerate(fates)
            if fate.is_set_aside
        )


def count(fates: list[Fate]) -> Counter[str]:
    """Rows by what became of them."""
    rejected = sum(fate.is_set_aside for fate in fates)
    filtered = sum(not (fate.is_set_aside or fate.rows) for fate in fates)
    written = sum(len(fate.rows) for fate in fates)
    return Counter(read=len(fates), written=written, rejected=rejected, filtered=filtered)


def first_rows(files: list[list[Fate]], limit: int) -> list[list[Fate]]:
    """What becomes of the first so many rows, by file."""
    first: list[list[Fate]] = []
    for fates in files:
        if left := limit - sum(map(len, first)):
            first.append(fates[:left])
    return first


def published(values: dict[str, Any]) -> Published:
    """A row, however its numbers are stored."""
    return tuple((name, plain(values[name])) for name in sorted(values))


def plain(value: Any) -> Any:
    """A number as a number, anything else as it is."""
    try:
        return round(float(value), 3)
    except (TypeError, ValueError):
        return value


def multiset(rows: Iterable[dict[str, Any]]) -> Counter[Published]:
    """Rows that somebody has read."""
    return Counter(published(row) for row in rows)
