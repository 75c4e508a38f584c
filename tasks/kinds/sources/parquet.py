"""Rows from Parquet files, of the columns and types of the first; big ones are cut into groups."""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import chain, repeat
from typing import IO, Any, ClassVar, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import ConfigDict, Field, model_validator

from tasks.errors import InvalidSpec
from tasks.kinds.likest import did_you_mean
from tasks.kinds.sources.fitting import (
    DATA_ERRORS,
    conformed,
    data_error,
    fitted,
    misfits,
    with_way_out,
)
from tasks.kinds.sources.folder_columns import (
    beside,
    folder_columns,
    refuse_no_folder,
    without,
)
from tasks.kinds.sources.given_types import CsvType, refuse_unread, with_given
from tasks.kinds.sources.other_columns import tell_of_other_columns
from tasks.kinds.sources.parquet_types import (
    INT96_UNIT,
    other_names,
    schema_in,
    settled,
    several,
    types_of,
)
from tasks.kinds.sources.row_groups import cut_at_groups
from tasks.kinds.sources.source import ROWS_PER_READ, BadRow, Read, Source, pins_of, schema_of
from tasks.kinds.sources.stored_arrays import as_stored
from tasks.kinds.sources.table_reading.batches import rows_per_read, together
from tasks.protocol.asked_at_once import ASKED_AT_ONCE, fetched
from tasks.protocol.object_stat import Stat
from tasks.protocol.plan_file import Shard, shard_table, whole_files
from tasks.protocol.stat_columns import Stats
from tasks.protocol.storage import FsspecStorage

MIB = 1 << 20
OTHER_TYPE = "give one type for all files in source.types, or leave it out"
MOST_ROWS = 1 << 32
"""In a file, as row ids have it."""


class DamagedParquet(ValueError):
    """A Parquet file, or a part of it, cannot be read."""


class ParquetSource(Source):
    """Tabular rows from Parquet files."""

    model_config = ConfigDict(title="Parquet")
    kind: Literal["parquet"] = "parquet"
    columns: list[str] | None = Field(
        default=None,
        description="Read only these columns, of the files and of `partition_columns`. Empty: "
        "those of the first file and all folders, for a sink with evolve_schema also those of "
        "later files; a file that lacks one gives null.",
    )
    partition_columns: dict[str, CsvType] = Field(
        default={},
        description="Columns made of folders, with their types, as in class: string for files in "
        "class=cat/ and class=dog/. Rows of a file in no such folder are set aside.",
    )
    types: dict[str, CsvType] = Field(
        default={},
        description="Types of columns, in place of those of the first file, as in price: float64 "
        "if later files have fractions. If `columns` is empty, also of columns that only later "
        "files have, which otherwise are not read; they are null where a file lacks them. A row "
        "whose value does not fit is set aside. Published columns keep their types until a run "
        "with --replace-output.",
    )
    split_above_mib: float = Field(
        default=128,
        gt=0,
        description="Files larger than this many MiB are split at their row groups, for several "
        "workers.",
    )
    verify_checksums: bool = Field(
        default=True,
        description="Compare checksums of pages, if files have them, with what is read; if one "
        "differs, the rest of the rows of its row group is set aside.",
    )
    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")

    @model_validator(mode="after")
    def _some_columns_are_in_the_files(self) -> Self:
        if self.columns and not self.columns_inside:
            raise ValueError("columns lists only folders: add a column of the files")
        return self

    def pin(
        self, storage: FsspecStorage, inputs: Sequence[Stat], *, grows: bool = False
    ) -> dict[str, Any]:
        """Take names and types from the first file; later ones say what a column of nulls holds.

        Args:
            storage: where the files lie.
            inputs: the files.
            grows: whether later ones bring columns, where `columns` is empty.

        Raises:
            InvalidSpec: one of `columns` is not in the first file, or a folder's column is; one of
                `types` is not read, or is a column's but for case; a column that is read is there
                twice; or no file lies in a folder of a folder's column.
        """
        refuse_no_folder(inputs, self.folder_types)
        refuse_unread(self.types, self.columns)
        types, first = types_of(storage, inputs, self.types, grows=grows and not self.columns)
        self.refuse_twice([*first, *self.types])
        wanted = self.columns_inside
        missing = [name for name in wanted if first and name not in first]
        if missing:
            known = f"the columns of the first file: {', '.join(first)}"
            problem = f"is not among {known}{did_you_mean(missing[0], first)}"
            raise InvalidSpec.at("source.columns", missing, problem)
        if not types:
            return {"schema": None}
        if both := sorted(several(first) & {*(wanted or types)}):
            problem = "occurs more than once in the first file: rename one, or list other columns"
            raise InvalidSpec.at("source.columns", both, problem)
        fields = [pa.field(name, types[name]) for name in dict.fromkeys(wanted or types)]
        return pins_of(with_given(pa.schema(fields), self.folder_types))

    def pin_for_growth(
        self, storage: FsspecStorage, inputs: Sequence[Stat], needed: Collection[str]
    ) -> dict[str, Any]:
        """See Source; not all files are asked where there are many."""
        return self.pin(storage, inputs, grows=True)

    def retyped(self, pins: dict[str, Any]) -> dict[str, Any]:
        """See Source; a column that was not read then is left to the next run."""
        if pins.get("schema") is None:
            return pins
        found = schema_of(pins["schema"])
        return pins_of(with_given(found, {n: t for n, t in self.types.items() if n in found.names}))

    @property
    def columns_inside(self) -> list[str]:
        """Those of `columns` that are in the files; none where all are read."""
        return [name for name in self.columns or [] if name not in self.partition_columns]

    @property
    def folder_types(self) -> dict[str, CsvType]:
        """Those of the folders' columns that are read, with their types."""
        given = self.partition_columns.items()
        return {name: kind for name, kind in given if name in (self.columns or [name])}

    def refuse_twice(self, names: Collection[str]) -> None:
        """See that no column is in the files and a folder's as well.

        Raises:
            InvalidSpec: one is.
        """
        both = [name for name in self.partition_columns if name in names]
        if both:
            problem = "is also a column of the files: leave it out here"
            raise InvalidSpec.at("source.partition_columns", both, problem)

    def shards(self, storage: FsspecStorage, inputs: Stats) -> pa.Table:
        """See Source; big files are looked at side by side, as each takes a store's answers."""
        table = inputs.table
        big = Stats(table.filter(pc.greater(table["size"], self.split_above_mib * MIB)))
        if not big:
            return whole_files(table, rows=None)
        found = fetched(partial(self.split, storage), big, ASKED_AT_ONCE)
        cut = {stat.path: shards for stat, shards in zip(big, found, strict=True)}
        whole = (
            cut[each.path] if each.path in cut else self.split(storage, each) for each in inputs
        )
        return shard_table(chain.from_iterable(whole))

    def split(self, storage: FsspecStorage, stat: Stat) -> list[Shard]:
        """A small file is one shard; a big one is cut at row groups, whose lengths are known."""
        most_bytes = self.split_above_mib * MIB
        if stat.size <= most_bytes:
            return super().split(storage, stat)
        with storage.open(stat.path) as opened:
            try:
                cut = cut_at_groups(stat, parquet_file(opened).metadata, most_bytes)
            except DATA_ERRORS as error:
                data_error(error)
                return super().split(storage, stat)  # reading it says what is wrong
        return cut or super().split(storage, stat)  # without groups it has no row: that is recorded

    def count_rows(self, storage: FsspecStorage, stat: Stat) -> int | None:
        """Rows of a file, from its footer; one where there is none, since that is a bad row."""
        with storage.open(stat.path) as opened:
            try:
                return int(parquet_file(opened).metadata.num_rows)
            except DATA_ERRORS as error:
                data_error(error)
                return 1

    def read(self, storage: FsspecStorage, shard: Shard, pins: dict[str, Any]) -> Iterator[Read]:
        """Yield the rows; a file that is not Parquet is one bad row, a damaged group its rows."""
        with storage.open(shard.path) as opened:
            try:
                file = parquet_file(opened, verify_checksums=self.verify_checksums)
            except DATA_ERRORS as error:
                rest = BadRow(damaged(error), is_rest=shard.rows in (None, 1))
                yield from repeat(rest, 1 if shard.rows is None else shard.rows)
                return
            pinned = pinned_schema(pins)
            try:
                folders = folder_columns(shard.path, self.folder_types)
            except ValueError as error:
                rows = file.metadata.num_rows if shard.rows is None else shard.rows
                yield from repeat(BadRow(error), rows)
                return
            own = settled(schema_in(file))
            schema = own if pinned is None else without(pinned, folders)
            if not self.columns and not other_names(own.names, schema.names, self.columns_inside):
                tell_of_other_columns(shard.path, own, schema)
            stop = file.num_row_groups if shard.stop is None else shard.stop
            for group in range(shard.start or 0, stop):
                for read in read_group(file, group, schema, self.columns_inside):
                    yield read if isinstance(read, BadRow) else beside(read, folders)


def parquet_file(opened: IO[bytes], *, verify_checksums: bool = True) -> pq.ParquetFile:
    """A file of which the footer can be read.

    Args:
        opened: its content.
        verify_checksums: whether pages that are read are compared with theirs.

    Raises:
        pyarrow.ArrowInvalid: it says that it has more rows than anybody counts, or fewer than none.
        OSError: it cannot be read, or storage failed.
    """
    with as_stored():
        file = pq.ParquetFile(
            opened,
            pre_buffer=True,
            coerce_int96_timestamp_unit=INT96_UNIT,
            page_checksum_verification=verify_checksums,
        )
    counts = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
    if min(counts, default=0) < 0 or sum(counts) > MOST_ROWS:
        raise pa.ArrowInvalid(f"its footer says it has {sum(counts):,} rows")
    return file


def damaged(error: Exception) -> DamagedParquet:
    """What Arrow says of a file's bytes, in a sentence; raises the error where storage failed."""
    said = " ".join(str(with_way_out(data_error(error))).split())
    if isinstance(error, UnicodeDecodeError):
        said = "a name in it is not UTF-8"
    return DamagedParquet(f"the file is damaged, or not a Parquet file: {said}")


def pinned_schema(pins: dict[str, Any]) -> pa.Schema | None:
    """The names and types to read; None where no file told them."""
    held = pins.get("schema")
    if held is None:
        return None
    return settled(schema_of(held))


def read_group(
    file: pq.ParquetFile, group: int, schema: pa.Schema, demanded: list[str]
) -> Iterator[Read]:
    """One row group's rows; those that cannot be read are bad rows, each of them."""
    names = schema_in(file).names
    have = set(names)
    left = file.metadata.row_group(group).num_rows
    if problem := other_names(names, schema.names, demanded):
        yield from repeat(BadRow(ValueError(f"the file has {problem}")), left)
        return
    fit, suspects = (partial(each, schema, way_out=OTHER_TYPE) for each in (fitted, misfits))
    names = [name for name in schema.names if name in have]
    most, done = rows_per_read(file.metadata.row_group(group), set(names)), 0
    # Of many rows that are read at once all would go for one that is damaged: few are, after that.
    for size in (most, ROWS_PER_READ) if most > ROWS_PER_READ else (most,):
        at = 0
        try:
            # Few rows are decoded in less time than threads take.
            batches = file.iter_batches(size, [group], names, use_threads=size > ROWS_PER_READ)
            for rows in together(batches):
                if at + len(rows) > done:
                    yield from conformed(rows.slice(max(0, done - at)), fit, suspects)
                at += len(rows)
                done = max(done, at)
        except DATA_ERRORS as error:
            damage = damaged(error)
        else:
            return
    yield from repeat(BadRow(damage), left - done)
