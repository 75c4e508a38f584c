"""What every step does: build a function over tables that keeps every row, or says which not."""

from collections.abc import Callable
from typing import ClassVar

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.columns import visible
from tasks.kinds.kind import Kind
from tasks.protocol.batch import ROW

Function = Callable[[pa.Table], pa.Table]
"""Gets rows with their ids in `__row`. Returns as many rows in the same order, or rows with
`__row`: ids left out are filtered, ids repeated are one row's children."""
NEW_COLUMN = "^[^_]|^_[^_]"
"""Names that a step may give; those with `__` are reserved."""
ID = pa.field(ROW, pa.int64())


class Step(Kind):
    """A CPU step before the model's own preprocessing."""

    is_heavy: ClassVar[bool] = False
    """Whether it may take long, and only one core at a time."""

    @property
    def reads(self) -> dict[str, list[str]]:
        """Columns that must be there, by the field of the spec that names them."""
        return {}

    def schema_after(self, schema: pa.Schema) -> pa.Schema | None:
        """Names and types of the columns that it leaves; None where only its code knows.

        Args:
            schema: of those before it.

        Raises:
            InvalidSpec: a column that it reads is of a type that it cannot do with.
        """
        return None if self.own_code else of_no_row(self.build(), schema)

    def check(self) -> None:
        """Find what is wrong without doing anything expensive.

        Raises:
            InvalidSpec: says which field, and the way out.
        """

    def build(self) -> Function:
        """The step as a function; called once in each worker process."""
        raise NotImplementedError


def of_no_row(function: Function, schema: pa.Schema) -> pa.Schema:
    """What a step makes of a table without a row: its columns show all the same.

    Args:
        function: the step.
        schema: of the columns that are there, without the rows' ids.
    """
    return function(schema.insert(0, ID).empty_table()).schema.remove(0)


def column_to_cut(kind: str, rows: pa.Table, name: str, new: set[str]) -> pa.ChunkedArray:
    """The column of which a step makes several rows.

    Args:
        kind: the step's, for messages.
        rows: what it was given.
        name: of the column.
        new: columns that the step adds.

    Raises:
        InvalidSpec: it is not there, or a new column's name is taken.
        ValueError: a row has nothing in it.
    """
    have, field = visible(rows), f"steps.{kind}.column"
    if name not in have:
        raise InvalidSpec.at(field, name, f"is not among the columns {have}")
    if taken := sorted(new & set(have)):
        problem = f"is split into rows with {sorted(new)}: rename the columns {taken} before"
        raise InvalidSpec.at(field, name, problem)
    if rows[name].null_count:
        raise ValueError(f"column {name!r} is empty in this row")
    return rows[name]
