"""What every sink does: turn rows into files, and take rows out of a file it wrote."""

from collections.abc import Iterator
from typing import IO, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field, field_validator

from tasks.kinds.column_types import NO_VALUE, as_text, has_no_value, has_null
from tasks.kinds.filesystem_options import StorageOptions
from tasks.kinds.kind import Kind
from tasks.kinds.output_types import SCALARS, OutputType, with_given
from tasks.kinds.placeholders import check_placeholders
from tasks.kinds.sinks.partitions import most_folders, partitioned, refuse_long
from tasks.kinds.tables.types import check_folder_types
from tasks.protocol.ids import Ids
from tasks.protocol.records import Part
from tasks.protocol.table import Table
from tasks.protocol.urls import as_folder

Mask = npt.NDArray[np.bool_]
HIDDEN = ("_", ".")
"""How names begin that readers of a folder pass over."""


class Sink(Kind):
    """Where rows go."""

    not_in_identity: ClassVar[frozenset[str]] = frozenset(
        {"path", "storage_options", "rows_per_file"}
    )
    keeps_partition_columns: ClassVar[bool] = False
    """Whether the columns that became folders stay in the files too."""
    is_found_by_listing: ClassVar[bool] = True
    """Whether readers find its files by looking into folders, and not in a table's log."""

    path: str = Field(
        title="Output folder",
        min_length=1,
        description="Folder of the published rows; local or a URL. Its path identifies the output; "
        "its state is beside it, under its name with .state. {scheduled:%Y-%m-%d} stands for the "
        "scheduled time.",
    )
    storage_options: StorageOptions = Field(
        default={},
        description="Options of the filesystem, such as endpoint_url. Never secrets.",
    )
    keep_columns: list[str] | None = Field(
        default=None,
        description="Input columns to publish beside the predictions; an empty list keeps none. "
        "Left out: all except media.",
    )
    partition_by: list[str] = Field(
        default=[],
        description="Columns that become folders, as in day=2026-01-31/. Each write makes a file "
        "in every folder that it has rows for: if there are many folders, set rows_per_file to "
        "their number times the rows that a file should have. Not for Lance datasets.",
    )
    rows_per_file: int | None = Field(
        default=None,
        ge=1,
        description="Fewest rows in a file, if a write has that many at hand; with partition_by, "
        "in all files of a write together. Larger files mean more work to repeat after a crash.",
    )
    types: dict[str, OutputType] = Field(
        default={},
        description="Types of output columns, as in {score: float64, tags: list<string>}; other "
        "columns have those of the first rows. A value that its type would change ends the run. "
        "One of " + ", ".join(SCALARS) + ", or list<...> of one.",
    )
    mode: Literal["append", "replace"] = Field(
        default="append",
        description="append adds the rows of new inputs; replace makes every run a complete "
        "version.",
    )

    @property
    def suffix(self) -> str:
        """End of a file's name, with the dot."""
        raise NotImplementedError

    def check(self) -> None:
        """See that rows can go there, without writing anything.

        Raises:
            InvalidSpec: names the field, what was given, and the way out.
        """

    def as_table(self) -> Table | None:
        """The table that the published files are the data files of; None where they are none's."""
        return None

    @property
    def reads(self) -> dict[str, list[str]]:
        """Columns that must be published, by the field of the spec that names them."""
        return {"partition_by": self.partition_by, "types": [*self.types]}

    @property
    def takes_new_columns(self) -> bool:
        """Whether rows may have columns that those published before have not."""
        return False

    @property
    def row_key(self) -> list[str]:
        """Columns that name a row, where rows replace published ones of the same name."""
        return []

    @property
    def newest(self) -> str | None:
        """Column that tells which of a run's rows of one name is published."""
        return None

    def as_files(self) -> "Sink":
        """What writes the same rows as files only, as a preview does: no table is touched."""
        return self

    def moved_to(self, path: str, storage_options: dict[str, Any]) -> Self:
        """The same sink in another place, with nothing left of the place it was made for."""
        return self.model_copy(update={"path": path, "storage_options": storage_options})

    def schema_for(self, rows: pa.Schema) -> pa.Schema:
        """The run's output schema, of the first rows it writes.

        Raises:
            InvalidSpec: what lies there does not take such rows, or `types` names none of theirs.
            SchemaMismatch: the sink has no form for a column.
        """
        return pa.schema([published_field(each) for each in with_given(rows, self.types)])

    @field_validator("path")
    @classmethod
    def _as_folder(cls, path: str) -> str:
        return check_placeholders(as_folder(path))

    @field_validator("partition_by")
    @classmethod
    def _readers_look_into_folders(cls, names: list[str]) -> list[str]:
        for name in names if cls.is_found_by_listing else ():
            if name.startswith(HIDDEN):
                raise ValueError(
                    f"{name!r} would make folders that readers such as pandas, Spark and pyarrow "
                    "skip: rename the column in a rename step, without a leading _ or ."
                )
            if "=" in name:
                raise ValueError(
                    f"{name!r} would make folders whose names readers split at the first =, so "
                    "that the column is lost: rename it in a rename step, without ="
                )
        return names

    def encode(self, rows: pa.Table) -> bytes:
        """Rows as a file's content."""
        raise NotImplementedError

    def decode(self, data: bytes) -> pa.Table:
        """Rows of a file that `encode` made."""
        raise NotImplementedError

    def first_rows(self, data: bytes, num_rows: int) -> pa.Table:
        """The same of so many rows at most."""
        return self.decode(data).slice(0, num_rows)

    def select(self, data: bytes, names: list[str], schema: pa.Schema) -> pa.Table:
        """Some columns of a file that `encode` made of rows with this schema."""
        return self.decode(data).select(names)

    def pieces(
        self, file: IO[bytes], names: list[str], schema: pa.Schema, num_rows: int
    ) -> Iterator[pa.Table]:
        """Some columns of such a file, so many rows at a time where the format allows it."""
        yield self.select(file.read(), names, schema)

    def drop_rows(self, data: bytes, keep: Mask) -> bytes:
        """A file's content without some of its rows."""
        return self.encode(self.decode(data).filter(pa.array(keep)))

    def parts(self, rows: pa.Table, ids: Ids) -> list[Part]:
        """Rows as files to stage, one for each partition.

        Raises:
            InvalidSpec: a partition column is missing, cannot be folders, or has too many values
                or too long ones.
        """
        if not self.partition_by:
            return [Part(self.encode(rows), self.suffix, ids)] if len(rows) else []
        check_folder_types(rows.schema, self.partition_by)
        rest = rows if self.keeps_partition_columns else None
        most = most_folders(self.rows_per_file)
        parts = partitioned(rows, ids, self.partition_by, self.encode, self.suffix, rest, most)
        for part in parts:
            refuse_long(self.path, part.partition)
        return parts


def published_field(column: pa.Field) -> pa.Field:
    """A column in the output; of categories its values, since other batches have other ones."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_untyped = has_null(kind) or has_no_value(column)
    return pa.field(column.name, as_text(kind), metadata=NO_VALUE if is_untyped else None)
