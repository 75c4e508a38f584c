"""Samples of WebDataset shards: tar archives whose files of one key, side by side, are a row."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, ClassVar, Literal

import pyarrow as pa
from pydantic import ConfigDict, Field

from tasks.errors import InvalidSpec
from tasks.kinds.audio import DEFAULT_RATE
from tasks.kinds.sources.compressed import CODECS
from tasks.kinds.sources.source import BYTES_PER_READ, ROWS_PER_READ, BadRow, Read, Source
from tasks.kinds.sources.tar_reading.archive import IN_SHORT, DamagedTar
from tasks.kinds.sources.tar_reading.samples import (
    KEY,
    Sample,
    can_be_column,
    column_of,
    field_of,
    refuse_half,
    row_of,
    samples,
)
from tasks.protocol.object_stat import Stat
from tasks.protocol.plan_file import Shard
from tasks.protocol.storage import FsspecStorage

SAMPLES_TO_INFER = 100


class WebdatasetSource(Source):
    """Samples of WebDataset shards, one row each: `key`, and a column for each kind of file."""

    model_config = ConfigDict(title="WebDataset")
    kind: Literal["webdataset"] = "webdataset"
    columns: list[str] | None = Field(
        default=None,
        description="Read only these and ignore all others: image (of jpg, png, webp, ...), audio "
        "(of wav, flac, mp3, ...), or another ending, such as cls, txt, json. Empty: all that the "
        "first 100 samples have, and a sample with another ending is set aside.",
    )
    sampling_rate: int = Field(
        default=DEFAULT_RATE,
        ge=1_000,
        le=384_000,
        description="For sound: samples a second, in Hz, that models and your code get.",
    )
    suffixes: ClassVar[tuple[str, ...]] = (
        ".tar",
        *(f".tar{codec}" for codec in CODECS),
        *IN_SHORT,
    )
    reads_on: ClassVar[bool] = True
    has_media: ClassVar[bool] = True

    def pin(self, storage: FsspecStorage, inputs: Sequence[Stat]) -> dict[str, Any]:
        """Take the columns from the first samples.

        Raises:
            InvalidSpec: one of `columns` is in none of these samples.
        """
        first = islice(chain.from_iterable(heads(storage, inputs)), SAMPLES_TO_INFER)
        endings = chain.from_iterable(sample.files for sample in first)
        found = dict.fromkeys(column_of(ending) for ending, _ in endings)
        missing = [name for name in self.columns or [] if name not in [KEY, *found]]
        if missing and found:
            known = f"the first {SAMPLES_TO_INFER} samples, which have {', '.join([KEY, *found])}"
            raise InvalidSpec.at("source.columns", missing, f"is in none of {known}")
        wanted = self.columns or filter(can_be_column, found)
        return {"columns": [name for name in dict.fromkeys(wanted) if name != KEY]}

    def schema_of_rows(self, pins: dict[str, Any]) -> pa.Schema | None:
        """The key, and what the first samples have."""
        return self.row_schema(pins["columns"]) if pins.get("columns") else None

    def read(self, storage: FsspecStorage, shard: Shard, pins: dict[str, Any]) -> Iterator[Read]:
        """Yield the samples; one that does not fit is a bad row, and so is a damaged end."""
        schema, seen = self.row_schema(pins["columns"]), dict[str, set[str]]()
        with storage.open(shard.path) as file:
            found = samples(file, shard.path, lambda ending: column_of(ending) in schema.names)
            yield from tables((self.row(each, schema, seen) for each in found), schema)

    def row_schema(self, names: list[str]) -> pa.Schema:
        """The key and the named columns, with the types that their names tell."""
        fields = [field_of(name, self.sampling_rate) for name in names]
        return pa.schema([pa.field(KEY, pa.string()), *fields])

    def row(
        self, found: Sample | DamagedTar, schema: pa.Schema, seen: dict[str, set[str]]
    ) -> dict[str, Any] | BadRow:
        """A sample as a row."""
        if isinstance(found, DamagedTar):
            return BadRow(found, is_rest=True)
        try:
            refuse_half(found, {*schema.names} - {KEY}, seen)
            return row_of(found, schema, ignores_others=bool(self.columns))
        except ValueError as error:
            return BadRow(error, ascii(found.key)[1:-1][:500])


def heads(storage: FsspecStorage, inputs: Sequence[Stat]) -> Iterator[Iterator[Sample]]:
    """The samples of each input, without what their files hold; damage is left to reading."""
    for stat in inputs:
        with storage.open(stat.path) as file:
            found = samples(file, stat.path, lambda ending: False)
            yield (each for each in found if isinstance(each, Sample))


def tables(rows: Iterable[dict[str, Any] | BadRow], schema: pa.Schema) -> Iterator[Read]:
    """Rows as tables of a read's size, bad ones between them."""
    held, size = list[dict[str, Any]](), 0
    for row in rows:
        is_bad = isinstance(row, BadRow)
        if held and (is_bad or size >= BYTES_PER_READ or len(held) == ROWS_PER_READ):
            yield pa.Table.from_pylist(held, schema)
            held, size = [], 0
        if isinstance(row, BadRow):
            yield row
        else:
            held.append(row)
            size += sum(len(value) for value in row.values() if isinstance(value, (bytes, str)))
    if held:
        yield pa.Table.from_pylist(held, schema)
