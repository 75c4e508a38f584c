"""How many rows there are."""

from dataclasses import dataclass
from typing import Literal, Self

import pyarrow as pa
from pydantic import ConfigDict, Field, model_validator

from tasks.kinds.gates.gate import Gate, Judgement, LastRun


class RowsGate(Gate):
    """Limits the number of rows that a run writes."""

    model_config = ConfigDict(title="Row count")
    kind: Literal["rows"] = "rows"
    minimum: int | None = Field(None, ge=0, description="Fewest rows allowed, in this run alone.")
    maximum: int | None = Field(None, ge=0, description="Most rows allowed, in this run alone.")

    @model_validator(mode="after")
    def _some_bound(self) -> Self:
        if self.minimum is None and self.maximum is None:
            raise ValueError("give minimum, maximum or both")
        if self.maximum is not None and (self.minimum or 0) > self.maximum:
            raise ValueError("minimum is above maximum: no number fits")
        return self

    @property
    def subject(self) -> str:
        """What is measured."""
        return "rows written"

    @property
    def limit(self) -> str:
        """What is allowed."""
        if self.maximum is None:
            return f"at least {self.minimum:,}"
        if self.minimum is None:
            return f"at most {self.maximum:,}"
        return f"{self.minimum:,} to {self.maximum:,}"

    def meter(self, schema: pa.Schema, last: LastRun) -> "RowsMeter":
        """Counts rows."""
        return RowsMeter(self)


@dataclass
class RowsMeter:
    """Counts rows."""

    gate: RowsGate
    total: int = 0

    def add(self, rows: pa.Table) -> None:
        """Count some rows."""
        self.total += len(rows)

    def judge(self) -> Judgement:
        """The number of rows."""
        too_few = self.total < (self.gate.minimum or 0)
        too_many = self.gate.maximum is not None and self.total > self.gate.maximum
        return self.gate.judgement(self.total, not (too_few or too_many))
