"""Rows as files of each kind of source, good ones and bad ones."""

import csv
import io
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from tests.kinds.archives import tar
from tests.soak.drawn import Input, Row

TEXTS = ("plain", "a,b", 'q"uote', "two\nlines", "ünïcode 🦆", "=1+1", " spaces ")
PARTS = ("a", "b c", "ü=1/2")
TILE = 8
"""Pixels of a side; an image has as many tiles side by side as its id modulo 3, and one more."""


def part_of(id_: int) -> str:
    """The folder that a row goes to."""
    return PARTS[id_ % len(PARTS)]


def values(row: Row) -> dict[str, Any]:
    """A row of a table."""
    return {
        "id": row.id,
        "x": float(row.x),
        "s": TEXTS[row.id % len(TEXTS)],
        "part": part_of(row.id),
    }


def num_tiles(id_: int) -> int:
    """How many tiles an image has."""
    return id_ % 3 + 1


def parquet(rows: Iterable[Row]) -> bytes:
    """Small row groups, so that a file has several shards' worth of them."""
    types = {"id": pa.int64(), "x": pa.float64(), "s": pa.string(), "part": pa.string()}
    table = pa.Table.from_pylist([values(row) for row in rows], pa.schema(types.items()))
    stream = io.BytesIO()
    pq.write_table(table, stream, row_group_size=20)
    return stream.getvalue()


def csv_file(rows: Iterable[Row]) -> bytes:
    """Bad lines have too many values."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["id", "x", "s", "part"])
    for row in rows:
        cells = list(values(row).values())
        writer.writerow([*cells, "one", "two"] if row.is_bad else cells)
    return stream.getvalue().encode()


def jsonl(rows: Iterable[Row]) -> bytes:
    """Bad lines end too soon."""
    lines = [json.dumps(values(row), ensure_ascii=False) for row in rows]
    cut = [line[:-5] if row.is_bad else line for line, row in zip(lines, rows, strict=True)]
    return "".join(f"{line}\n" for line in cut).encode()


def packed(row: Row) -> bytes:
    """A row as a line; a bad one is not UTF-8."""
    return b"\xff|" + str(row.id).encode() if row.is_bad else f"{row.id}|{row.x}".encode()


def text(rows: Iterable[Row]) -> bytes:
    """A line a row."""
    return b"".join(packed(row) + b"\n" for row in rows)


def binary(rows: Iterable[Row]) -> bytes:
    """The one row."""
    return b"".join(map(packed, rows))


def image(rows: Iterable[Row]) -> bytes:
    """The one row, as the colour of all pixels."""
    (row,) = rows
    if row.is_bad:
        return b"GIF89a, and no more of it"
    stream = io.BytesIO()
    size = (TILE * num_tiles(row.id), TILE)
    Image.new("RGB", size, (row.id // 256, row.id % 256, row.x % 256)).save(stream, "PNG")
    return stream.getvalue()


def webdataset(rows: Iterable[Row]) -> bytes:
    """A sample a row; a bad one's JSON ends too soon."""
    whole = {row: json.dumps({"id": row.id, "x": row.x}) for row in rows}
    return tar({f"{r.id:06}.json": (t[:-3] if r.is_bad else t).encode() for r, t in whole.items()})


@dataclass(frozen=True)
class Format:
    """A kind of source as far as the soak knows it."""

    suffix: str
    encode: Callable[[tuple[Row, ...]], bytes]
    steps: tuple[str, ...] = ()
    """Of the user code, that make columns of what is read."""
    rows_per_file: int | None = None
    can_be_damaged: bool = False
    can_have_bad_rows: bool = True
    has_texts: bool = False
    max_id: int = 1 << 31


FORMATS = {
    "parquet": Format(
        ".parquet", parquet, can_be_damaged=True, can_have_bad_rows=False, has_texts=True
    ),
    "csv": Format(".csv", csv_file, has_texts=True),
    "jsonl": Format(".jsonl", jsonl, has_texts=True),
    "text": Format(".txt", text, ("parse_text",)),
    "binary": Format(".bin", binary, ("parse_bytes",), rows_per_file=1),
    "images": Format(".png", image, ("parse_images",), rows_per_file=1, max_id=1 << 16),
    "webdataset": Format(".tar", webdataset, ("parse_samples",)),
}


def encoded(kind: str, file: Input) -> bytes:
    """A file's bytes; of a damaged one the first half."""
    data = FORMATS[kind].encode(file.rows)
    return data[: len(data) // 2] if file.is_damaged else data
