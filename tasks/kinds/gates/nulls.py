"""How many values are missing."""

from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
from pydantic import ConfigDict, Field

from tasks.counted import counted
from tasks.kinds.gates.gate import Gate, Judgement, LastRun
from tasks.kinds.no_number import null_for_nan


class NullsGate(Gate):
    """Limits the share of rows without a value."""

    model_config = ConfigDict(title="Missing values")
    kind: Literal["nulls"] = "nulls"
    column: str = Field(description="Column to look at; null and NaN are missing.")
    max_fraction: float = Field(ge=0, le=1, description="Largest share of rows without a value.")

    @property
    def subject(self) -> str:
        """What is measured."""
        return f"share of rows without {self.column}"

    @property
    def limit(self) -> str:
        """What is allowed."""
        return f"at most {self.max_fraction:g}"

    @property
    def columns(self) -> dict[str, str]:
        """The column."""
        return {"column": self.column}

    def meter(self, schema: pa.Schema, last: LastRun) -> "NullsMeter":
        """Counts missing values."""
        return NullsMeter(self)


@dataclass
class NullsMeter:
    """Counts missing values."""

    gate: NullsGate
    missing: int = 0
    total: int = 0

    def add(self, rows: pa.Table) -> None:
        """Count some rows."""
        self.total += len(rows)
        self.missing += null_for_nan(rows[self.gate.column]).null_count

    def judge(self) -> Judgement:
        """The share that is missing."""
        value = self.missing / self.total
        note = f"{self.missing:,} of {counted(self.total, 'row')}"
        return self.gate.judgement(value, value <= self.gate.max_fraction, note=note)
