"""Rows of thousands of columns: work grows with their number, and not with its square."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.kinds.sources import CsvSource, JsonlSource, LanceSource, ParquetSource, Source, text
from tasks.kinds.sources.listing import list_inputs
from tasks.kinds.sources.source import BadRow
from tasks.kinds.steps import RenameStep, SelectStep
from tasks.planning.known_columns import refuse_twice
from tasks.ray_job.blame import concatenated
from tasks.ray_job.new_columns import with_all, with_new
from tests.kinds.sources.reading import read_all

MOST_SECONDS = 4.0
"""Of CPU time; each takes a second at most, and took eight and more."""


def wide(num_columns: int) -> pa.Table:
    return pa.table({f"c{at}": pa.array([at], pa.int32()) for at in range(num_columns)})


def read_parquet(folder: Path) -> None:
    rows = wide(4_000)
    pq.write_table(rows, folder / "a.parquet")
    assert read_all(ParquetSource(path=str(folder))) == rows.to_pylist()


def read_lance(folder: Path) -> None:
    lance = pytest.importorskip("lance")
    rows = wide(1_500)
    lance.write_dataset(rows, folder / "lake")
    assert read_all(LanceSource(path=str(folder / "lake"))) == rows.to_pylist()


def put_together(folder: Path) -> None:
    rows = wide(4_000)
    assert concatenated([rows, rows]).to_pylist() == rows.to_pylist() * 2


def see_what_is_new(folder: Path) -> None:
    rows = wide(8_000)
    more = rows.append_column("more", pa.array([1]))
    schema = with_new(rows.schema, more.schema)
    assert schema.names[-1] == "more"
    assert with_all(rows.append_column("blank", pa.nulls(1)), schema).schema == schema


def rename_and_drop(_: Path) -> None:
    rows = wide(14_000)
    half = rows.column_names[::2]
    rows = RenameStep(columns={name: f"{name} again" for name in half}).build()(rows)
    rows = SelectStep(columns=[f"{name} again" for name in half], drop=True).build()(rows)
    assert rows.column_names == wide(14_000).column_names[1::2]


def see_that_none_comes_twice(_: Path) -> None:
    refuse_twice("steps.0", "rename", wide(30_000).column_names)


@pytest.mark.parametrize(
    "work",
    [
        *(read_parquet, read_lance, put_together, see_what_is_new),
        *(rename_and_drop, see_that_none_comes_twice),
    ],
)
def test_thousands_of_columns_take_no_time_each(
    work: Callable[[Path], None], tmp_path: Path
) -> None:
    start = time.process_time()
    work(tmp_path)
    assert time.process_time() - start < MOST_SECONDS


NAMES = [f"c{at}" for at in range(2_000)]
HEADER, RECORD = ",".join(NAMES) + "\n", "1," * 1_999 + "1\n"
LINE = json.dumps(dict.fromkeys(NAMES, 1)) + "\n"


@pytest.mark.parametrize(
    ("kind", "beginning", "row"), [(CsvSource, HEADER, RECORD), (JsonlSource, "", LINE)]
)
def test_text_of_many_columns_is_read_in_larger_pieces(
    kind: type[Source], beginning: str, row: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text, "BYTES_PER_BLOCK", len(row) + 1)
    (tmp_path / "rows").write_text(beginning + row * 64)
    source = kind(path=str(tmp_path / "rows"))
    storage, [stat] = list_inputs(source)
    [shard] = source.split(storage, stat)
    found = source.read(storage, shard, source.pin(storage, [stat]))
    pieces = [len(each) for each in found if not isinstance(each, BadRow)]
    assert sum(pieces) == 64
    assert len(pieces) < 64 / 6
