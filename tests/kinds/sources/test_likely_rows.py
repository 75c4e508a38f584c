"""How many rows an input is likely to have, by its beginning."""

import gzip
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import TypeAdapter

from tasks.kinds.sources import AnySource, likely_rows
from tasks.kinds.sources.csv import CsvSource
from tasks.kinds.sources.listing import list_inputs
from tasks.kinds.sources.parquet import ParquetSource
from tasks.kinds.sources.text import TextSource
from tasks.kinds.sources.video import VideoSource
from tasks.protocol.plan_file import Shard, shard_table, shards_of

ROWS = 60_000
WORDS = np.random.default_rng(0).bytes(ROWS * 90).hex()
"""Noise: what compresses well would be read to its end at once."""


def texts() -> Iterator[str]:
    return (WORDS[180 * number : 180 * (number + 1)] for number in range(ROWS))


def csv() -> bytes:
    return "".join(f"{number},{text}\n" for number, text in enumerate(texts())).encode()


def jsonl() -> bytes:
    rows = ({"id": number, "text": text} for number, text in enumerate(texts()))
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def tar() -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as archive:
        for number in range(8_000):
            member = tarfile.TarInfo(f"{number:06d}.txt")
            member.size = 2_000
            archive.addfile(member, io.BytesIO(b"x" * member.size))
    return held.getvalue()


INPUTS: dict[str, tuple[str, Callable[[], bytes], int]] = {
    "a.csv": ("csv", lambda: b"id,text\n" + csv(), ROWS),
    "a.csv.gz": ("csv", lambda: gzip.compress(b"id,text\n" + csv(), 1), ROWS),
    "a.jsonl": ("jsonl", jsonl, ROWS),
    "a.txt": ("text", csv, ROWS),
    "a.txt.gz": ("text", lambda: gzip.compress(csv(), 1), ROWS),
    "a.tar": ("webdataset", tar, 8_000),
}


def likely(kind: str, folder: Path, **more: Any) -> int | None:
    source: Any = TypeAdapter(AnySource).validate_python(
        {"kind": kind, "path": str(folder), **more}
    )
    storage, inputs = list_inputs(source)
    (stat,) = inputs
    shard = Shard(0, stat.path, stat.identity, stat.size)
    return likely_rows.likely_rows(source, storage, shard, source.pin(storage, [*inputs]))


@pytest.mark.parametrize("name", INPUTS)
def test_rows_are_reckoned_by_the_beginning(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, made, rows = INPUTS[name]
    data = made()
    (tmp_path / name).write_bytes(data)
    monkeypatch.setattr(likely_rows, "SECONDS_READ", 600.0)
    monkeypatch.setattr(likely_rows, "BYTES_READ", 2 * len(data))
    assert likely(kind, tmp_path) == rows  # all of it was read
    monkeypatch.setattr(likely_rows, "BYTES_READ", len(data) // 2)
    found = likely(kind, tmp_path)
    assert found is not None
    assert found != rows
    assert rows / 1.25 < found < rows * 1.25


def test_what_takes_long_to_read_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_bytes(b"id,text\n" + csv())
    monkeypatch.setattr(likely_rows, "SECONDS_READ", 0.0)
    found = likely("csv", tmp_path)
    assert found is not None
    assert found != ROWS
    assert ROWS / 12 < found < ROWS * 1.25


def test_the_largest_are_looked_at() -> None:
    sizes = [1, 50, 3, 70, 60, 2]
    shards = shard_table(Shard(at, f"{at}", "", size) for at, size in enumerate(sizes))
    assert shards_of(likely_rows.to_look_at(CsvSource(path="in"), shards))[0].size == 70
    seen = likely_rows.to_look_at(CsvSource(path="in"), shards)["size"].to_pylist()
    assert sorted(seen) == [50, 60, 70]
    seen = likely_rows.to_look_at(ParquetSource(path="in"), shards)["size"].to_pylist()
    assert sorted(seen) == sorted(sizes)


def test_a_footer_tells(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": range(1_000)}), tmp_path / "a.parquet")
    assert likely("parquet", tmp_path) == 1_000


def test_of_a_damaged_file_one_row_is_likely(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(b"none")
    assert likely("parquet", tmp_path) == 1


def test_a_film_is_not_read_for_it(tmp_path: Path) -> None:
    (tmp_path / "a.mp4").write_bytes(b"none")
    assert likely("video", tmp_path) is None


def test_a_part_of_a_file_has_as_many_as_were_planned(tmp_path: Path) -> None:
    source: Any = TypeAdapter(AnySource).validate_python({"kind": "text", "path": str(tmp_path)})
    storage, _ = source.opened(str(tmp_path))
    shard = Shard(0, str(tmp_path / "gone.txt"), "", 1, rows=7)
    assert likely_rows.likely_rows(source, storage, shard, {}) == 7


def test_the_rest_is_like_what_was_seen(tmp_path: Path) -> None:
    """Of five files the three largest are read; one that holds none of the others is guessed."""
    for number, lines in enumerate([100, 200, 300, 0, 400]):
        (tmp_path / f"{number}.txt").write_text("a line\n" * lines)
    source = TextSource(path=str(tmp_path))
    storage, inputs = list_inputs(source)
    shards = source.shards(storage, inputs)
    assert likely_rows.reckon_rows(source, storage, shards, {}) == 1_000
    films = VideoSource(path=str(tmp_path))
    assert likely_rows.reckon_rows(films, storage, shards, {}) is None
    assert likely_rows.reckon_rows(source, storage, shards.slice(0, 0), {}) is None
