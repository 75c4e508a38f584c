"""Rows from CSV files, of the columns that the first file with rows has, or all of them have."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, ClassVar, Literal

import pyarrow as pa
from pydantic import ConfigDict, Field

from tasks.errors import InvalidSpec
from tasks.kinds.likest import did_you_mean
from tasks.kinds.sources.compressed import CODECS
from tasks.kinds.sources.csv_reading.dialect import ColumnTwice
from tasks.kinds.sources.csv_reading.files import BYTES_TO_INFER, CsvFiles
from tasks.kinds.sources.csv_reading.header import refuse_others, without_header
from tasks.kinds.sources.csv_reading.later_files import grown, with_later_values
from tasks.kinds.sources.csv_reading.rows import Parser, may_be_row
from tasks.kinds.sources.files_to_ask import GROWS, spread
from tasks.kinds.sources.given_types import CsvType, refuse_unread, take_for_later, with_given
from tasks.kinds.sources.other_columns import tell_of_other_columns
from tasks.kinds.sources.source import Read, pins_of, schema_of
from tasks.kinds.sources.text import bad_row
from tasks.protocol.object_stat import Stat
from tasks.protocol.plan_file import Shard
from tasks.protocol.storage import FsspecStorage

FILES_TO_ASK = 8
"""Of columns without a value in the first file: some never have one."""
DELIMITERS = (",", ";", "\t", "|")


class CsvSource(CsvFiles):
    """Rows of CSV files."""

    model_config = ConfigDict(title="CSV")
    kind: Literal["csv"] = "csv"
    columns: list[str] | None = Field(
        default=None,
        description="Read only these columns, which all files must have. Empty: all are read, and "
        "files must have those of the first; for a sink with evolve_schema, those of later files "
        "are read too, and a file that lacks one gives null.",
    )
    types: dict[str, CsvType] = Field(
        default={},
        description="Types of columns, in place of those of the first rows, as in zip: string for "
        "codes such as 00501, otherwise read as the number 501. timestamp is written without an "
        "offset or Z, timestamp_utc with one. A row whose value does not fit is set aside. "
        "Published columns keep their types until a run with --replace-output.",
    )
    suffixes: ClassVar[tuple[str, ...]] = tuple(
        f"{name}{codec}" for name in (".csv", ".tsv") for codec in ("", *CODECS)
    )
    reads_on: ClassVar[bool] = True
    guesses_types: ClassVar[bool] = True

    def pin(
        self,
        storage: FsspecStorage,
        inputs: Sequence[Stat],
        *,
        grows: bool = False,
        needed: Collection[str] = (),
    ) -> dict[str, Any]:
        """Infer names and types from the first file with rows; without rows all are strings.

        Args:
            storage: where the files lie.
            inputs: the files.
            grows: whether later ones bring columns, and may lack others.
            needed: those that none of them may lack then.

        Raises:
            InvalidSpec: one of `columns` or `types` is not among the names; or the names can only
                be those of another delimiter; or all that there are come twice.
        """
        found = self.of_files(storage, inputs, grows=grows)
        self.refuse_one_column(found.names)
        missing = [name for name in self.columns or [] if name not in found.names]
        if missing and found.names:
            known = f"{', '.join(found.names)}{did_you_mean(missing[0], found.names)}"
            raise InvalidSpec.at("source.columns", missing, f"is not among the columns {known}")
        if self.columns and found.names:
            found = pa.schema([found.field(name) for name in dict.fromkeys(self.columns)])
        if found.names:
            if not grows:
                refuse_unread(self.types, found.names)
            elif unseen := {*self.types} - {*found.names}:
                take_for_later(unseen, found.names, len(inputs))
            found = with_given(found, self.types)
        return pins_of(found) | ({GROWS: sorted({*needed} & {*found.names})} if grows else {})

    def of_files(self, storage: FsspecStorage, inputs: Sequence[Stat], *, grows: bool) -> pa.Schema:
        """Names and types of the first file with rows, and what others add to them.

        Raises:
            InvalidSpec: see `pin`.
        """
        found, twice = pa.schema([]), None
        files = iter(inputs)
        for stat in files:
            try:
                with storage.open(stat.path) as file:
                    schema, has_rows = self.infer(file, stat.path, is_guessed=self.guesses)
            except ColumnTwice as error:
                twice = twice or (stat.path, error)
                continue
            found = schema if has_rows or not found.names else found
            if has_rows and grows:
                return grown(found, [*self.seen(storage, spread(inputs))], self.types)
            if has_rows:
                later = self.seen(storage, islice(files, FILES_TO_ASK))
                return with_later_values(found, later, self.columns, self.types)
        if twice and not found.names:
            problem = f"cannot be read: {twice[1]}; rename one of them in the file, or skip "
            problem += "lines above the header with source.skip_lines"
            raise InvalidSpec.at("source.path", twice[0], problem)
        return found

    def guesses(self, column: str) -> bool:
        """Whether a column is read, with the type that its values suggest."""
        return column not in self.types and column in (self.columns or [column])

    def pin_for_growth(
        self, storage: FsspecStorage, inputs: Sequence[Stat], needed: Collection[str]
    ) -> dict[str, Any]:
        """See Source; not all files are asked where there are many."""
        grows = not (self.columns or self.column_names)
        return self.pin(storage, inputs, grows=grows, needed=needed)

    def seen(
        self, storage: FsspecStorage, files: Iterable[Stat]
    ) -> Iterator[tuple[str, pa.Schema]]:
        """Path, names and types of files with rows, by few of them."""
        for stat in files:
            try:
                with storage.open(stat.path) as file:
                    few = BYTES_TO_INFER // FILES_TO_ASK
                    found, has_rows = self.infer(file, stat.path, few)
            except (ValueError, InvalidSpec, FileNotFoundError):
                continue  # what is wrong with it is set aside row by row
            if has_rows:  # a header alone may be cut off
                yield stat.path, found

    def retyped(self, pins: dict[str, Any]) -> dict[str, Any]:
        """See Source; a column of another run's files is left to those, where none may lack."""
        found, types = schema_of(pins["schema"]), self.types
        if GROWS not in pins:
            types = {name: each for name, each in types.items() if name in found.names}
        return pins | pins_of(with_given(found, types))

    def refuse_one_column(self, names: list[str]) -> None:
        """See that the header is no line of another delimiter; who names the column means it.

        Raises:
            InvalidSpec: it is.
        """
        header = names[0] if len(names) == 1 else ""
        others = [each for each in DELIMITERS if each in header and each != self.delimiter]
        if others and names not in (self.columns, self.column_names):
            problem = (
                f"makes one column of the header {names[0]!r}: did you mean {others[0]!r}? If it "
                "is one column, name it in source.columns"
            )
            raise InvalidSpec.at("source.delimiter", self.delimiter, problem)

    def read(self, storage: FsspecStorage, shard: Shard, pins: dict[str, Any]) -> Iterator[Read]:
        """Yield the rows; a row that is ragged or does not fit the types is a bad row."""
        schema = schema_of(pins["schema"])
        with storage.open(shard.path) as file:
            records, other = self.records(file, shard.path, len(schema))
            if other is not None:
                error = ValueError(f"source.delimiter: {self.delimiter!r} {other}")
                header = b"" if self.column_names else next(records, b"")
                yield from without_header(header, records, error)
                return
            first = next(records, None)
            if first is None:
                return
            names = self.column_names or []
            if self.column_names is None:
                try:
                    names = self.dialect.header(first)
                    needed = pins.get(GROWS)
                    refuse_others(names, schema, takes_new=bool(self.columns), needed=needed)
                    if needed is not None:
                        here = pa.schema([(name, pa.null()) for name in names])
                        tell_of_other_columns(shard.path, here, schema)
                except ValueError as error:
                    yield from without_header(first, records, error)
                    return
            elif isinstance(first, bytes) and self.is_header(first) and not may_be_row(names):
                yield bad_row("a header, but source.column_names is for files without one", first)
            else:
                records.put_back(first)
            told = None if self.column_names else first
            parser = Parser(self.dialect, names, schema, told)
            for batch in records.many_at_once():
                yield from parser.rows(batch)
