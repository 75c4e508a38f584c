"""What every sink does: turn rows into files, and take rows out of a file it wrote."""

from collections.abc import Callable, Iterator
from typing import IO, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pydantic import Field, field_validator

from tasks.errors import InvalidSpec
from tasks.kinds.column_types import NO_VALUE, as_text, has_no_value, has_null
from tasks.kinds.filesystem_options import StorageOptions
from tasks.kinds.hive import NULL_FOLDER, hive_folder
from tasks.kinds.kind import Kind
from tasks.kinds.output_types import SCALARS, OutputType, with_given
from tasks.kinds.placeholders import check_placeholders
from tasks.kinds.tables.types import check_folder_types
from tasks.protocol.ids import Ids
from tasks.protocol.records import Part
from tasks.protocol.table import Table
from tasks.protocol.urls import as_folder, is_path

Mask = npt.NDArray[np.bool_]
HIDDEN = ("_", ".")
"""How names begin that readers of a folder pass over."""
MAX_PARTITIONS_PER_WRITE = 1_000
MAX_NAME_BYTES = 255
"""Of a folder's name, on the disks of Linux and macOS."""
MAX_PATH_BYTES = 900
"""Of S3's 1,024 for a key, which ends with the name of a file."""


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
        description="Folder of the published rows; local or a URL. Its path is what identifies "
        "the output; state lies beside it, under its name and .state. {scheduled:%Y-%m-%d} "
        "stands for the scheduled time.",
    )
    storage_options: StorageOptions = Field(
        default={},
        description="Options of the filesystem, such as endpoint_url. Never secrets.",
    )
    keep_columns: list[str] | None = Field(
        default=None,
        description="Input columns to keep beside the predictions, none where the list is empty; "
        "where left out, all but media.",
    )
    partition_by: list[str] = Field(
        default=[],
        description="Columns that become folders, as in day=2026-01-31/. Each write makes a file "
        "in every folder that it has rows of: with many folders, name rows_per_file, as many as "
        "there are folders times the rows that a file should have. A Lance dataset has none.",
    )
    rows_per_file: int | None = Field(
        default=None,
        ge=1,
        description="At least this many rows in a file, where a write has that many at hand; with "
        "partition_by in all the files of a write. Larger files mean more work to repeat after a "
        "crash.",
    )
    types: dict[str, OutputType] = Field(
        default={},
        description="Types of columns of the output, as {score: float64, tags: list<string>}: of "
        "others they are those of the first rows. A value that would not stay what it is ends the "
        "run. One of " + ", ".join(SCALARS) + ", or list<...> of one.",
    )
    mode: Literal["append", "replace"] = Field(
        default="append",
        description="append adds new inputs' rows; replace makes every run a complete version.",
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
        hidden = [name for name in names if name.startswith(HIDDEN)]
        if hidden and cls.is_found_by_listing:
            raise ValueError(
                f"{hidden[0]!r} would make folders that readers such as pandas, Spark and pyarrow "
                "pass over: give the column a name without _ or . in front, by a step rename"
            )
        return names

    def encode(self, rows: pa.Table) -> bytes:
        """Rows as a file's content."""
        raise NotImplementedError

    def decode(self, data: bytes) -> pa.Table:
        """Rows of a file that `encode` made."""
        raise NotImplementedError

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
        parts = partitioned(rows, ids, self.partition_by, self.encode, self.suffix, rest)
        for part in parts:
            refuse_long(self.path, part.partition)
        return parts


def published_field(column: pa.Field) -> pa.Field:
    """A column in the output; of categories its values, since other batches have other ones."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    is_untyped = has_null(kind) or has_no_value(column)
    return pa.field(column.name, as_text(kind), metadata=NO_VALUE if is_untyped else None)


def partitioned(
    rows: pa.Table,
    ids: Ids,
    by: list[str],
    encode: Callable[[pa.Table], bytes],
    suffix: str,
    inside: pa.Table | None,
) -> list[Part]:
    """One part for each combination of the partition columns' values.

    Args:
        rows: of all partitions.
        ids: of the rows.
        by: the partition columns.
        encode: makes a file of rows.
        suffix: of the files' names.
        inside: what the files hold of the rows; all columns but the partitions' where None.

    Raises:
        InvalidSpec: a column is not there, or has too many values.
    """
    field = "sink.partition_by"
    missing = [name for name in by if name not in rows.column_names]
    if missing:
        problem = f"are not among {rows.column_names}; add them to sink.keep_columns, or drop them"
        raise InvalidSpec.at(field, missing, problem)
    groups = group_rows(rows.select(by))
    if len(groups) > MAX_PARTITIONS_PER_WRITE:
        problem = f"makes {len(groups)} folders of {len(rows)} rows: name columns of fewer values"
        raise InvalidSpec.at(field, by, problem)
    if any(NULL_FOLDER in values for values, _ in groups):
        problem = f"has the text {NULL_FOLDER}, which as a folder stands for no value at all"
        raise InvalidSpec.at(field, by, f"{problem}: write another word in a step")
    rest = rows.drop_columns(by) if inside is None else inside
    if not rest.num_columns:  # such a file has no rows either
        problem = "leaves no column for the files: keep another one, as by sink.keep_columns"
        raise InvalidSpec.at(field, by, problem)
    # Taken at once: each time, Arrow would make one chunk of a column's many.
    rest = rest.take(pa.array(np.concatenate([at for _, at in groups]))) if groups else rest
    starts = np.cumsum([0, *(len(at) for _, at in groups)]).tolist()
    return [
        Part(
            encode(rest.slice(start, len(at))),
            suffix,
            ids[at],
            "".join(map(hive_folder, by, values)),
        )
        for start, (values, at) in zip(starts, groups, strict=False)
    ]


def refuse_long(output: str, partition: str) -> None:
    """Refuse folders that nothing can be moved into once the run is published.

    Raises:
        InvalidSpec: a name is longer than disks take, or a path than object stores do.
    """
    if is_path(output):
        length, limit = max(map(len, partition.encode().split(b"/"))), MAX_NAME_BYTES
    else:
        length, limit = len(f"{output}/{partition}".encode()), MAX_PATH_BYTES
    if length > limit:
        problem = (
            f"makes {length} bytes of a name that may have {limit}: name columns of short values"
        )
        raise InvalidSpec.at("sink.partition_by", f"{partition[:60]}...", problem)


def group_rows(keys: pa.Table) -> list[tuple[list[object], npt.NDArray[np.int64]]]:
    """Each combination of values with the rows that have it, in order; each row is in one group.

    To look for rows equal to a value would find none for NaN, and -0.0 twice.
    """
    codes = np.zeros(len(keys), dtype=np.int64)
    for column in keys.columns:
        number = int(codes.max(initial=0)) + 1
        codes = codes_of(pa.chunked_array([codes_of(column) * number + codes]))
    few = len(codes) and codes.max() <= np.iinfo(np.uint16).max  # which NumPy sorts by counting
    order = np.argsort(codes.astype(np.uint16) if few else codes, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if len(order) else []
    firsts = keys.take(pa.array([rows[0] for rows in groups], pa.int64()))
    values = zip(*(column.to_pylist() for column in firsts.columns), strict=True)
    return [([*each], rows) for each, rows in zip(values, groups, strict=True)]


def codes_of(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """Each value as a number, from 0 on as they first appear."""
    if pa.types.is_dictionary(column.type):  # each chunk may have one of its own, with nulls
        column = column.cast(column.type.value_type)
    encoded = column.dictionary_encode(null_encoding="encode")
    return np.concatenate([np.zeros(0, np.int64), *(each.indices for each in encoded.chunks)])
