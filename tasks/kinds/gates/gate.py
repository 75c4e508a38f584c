"""What every gate does: measure a run's rows in one pass, and say whether they may be published."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.column_types import NO_VALUE, is_text
from tasks.kinds.gates.values import value_type
from tasks.kinds.kind import Kind
from tasks.kinds.likest import did_you_mean


@dataclass(frozen=True)
class Chart:
    """Two distributions side by side, as shares of the rows."""

    bins: list[str]
    expected: list[float]
    seen: list[float]
    expected_name: str
    seen_name: str


@dataclass(frozen=True)
class Judgement:
    """What a gate measured, and what it says to it."""

    gate: str
    limit: str
    value: float | None
    """None where there was nothing to measure."""
    passed: bool
    note: str = ""
    chart: Chart | None = None
    distribution: dict[str, Any] | None = None
    """What the next run is compared with."""


@dataclass(frozen=True)
class Earlier:
    """A column's distribution, as a published run left it."""

    distribution: dict[str, Any]
    version: str
    """The version that published it, in words."""
    is_last: bool = True
    """Whether no run has left one since; those that have had too few rows."""


@dataclass(frozen=True)
class LastRun:
    """What earlier runs left to compare with."""

    columns: Mapping[str, Earlier] = field(default_factory=dict)
    """The latest one of each column that has enough rows."""


class Meter(Protocol):
    """Takes a measure, table by table; holds counts, never rows."""

    def add(self, rows: pa.Table) -> None:
        """Take some rows."""

    def judge(self) -> Judgement:
        """Say what was found, after the last row."""


class Gate(Kind):
    """A condition on a run's rows, judged before they are published."""

    compares: ClassVar[bool] = False
    """Whether it compares with what an earlier run left."""

    @property
    def compared_with(self) -> str | None:
        """The path of another output, whose runs it compares with; None: with its own."""
        return None

    @property
    def subject(self) -> str:
        """What is measured, in words."""
        raise NotImplementedError

    @property
    def limit(self) -> str:
        """What is allowed, in words."""
        raise NotImplementedError

    @property
    def columns(self) -> dict[str, str]:
        """Columns that are looked at, by the field that names them."""
        return {}

    def refuse_type(self, kind: pa.DataType) -> str | None:
        """What is wrong with a column of this type; None where nothing is."""
        return None

    def meter(self, schema: pa.Schema, last: LastRun) -> Meter:
        """A meter for one run.

        Args:
            schema: of the run's output.
            last: what to compare with.
        """
        raise NotImplementedError

    def judgement(self, value: float | None, passed: bool, **more: Any) -> Judgement:
        """A judgement of this gate."""
        return Judgement(self.subject, self.limit, rounded(value), passed, **more)


def rounded(value: float | None) -> float | None:
    """A measure in six digits that count: few of very many rows are no 0; all of a whole number."""
    return value if value is None or isinstance(value, int) else float(f"{value:.6g}")


def written(value: float) -> str:
    """A measure or a bound as a person reads it, with all digits of a whole number."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.12g}"


def check_columns(gates: Sequence[Gate], schema: pa.Schema, *, may_come: bool = False) -> None:
    """See that the columns the gates look at are there, and of types that fit.

    What nobody knows the type of yet, since no row has had a value, is text for now.

    Args:
        gates: to look at.
        schema: of the output.
        may_come: whether rows may yet bring columns that it lacks.

    Raises:
        InvalidSpec: names the field, the column, and the columns there are.
    """
    for at, gate in enumerate(gates):
        for name, column in gate.columns.items():
            place = f"gates.{at}.{name}"
            if column not in schema.names:
                if may_come:
                    continue
                meant = did_you_mean(column, schema.names)
                absent = f"is not a column of the output, which has {schema.names}{meant}"
                raise InvalidSpec.at(place, column, absent)
            found = schema.field(column)
            problem = gate.refuse_type(found.type)
            if problem and not (found.metadata == NO_VALUE and is_text(value_type(found.type))):
                raise InvalidSpec.at(place, column, f"{problem}: use another column")
