"""Gives columns other names."""

from collections import Counter
from typing import Literal

import pyarrow as pa
from pydantic import ConfigDict, Field, field_validator

from tasks.errors import UserCodeBroke
from tasks.kinds.columns import visible
from tasks.kinds.steps.step import Function, Step
from tasks.protocol.batch import RESERVED


class RenameStep(Step):
    """Renames columns; the others stay as they are."""

    model_config = ConfigDict(title="Rename")
    kind: Literal["rename"] = "rename"
    columns: dict[str, str] = Field(min_length=1, description="New names by old names.")

    @field_validator("columns")
    @classmethod
    def _sensible(cls, columns: dict[str, str]) -> dict[str, str]:
        if len(set(columns.values())) < len(columns):
            raise ValueError("two columns would have the same name")
        if "" in columns.values():
            raise ValueError("a new name is empty")
        if any(name.startswith(RESERVED) for pair in columns.items() for name in pair):
            raise ValueError("names that start with __ are reserved")
        return columns

    @property
    def reads(self) -> dict[str, list[str]]:
        """The old names."""
        return {"columns": list(self.columns)}

    def schema_after(self, schema: pa.Schema) -> pa.Schema:
        """The new names among the others; one that is taken is there twice."""
        return pa.schema([each.with_name(self.new_name(each.name)) for each in schema])

    def new_name(self, name: str) -> str:
        """What a column is called afterwards."""
        return self.columns.get(name, name)

    def build(self) -> Function:
        """The step as a function."""
        return self.rename

    def rename(self, rows: pa.Table) -> pa.Table:
        """Rename the columns.

        Raises:
            UserCodeBroke: a column is missing, or a new name is taken.
        """
        have = visible(rows)
        there = {*have}
        missing = [old for old in self.columns if old not in there]
        names = [self.new_name(name) for name in rows.column_names]
        twice = [name for name, times in Counter(names).items() if times > 1]
        if missing or twice:
            raise UserCodeBroke(
                f"rename: {missing} are not among the columns {have}"
                if missing
                else f"rename: there would be two columns named {sorted(twice)}"
            )
        return rows.rename_columns(names)
