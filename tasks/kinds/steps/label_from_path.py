"""The label that a folder's name gives."""

from typing import Literal

import pyarrow as pa
from pydantic import ConfigDict, Field

from tasks.counted import counted
from tasks.errors import InvalidSpec, UserCodeBroke
from tasks.kinds.column_types import as_text, is_text
from tasks.kinds.columns import with_column
from tasks.kinds.steps.step import NEW_COLUMN, Function, Step
from tasks.protocol.urls import is_web

PATH = "path"


class LabelFromPathStep(Step):
    """Adds a column with one part of each file's path."""

    model_config = ConfigDict(title="Label from path")
    kind: Literal["label_from_path"] = "label_from_path"
    level: int = Field(
        default=-2,
        description="Which part of the path: -1 is the file's name, -2 its folder, and so on. For "
        "a link this is the path of its target, as in the cache of Hugging Face's Hub.",
    )
    names: dict[str, str] = Field(
        default={},
        description="New names for some labels, as in {n01440764: tench}; others stay as they are.",
    )
    column: str = Field(default="label", pattern=NEW_COLUMN, description="Name of the new column.")

    @property
    def reads(self) -> dict[str, list[str]]:
        """The path, which no field names."""
        return {"kind": [PATH]}

    def build(self) -> Function:
        """The step as a function."""
        return self.label

    def label(self, rows: pa.Table) -> pa.Table:
        """Add the column.

        Raises:
            UserCodeBroke: the rows have no path.
            InvalidSpec: what they have is no text.
            ValueError: a row's path is empty, or has no such part.
        """
        if PATH not in rows.column_names:
            raise UserCodeBroke(
                "label_from_path needs the column 'path', which images, audio, video and binary "
                "have"
            )
        if not is_text(as_text(rows[PATH].type)):
            problem = f"is {rows[PATH].type}, not text"
            raise InvalidSpec.at(f"steps.{self.kind}", PATH, problem)
        if rows[PATH].null_count:
            raise ValueError(f"column {PATH!r} is empty in this row")
        labels = pa.array([self.part(path) for path in rows[PATH].to_pylist()], pa.string())
        return with_column(rows, self.column, labels)

    def parts(self, path: str) -> list[str]:
        """All parts of a path; what follows a web file's path is none of it."""
        whole = path.partition("?")[0] if is_web(path) else path
        return whole.rpartition("://")[2].strip("/").split("/")

    def is_among(self, parts: list[str]) -> bool:
        """Whether a path of these parts is deep enough."""
        return -len(parts) <= self.level < len(parts)

    def part(self, path: str) -> str:
        """One part of a path, by its name."""
        parts = self.parts(path)
        if not self.is_among(parts):
            raise ValueError(
                f"{path} has {counted(len(parts), 'part')}, but none at level {self.level}"
            )
        return self.names.get(parts[self.level], parts[self.level])
