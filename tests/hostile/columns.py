"""Parquet: damaged footers and pages, types and schemas of all sorts, bombs."""

import io
import random
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.hostile.files import Hostile, cuts, flips, wrong

TABLE = pa.table({"a": range(300), "b": [f"word {each}" for each in range(300)]})
ROWS = len(TABLE)


def parquet_of(table: pa.Table, **options: Any) -> bytes:
    """A Parquet file."""
    stream = io.BytesIO()
    pq.write_table(table, stream, **options)
    return stream.getvalue()


def parquet(seed: random.Random) -> Iterator[Hostile]:
    """All of them."""
    for codec in ("none", "snappy", "zstd", "gzip", "lz4", "brotli"):
        whole = parquet_of(TABLE, row_group_size=100, compression=codec)
        yield Hostile("parquet", f"{codec}.parquet", whole, ROWS, False)
        for name, content in flips(whole, 8, seed):
            yield Hostile("parquet", f"{name} {codec}.parquet", content)
    whole = parquet_of(TABLE, row_group_size=100)
    for name, content in cuts(whole, boundaries(whole)):
        yield Hostile("parquet", f"{name}.parquet", content, 0, True)
    yield Hostile("parquet", "wrong magic.parquet", wrong(whole).pop("wrong magic"), None)
    yield Hostile("parquet", "a second file.parquet", whole[:-8] + whole, ROWS)
    for name, content in [*wrong(whole).items(), *broken(whole).items()]:
        if name != "wrong magic":  # of which Arrow looks at the last only
            yield Hostile("parquet", f"{name}.parquet", content, None, True)
    for name, table, good in tables():
        yield Hostile("parquet", f"{name}.parquet", parquet_of(table), good)


def boundaries(content: bytes) -> Iterator[int]:
    """Where a chunk ends and the next begins, and around the footer."""
    metadata = pq.ParquetFile(io.BytesIO(content)).metadata
    yield 4
    for group in range(metadata.num_row_groups):
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            yield (chunk.dictionary_page_offset or chunk.data_page_offset)
            yield chunk.data_page_offset
    yield from (len(content) - 8 - metadata.serialized_size, len(content) - 8, len(content) - 4)


def broken(whole: bytes) -> dict[str, bytes]:
    """Whole files with a part that is not what it should be."""
    metadata = pq.ParquetFile(io.BytesIO(whole)).metadata
    footer = len(whole) - 8 - metadata.serialized_size
    page = metadata.row_group(1).column(0)
    start = page.dictionary_page_offset or page.data_page_offset
    stop = start + page.total_compressed_size
    many = b"\x16" + b"\x80" * 5 + b"\x40"  # 2^40 as Thrift writes it
    rows = whole[footer:-8].replace(b"\x16\xc8\x01", many)
    return {
        "many rows": whole[:footer] + rows + struct.pack("<I", len(rows)) + b"PAR1",
        "footer of noise": whole[:footer] + b"\xa5" * (len(whole) - 8 - footer) + whole[-8:],
        "footer of zeros": whole[:footer] + bytes(len(whole) - 8 - footer) + whole[-8:],
        "footer longer than the file": whole[:-8] + b"\xff\xff\xff\x7f" + whole[-4:],
        "footer of length 0": whole[:-8] + bytes(4) + whole[-4:],
        "encrypted": whole[:-4] + b"PARE",
        "page of zeros": whole[:start] + bytes(stop - start) + whole[stop:],
        "page of noise": whole[:start] + b"\xa5" * (stop - start) + whole[stop:],
        "pages swapped": whole[:start] + whole[stop:footer] + whole[start:stop] + whole[footer:],
    }


def tables() -> Iterator[tuple[str, pa.Table, int | None]]:
    """Whole files, whose columns are not those of the first."""
    words = TABLE["b"]
    yield "a dictionary", pa.table({"a": TABLE["a"], "b": words.dictionary_encode()}), ROWS
    yield "other types", pa.table({"a": words, "b": words}), 0
    yield "types that fit", pa.table({"a": TABLE["a"].cast("int16"), "b": words}), ROWS
    yield "numbers too large", pa.table({"a": pa.array([2**63], pa.uint64()), "b": ["x"]}), 0
    yield "nested", pa.table({"a": [{"x": [1, 2]}], "b": ["x"]}), 0
    yield "a list", pa.table({"a": [[1, 2], []], "b": ["x", "y"]}), 0
    yield "a map", pa.table({"a": pa.array([[("k", 1)]], pa.map_("string", "int64"))}), 0
    yield "no such columns", pa.table({"c": [1, 2]}), None
    yield "more columns", pa.table({"a": [1], "b": ["x"], "c": [1]}), 1
    yield "nulls", pa.table({"a": pa.nulls(2), "b": pa.nulls(2)}), 2
    yield "no rows", TABLE.slice(0, 0), 0
    yield "no columns", pa.table({}), 0
    yield "swapped", TABLE.select(["b", "a"]), ROWS
    yield "other capitals", TABLE.rename_columns(["A", "B"]), None
    yield "NaN for a number", pa.table({"a": [float("nan"), 1.0], "b": ["x", "y"]}), 1
    yield "text that is not UTF-8", not_utf8(), None
    many = 100_000
    yield "many alike", pa.table({"a": np.ones(many, int), "b": pa.repeat("x", many)}), many
    yield "long texts", pa.table({"a": [1, 2], "b": pa.array(["x" * (20 << 20)] * 2)}), 2


def not_utf8() -> pa.Table:
    """Text whose bytes are none."""
    raw = pa.array([b"gr\xfcn", b"x"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    return pa.table({"a": [1, 2], "b": text})
