"""Rows as JSON Lines: UTF-8, one object a line."""

import json
from collections.abc import Iterator
from io import BytesIO
from itertools import islice
from typing import Any, Literal

import pyarrow as pa
import pyarrow.json as pj
from pydantic import ConfigDict

from tasks.errors import SchemaMismatch
from tasks.kinds.blank_columns import refuse_lacking
from tasks.kinds.column_types import inner
from tasks.kinds.columns import in_one
from tasks.kinds.sinks.json_texts import data_of, json_text, object_texts, plain_texts
from tasks.kinds.sinks.sink import Mask, Sink

BYTES = (
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
)
LISTS = (
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)
ROWS_AT_ONCE, BYTES_AT_ONCE = 8_192, 4 << 20
"""That stay close to the processor."""


class JsonlSink(Sink):
    """Publishes JSON Lines: lists stay lists, times are ISO text, NaN and infinity are null."""

    model_config = ConfigDict(title="JSON Lines")
    kind: Literal["jsonl"] = "jsonl"

    @property
    def suffix(self) -> str:
        """End of a file's name."""
        return ".jsonl"

    def encode(self, rows: pa.Table) -> bytes:
        """Rows as lines.

        Raises:
            SchemaMismatch: a column holds bytes, or a time before or after all that Python knows.
        """
        rows = without_bytes(rows, "JSON")
        try:
            return b"".join(map(lines, in_pieces(rows, BYTES_AT_ONCE, ROWS_AT_ONCE)))
        except OverflowError as error:
            raise SchemaMismatch(
                f"a time cannot be written as JSON ({error}): leave it out with sink.keep_columns "
                "or a step, or publish with sink.kind: parquet"
            ) from error

    def decode(self, data: bytes) -> pa.Table:
        """Rows of lines; numbers and lists as they were, times as text."""
        rows = objects_of(data)
        return columns_of(rows, list(rows[0]) if rows else [])

    def first_rows(self, data: bytes, num_rows: int) -> pa.Table:
        """The same of so many rows at most: all of a file are many times its size in memory."""
        return self.decode(b"".join(islice(BytesIO(data), num_rows)))

    def select(self, data: bytes, names: list[str], schema: pa.Schema) -> pa.Table:
        """Some columns of lines.

        Raises:
            ArrowKeyError: the first line lacks one.
        """
        if first := data[: data.find(b"\n") + 1]:
            refuse_lacking(json.loads(first), names)
        try:
            return read_by_arrow(data, names, schema)
        except (pa.ArrowException, OverflowError):  # as of maps, of no lines, or of 2 GiB of them
            pass
        return columns_of(objects_of(data), names, schema)

    def drop_rows(self, data: bytes, keep: Mask) -> bytes:
        """Lines without some of them; the others stay as they are, byte for byte."""
        lines = data.split(b"\n")[:-1]
        return b"".join(line + b"\n" for line, kept in zip(lines, keep, strict=True) if kept)


def in_pieces(rows: pa.Table, num_bytes: int, num_rows: int) -> Iterator[pa.Table]:
    """Rows as tables of about so many bytes, and of so many rows at most.

    Each in one chunk: a model's calls make a chunk each, which takes as long as hundreds of rows.
    """
    most = len(rows) * num_bytes // max(1, rows.nbytes)
    count = max(1, min(most, num_rows))
    for at in range(0, len(rows), count):
        yield rows.slice(at, count).combine_chunks()


def lines(rows: pa.Table) -> pa.Buffer | bytes:
    """Rows as lines."""
    objects = in_one(rows.to_struct_array())
    try:
        return data_of(object_texts(objects, "}\n"))
    except pa.ArrowException:  # as of more than Arrow's texts hold
        return "".join(f"{each}\n" for each in plain_texts(objects)).encode()


def objects_of(data: bytes) -> list[dict[str, Any]]:
    """The objects of a file's lines."""
    return [json.loads(line) for line in data.split(b"\n")[:-1]]


def without_bytes(rows: pa.Table, form: str) -> pa.Table:
    """The rows, if none of their columns holds bytes.

    Raises:
        SchemaMismatch: names the columns.
    """
    holders = [each.name for each in rows.schema if any(is_bytes(k) for k in inner(each.type))]
    if holders:
        raise SchemaMismatch(
            f"columns {holders} contain bytes, which {form} cannot hold: leave them out with "
            "sink.keep_columns or a select step, or publish with sink.kind: parquet"
        )
    return rows


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values of a type are bytes."""
    return any(check(kind) for check in BYTES)


def read_by_arrow(data: bytes, names: list[str], schema: pa.Schema) -> pa.Table:
    """Some columns of lines that were written of rows with a schema.

    Raises:
        pyarrow.ArrowException: a value is of another type than those.
        OverflowError: there are too many lines.
    """
    wanted = pa.schema([(name, json_type(schema.field(name).type)) for name in names])
    rows = pj.read_json(
        pa.BufferReader(data),
        pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
        pj.ParseOptions(explicit_schema=wanted, unexpected_field_behavior="ignore"),
    )
    return rows.select(names)


def columns_of(
    rows: list[dict[str, Any]], names: list[str], schema: pa.Schema | None = None
) -> pa.Table:
    """Some columns of lines as a table."""
    kinds = {each.name: each.type for each in schema or ()}
    return pa.table(
        {name: from_json([row[name] for row in rows], kinds.get(name)) for name in names}
    )


def from_json(values: list[Any], kind: pa.DataType | None = None) -> pa.Array:
    """Values that were written as JSON, as a column; what is of no one type, as maps, as its text.

    Args:
        values: as they are in JSON.
        kind: the column's type before, from which that of all files follows; else of these alone.
    """
    try:
        return pa.array(values, None if kind is None else json_type(kind))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if each is None else json_text(each) for each in values])


def json_type(kind: pa.DataType) -> pa.DataType:
    """The type that JSON leaves of one: text where maps are in it."""
    if any(map(pa.types.is_map, inner(kind))):
        return pa.string()
    if isinstance(kind, pa.BaseExtensionType):
        return json_type(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return json_type(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, json_type(each.type)) for each in kind.fields])
    if any(check(kind) for check in LISTS):
        return pa.list_(json_type(kind.value_type))
    if pa.types.is_floating(kind) or pa.types.is_duration(kind):
        return pa.float64()
    is_as_it_was = pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)
    return kind if is_as_it_was else pa.string()
