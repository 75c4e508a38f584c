"""Keeps some columns, or drops some."""

from collections import Counter
from typing import Literal, Self

import pyarrow as pa
from pydantic import ConfigDict, Field, model_validator

from tasks.errors import UserCodeBroke
from tasks.kinds.columns import visible
from tasks.kinds.steps.step import Function, Step
from tasks.protocol.batch import ROW


class SelectStep(Step):
    """Keeps the named columns and drops the others, or the other way round."""

    model_config = ConfigDict(title="Select")
    kind: Literal["select"] = "select"
    columns: list[str] = Field(description="Columns to keep, in this order.", min_length=1)
    drop: bool = Field(
        default=False, description="Drop the named columns instead, and keep the others."
    )

    @model_validator(mode="after")
    def _keeps_each_once(self) -> Self:
        twice = [name for name, times in Counter(self.columns).items() if times > 1]
        if twice and not self.drop:
            raise ValueError(f"columns lists {twice[0]!r} twice")
        return self

    @property
    def reads(self) -> dict[str, list[str]]:
        """The columns it keeps or drops."""
        return {"columns": self.columns}

    def build(self) -> Function:
        """The step as a function."""
        return self.select

    def select(self, rows: pa.Table) -> pa.Table:
        """Keep the columns, or the others.

        Raises:
            UserCodeBroke: the rows lack a column.
        """
        have, named = visible(rows), {*self.columns}
        if not named.issubset(have):
            missing = [name for name in self.columns if name not in have]
            raise UserCodeBroke(f"select: {missing} are not among the columns {have}")
        if self.drop:
            names = rows.column_names  # Arrow would drop one after the other
            return rows.select([at for at, name in enumerate(names) if name not in named])
        return rows.select([ROW, *self.columns])
