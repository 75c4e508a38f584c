"""How far a column's distribution has moved since a published run."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal, Self

import pyarrow as pa
from pydantic import ConfigDict, Field, model_validator

from tasks.counted import counted
from tasks.kinds.gates.chance import by_chance
from tasks.kinds.gates.distances import DISTANCES
from tasks.kinds.gates.distribution import (
    NumberTally,
    ValueTally,
    compared,
    lacks_edges,
    rows_of,
    tally_for,
)
from tasks.kinds.gates.gate import Chart, Gate, Judgement, LastRun
from tasks.kinds.gates.values import refuse_nested


class DriftGate(Gate):
    """Compares a column's distribution with that of the last run of at least half as many rows.

    If no published run has that many, half as many as the largest one has will do. A distance that
    two runs of so few rows would exceed by chance once in a thousand times is not drift.
    """

    model_config = ConfigDict(title="Drift")
    kind: Literal["drift"] = "drift"
    column: str = Field(
        description="Column to look at, such as predicted_label or score; of a list, the first "
        "value counts. Numbers are compared by the first run's deciles, everything else by value."
    )
    metric: Literal["psi", "jensen_shannon"] = Field(
        "psi",
        description="psi: population stability index, where 0.1 is little and 0.25 a lot; shares "
        "below 0.0001 count as 0.0001. jensen_shannon: distance from 0 (same) to 1 (nothing in "
        "common).",
    )
    maximum: float = Field(
        ge=0,
        description="Largest distance allowed from the last published run that has at least half "
        "as many rows; with few rows more is allowed if chance alone makes more once in a thousand "
        "times. The first run has nothing to compare with.",
    )

    baseline: str | None = Field(
        default=None,
        min_length=1,
        pattern=r"^[^{}]+$",
        description="Path of another output, reached with the sink's storage_options, to compare "
        "with instead. Its runs must have had a drift gate of this column. With {scheduled:...} in "
        "sink.path, an output has no earlier run to compare with.",
    )
    compares: ClassVar[bool] = True

    @model_validator(mode="after")
    def _can_fail(self) -> Self:
        if self.metric == "jensen_shannon" and self.maximum >= 1:
            raise ValueError(
                "maximum must be below 1, since a Jensen-Shannon distance is never above 1"
            )
        return self

    @property
    def compared_with(self) -> str | None:
        """The output that is named."""
        return self.baseline

    @property
    def subject(self) -> str:
        """What is measured."""
        name = "PSI" if self.metric == "psi" else "Jensen-Shannon distance"
        return f"drift of {self.column} ({name})"

    @property
    def limit(self) -> str:
        """What is allowed."""
        return f"at most {self.maximum:g}"

    @property
    def columns(self) -> dict[str, str]:
        """The column."""
        return {"column": self.column}

    def refuse_type(self, kind: pa.DataType) -> str | None:
        """Text, numbers, booleans and the like have distributions."""
        return refuse_nested(kind)

    def meter(self, schema: pa.Schema, last: LastRun) -> "DriftMeter":
        """Counts values in the earlier run's bins."""
        return DriftMeter(self, schema.field(self.column).type, last)


@dataclass
class DriftMeter:
    """Counts values."""

    gate: DriftGate
    kind: pa.DataType
    last: LastRun
    tally: NumberTally | ValueTally = field(init=False)

    def __post_init__(self) -> None:
        self.earlier = self.last.columns.get(self.gate.column)
        self.tally = tally_for(self.kind, self.earlier.distribution if self.earlier else None)

    def add(self, rows: pa.Table) -> None:
        """Count some rows."""
        self.tally.add(rows[self.gate.column])

    def judge(self) -> Judgement:
        """The distance from the earlier run."""
        tally = self.tally
        if self.earlier is None:
            note = "nothing to compare with yet"
            return self.gate.judgement(None, True, note=note, distribution=tally.anew())
        earlier, version = self.earlier.distribution, self.earlier.version
        if earlier["kind"] != tally.kind:
            note = f"{version} had {earlier['kind']} here, now there are {tally.kind}"
            return self.gate.judgement(None, False, note=note, distribution=tally.anew())
        if lacks_edges(earlier):  # as earlier releases left it of infinite numbers alone
            note = f"{version} stored nothing about its numbers to compare with"
            return self.gate.judgement(None, True, note=note, distribution=tally.anew())
        bins, expected, seen = compared(earlier, tally)
        distance = DISTANCES[self.gate.metric]
        value, passed = distance(expected, seen), True
        since = "" if self.earlier.is_last else "; later ones have fewer than half of this run's"
        if value > self.gate.maximum:
            rows = (rows_of(earlier), rows_of(tally.as_before()))
            chance = by_chance(distance, expected, seen, rows)
            passed = value <= chance
            since += f"; with so few rows, {chance:.3g} is chance" if passed else ""
        return self.gate.judgement(
            value,
            passed,
            note=f"against {version}, {counted(rows_of(earlier), 'row')}{since}",
            chart=Chart(bins, expected, seen, version, "this run"),
            # Who publishes a drift on their word makes it the new measure.
            distribution=tally.to_keep() if passed else tally.anew(),
        )
