"""Keeps some columns."""

from typing import Literal

import pyarrow as pa
from pydantic import ConfigDict, Field

from tasks.errors import UserCodeBroke
from tasks.kinds.steps.step import Function, Step
from tasks.protocol.batch import ROW


class SelectStep(Step):
    """Keeps the named columns and drops the others."""

    model_config = ConfigDict(title="Select columns")
    kind: Literal["select"] = "select"
    columns: list[str] = Field(description="Columns to keep, in this order.", min_length=1)

    def build(self) -> Function:
        """The step as a function."""
        return self.select

    def select(self, rows: pa.Table) -> pa.Table:
        """Keep the columns.

        Raises:
            UserCodeBroke: the rows lack a column.
        """
        missing = [name for name in self.columns if name not in rows.column_names]
        if missing:
            have = [name for name in rows.column_names if name != ROW]
            raise UserCodeBroke(f"select: {missing} are not among the columns {have}")
        return rows.select([ROW, *self.columns])
