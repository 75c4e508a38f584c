"""How many values lie where none should."""

import math
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
import pyarrow as pa
from pydantic import ConfigDict, Field, model_validator

from tasks.kinds.gates.gate import Gate, Judgement, LastRun, written
from tasks.kinds.gates.values import flat, numbers, refuse_no_number


class BoundsGate(Gate):
    """Bounds the values of a column of numbers."""

    model_config = ConfigDict(title="Bounds")
    kind: Literal["bounds"] = "bounds"
    column: str = Field(
        description="Column of numbers; every value of lists and arrays, such as embeddings, "
        "counts. Missing values do not: they are for the nulls gate."
    )
    minimum: float | None = Field(None, description="The smallest value allowed.")
    maximum: float | None = Field(None, description="The largest value allowed.")
    max_fraction_outside: float = Field(
        0, ge=0, le=1, description="Share of values that may lie outside."
    )

    @model_validator(mode="after")
    def _some_bound(self) -> Self:
        if self.minimum is None and self.maximum is None:
            raise ValueError("give minimum, maximum or both")
        if self.low > self.high:
            raise ValueError("minimum is above maximum: no value fits")
        return self

    @property
    def low(self) -> float:
        """The smallest value allowed."""
        return -math.inf if self.minimum is None else self.minimum

    @property
    def high(self) -> float:
        """The largest value allowed."""
        return math.inf if self.maximum is None else self.maximum

    @property
    def subject(self) -> str:
        """What is measured."""
        if self.minimum is None:
            return f"share of {self.column} above {written(self.high)}"
        if self.maximum is None:
            return f"share of {self.column} below {written(self.low)}"
        return f"share of {self.column} outside {written(self.low)} to {written(self.high)}"

    @property
    def limit(self) -> str:
        """What is allowed."""
        return f"at most {self.max_fraction_outside:g}"

    @property
    def columns(self) -> dict[str, str]:
        """The column."""
        return {"column": self.column}

    def refuse_type(self, kind: pa.DataType) -> str | None:
        """Only numbers have bounds."""
        return refuse_no_number(kind)

    def meter(self, schema: pa.Schema, last: LastRun) -> "BoundsMeter":
        """Counts values outside."""
        return BoundsMeter(self)


@dataclass
class BoundsMeter:
    """Counts values outside, and remembers how far they go."""

    gate: BoundsGate
    outside: int = 0
    total: int = 0
    smallest: float = math.inf
    largest: float = -math.inf
    has_others: bool = False
    """Whether rows had values that are no numbers: texts, where the first had nothing and any may
    come, and times or complex numbers in arrays, whose type does not tell."""

    def add(self, rows: pa.Table) -> None:
        """Count some rows."""
        for chunk in rows[self.gate.column].chunks:
            try:
                values = flat(chunk)
                found = numbers(values)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                self.has_others = True
                continue
            found = found[found == found]  # NaN does not equal itself
            if not len(found):
                continue
            self.total += len(found)
            low, high = (as_held(b, values.type) for b in (self.gate.low, self.gate.high))
            self.outside += int(((found < low) | (found > high)).sum())
            self.smallest = min(self.smallest, float(found.min()))
            self.largest = max(self.largest, float(found.max()))

    def judge(self) -> Judgement:
        """The share outside."""
        if self.has_others:
            note = f"{self.gate.column} has values that are not numbers"
            return self.gate.judgement(None, False, note=note)
        if not self.total:
            return self.gate.judgement(None, False, note=f"{self.gate.column} has no values")
        value = self.outside / self.total
        note = f"values from {written(self.smallest)} to {written(self.largest)}"
        return self.gate.judgement(value, value <= self.gate.max_fraction_outside, note=note)


def as_held(bound: float, kind: pa.DataType) -> float:
    """A bound as a column of some type holds it: 0.9 as a single float is less than 0.9."""
    if kind not in (pa.float16(), pa.float32()):
        return bound
    with np.errstate(over="ignore"):
        held = float(np.dtype(kind.to_pandas_dtype()).type(bound))
    return held if math.isfinite(held) else bound  # an infinite value is beyond 1e300
