"""What the sources of tables have in common: a version that is pinned, and its data files."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, Self

import pyarrow as pa
from pydantic import Field, field_validator

from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.kinds import expression
from tasks.kinds.column_types import plain
from tasks.kinds.likest import did_you_mean
from tasks.kinds.sources.fitting import DATA_ERRORS, conformed, data_error, fitted, with_way_out
from tasks.kinds.sources.source import BadRow, Content, Read, Source, pins_of, schema_of
from tasks.kinds.sources.table_reading.batches import together
from tasks.kinds.sources.table_reading.carried import GONE, left_to_do
from tasks.kinds.sources.table_reading.version import TableFiles, TableVersion
from tasks.kinds.sources.wanted_files import WantedFiles
from tasks.kinds.sql_habits import with_python_instead
from tasks.protocol.object_stat import Info, Stat
from tasks.protocol.plan_file import Shard
from tasks.protocol.stat_columns import Stats
from tasks.protocol.storage import FsspecStorage, open_storage


class TableSource(Source):
    """Rows of a table at one version.

    A data file is what a file is elsewhere: new ones are new inputs, and one from which rows were
    deleted is predicted again, alone. The output follows the table: rows of files that have left it
    leave the output with the next run. A compaction, which only moves rows, changes nothing as long
    as the table's history still shows it; otherwise its files are predicted again.
    """

    path: str = Field(
        title="Table",
        min_length=1,
        description="The table's folder; local or an object store's URL, as in s3://lake/orders.",
    )
    columns: list[str] | None = Field(
        default=None, description="Read only these columns. Empty: all."
    )
    filter: str | None = Field(
        default=None,
        min_length=1,
        description="Read only rows for which this is true, as in: day >= date('2026-01-31') and "
        "label is not None. Written as in the step filter, but without its calculations: columns "
        "can only be compared. Whole files and parts of files that cannot hold such rows are not "
        "read at all.",
    )
    as_of: datetime | None = Field(
        default=None,
        description="Read the table as it was at this time, in UTC unless it names a zone.",
    )

    suffixes: ClassVar[tuple[str, ...]] = ()
    holds: ClassVar[str] = "table with rows"

    @field_validator("exclude")
    @classmethod
    def _nothing_excluded(cls, exclude: list[str]) -> list[str]:
        if exclude:
            raise ValueError("is for files: for a table, leave rows out with filter")
        return exclude

    @property
    def url(self) -> str:
        """What the table is known by to those who write and read it."""
        storage, path = open_storage(self.path, self.storage_options)
        return str(storage.filesystem.unstrip_protocol(path))

    @property
    def cut(self) -> Any:
        """A filter decides which rows a file gives; the version does not, it is what changes."""
        return self.filter

    def open(self) -> TableVersion:
        """The version that is asked for; the newest where none is.

        Raises:
            FileNotFoundError: there is no table.
            InvalidSpec: it has no such version, or not any more.
            ConnectionError: the storage does not answer.
        """
        raise NotImplementedError

    def as_planned(self, pins: dict[str, Any]) -> Self:
        """The source at the version that a plan has pinned."""
        if not pins:
            return self
        return self.model_copy(update={**self.pinned_fields(pins), "as_of": None})

    def retyped(self, pins: dict[str, Any]) -> dict[str, Any]:
        """See Source; where the version was cleaned up, what is left of it is in that of now."""
        for source in (self.as_planned(pins), self):
            with suppress(InvalidSpec, FileNotFoundError):
                version = source.open()
                _ = version.files()
                return {**pins, **version.pins}
        return pins

    def pinned_fields(self, pins: dict[str, Any]) -> dict[str, Any]:
        """What names the version in fields of the spec."""
        return {"version": pins["version"]}

    def opened(self, url: str) -> tuple[FsspecStorage, str]:
        """The version as a storage, and the table in it."""
        return FsspecStorage(TableFiles(self)), self.path

    def found(
        self, storage: FsspecStorage, path: str, wanted: WantedFiles | None = None
    ) -> Iterator[Info]:
        """Infos of all data files, whatever their names; none where there is no table."""
        if is_there(storage):
            yield from storage.find(path)

    def left(self, storage: FsspecStorage, inputs: Stats, published: pa.Table) -> Stats:
        """What is not published as it is, and what is published and no longer there.

        Where there is no table, nothing says that its rows are to leave the output.
        """
        if not is_there(storage):
            return inputs
        columns = (published[name].to_pylist() for name in ("path", "identity"))
        known: set[Content] = set(zip(*columns, strict=True))
        return Stats.of(left_to_do(inputs, known, storage.filesystem.version))

    def check(self) -> None:
        """See that the filter can be read.

        Raises:
            InvalidSpec: it cannot.
        """
        _ = self.condition

    @property
    def condition(self) -> Any:
        """The filter as it is read without a look at the table.

        Raises:
            InvalidSpec: it cannot be read.
        """
        return self.condition_over(None)

    @property
    def columns_of_filter(self) -> frozenset[str]:
        """Those that the filter names, whether or not the table has them."""
        return frozenset(expression.parse(self.filter)[1] if self.filter else ())

    def condition_over(self, schema: pa.Schema | None) -> Any:
        """The filter as Arrow takes it, over columns of these types.

        Raises:
            InvalidSpec: it cannot be read.
        """
        if self.filter is None:
            return None
        try:
            found = expression.parse(self.filter, schema)[0]
            if not expression.computes(self.filter):
                return found
            # A row of which it cannot be computed, as in a division by zero, would end its file.
            raise ValueError(
                "a table's filter can only compare columns: calculate in a filter step"
            )
        except ValueError as error:
            problem = with_python_instead(self.filter, str(error))
            raise InvalidSpec.at("source.filter", self.filter, problem) from error

    def gone(self, field: str, error: Exception) -> InvalidSpec:
        """What to say of a version that cannot be opened."""
        given = getattr(self, field)
        return InvalidSpec.at(
            f"source.{field}",
            given,
            f"is not a version of {self.path}, or was cleaned up ({error}): use one that exists; "
            "--restart starts a run planned on it over",
        )

    def pin(self, storage: FsspecStorage, inputs: Sequence[Stat]) -> dict[str, Any]:
        """The version, and the names and types of its columns; nothing of a table that is not."""
        if not is_there(storage):
            return {}
        version: TableVersion = storage.filesystem.version
        names = list(dict.fromkeys(self.columns or version.schema.names))
        schema = pa.schema([(name, plain(version.schema.field(name).type)) for name in names])
        return {**pins_of(schema), **version.pins}

    def check_columns(self, schema: pa.Schema) -> None:
        """See that the table has the columns that the spec names.

        Raises:
            InvalidSpec: it has not, or they cannot be compared with what the filter says.
        """
        known = f"the columns of the table: {', '.join(schema.names)}"
        if missing := [name for name in self.columns or [] if name not in schema.names]:
            problem = f"is not among {known}{did_you_mean(missing[0], schema.names)}"
            raise InvalidSpec.at("source.columns", missing, problem)
        if self.filter is None:
            return
        condition, names = self.condition_over(schema), self.columns_of_filter
        if missing := sorted(names - set(schema.names)):
            raise InvalidSpec.at("source.filter", self.filter, f"uses {missing}, not among {known}")
        row = pa.table({name: pa.nulls(1, schema.field(name).type) for name in names})
        try:
            row.filter(condition)  # of no row Arrow would compute nothing, and see no time zones
        except (pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowInvalid) as error:
            raise InvalidSpec.at(
                "source.filter", self.filter, f"does not fit the table: {error}"
            ) from error

    def split(self, storage: FsspecStorage, stat: Stat) -> list[Shard]:
        """A data file is a shard; one that has left the table has no rows."""
        rows = self.count_rows(storage, stat)
        return [Shard(0, stat.path, stat.identity, stat.size, rows=rows)]

    def count_rows(self, storage: FsspecStorage, stat: Stat) -> int | None:
        """Rows of a data file, where the table tells and none is filtered out."""
        if stat.identity == GONE:
            return 0
        rows: int | None = storage.filesystem.info(stat.path)["rows"]
        return rows

    def read(self, storage: FsspecStorage, shard: Shard, pins: dict[str, Any]) -> Iterator[Read]:
        """Yield a data file's rows; what is damaged of them are bad rows.

        Raises:
            InvalidSpec: the file is gone, or does not hold the rows that the table says.
        """
        schema = schema_of(pins["schema"])
        fit, count = partial(fitted, schema), 0
        try:
            for rows in together(storage.filesystem.version.read(shard.path, schema.names)):
                yield from conformed(rows, fit)
                count += len(rows)
        except FileNotFoundError as error:
            problem = f"has lost {shard.path}, which is in the planned version: it was "
            way_out = "cleaned up; --restart plans again, on the newest version"
            raise InvalidSpec.at("source.path", self.path, problem + way_out) from error
        except DATA_ERRORS as error:
            rest = BadRow(with_way_out(data_error(error)), is_rest=shard.rows is None)
            yield from [rest] * (1 if shard.rows is None else shard.rows - count)
            return
        if shard.rows is not None and count < shard.rows:
            problem = f"says that {shard.path} has {counted(shard.rows, 'row')}, but it has {count}"
            raise InvalidSpec.at("source.path", self.path, problem)


def is_there(storage: FsspecStorage) -> bool:
    """Whether there is a table; of one that is there, a file that is gone is no such thing."""
    try:
        _ = storage.filesystem.version
    except FileNotFoundError:
        return False
    return True
