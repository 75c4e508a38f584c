"""What is handed on is what was planned."""

import os
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from tasks.errors import InputChanged
from tasks.kinds.sources import DeltaSource, Source, SqlSource
from tasks.kinds.sources.source import Read
from tasks.kinds.sources.table_reading.delta import DeltaVersion
from tasks.plan import make_plan
from tasks.protocol.parquet_parts import FEWEST_ROWS_PER_GROUP
from tasks.protocol.plan_file import Shard
from tasks.protocol.ranges import IdRanges
from tasks.protocol.storage import FsspecStorage
from tasks.ray_job import opening, reading
from tasks.ray_job.job import Job
from tasks.ray_job.opening import Todo
from tasks.ray_job.reading import read_share
from tasks.run import left_to_do, next_attempt
from tests.flows.conftest import spec_of


def rows(start: int, stop: int) -> IdRanges:
    """Of the first shard."""
    return IdRanges(np.array([start]), np.array([stop]))


def test_no_row_of_a_file_rewritten_midway_is_handed_on(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    file = folder / "a.parquet"
    pq.write_table(pa.table({"id": range(10_000), "x": [0.0] * 10_000}), file)
    planned = make_plan(spec_of(folder))
    job = next_attempt(planned, left_to_do(planned, tried=False)).job
    batches = read_share(job, 0, 1, lambda report: None)
    assert len(next(batches).rows) == 50
    stat = file.stat()
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    with pytest.raises(InputChanged, match=r"a\.parquet"):
        next(batches)


def test_of_many_files_those_that_come_next_are_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one process a share is all of them: of a million, a gigabyte before the first is read."""
    folder, group, files = tmp_path / "in", FEWEST_ROWS_PER_GROUP, 2_500
    folder.mkdir()
    for number in range(files):
        (folder / f"{number:04}.bin").touch()
    planned = make_plan(spec_of(folder, source={"kind": "binary", "path": str(folder)}))
    job = next_attempt(planned, left_to_do(planned, tried=False)).job
    made = Mock(wraps=opening.todo_of)
    monkeypatch.setattr(opening, "todo_of", made)
    opened = opening.open_shards(job, 0, files)
    held = [(next(opened).shard.number, made.call_count) for _ in range(files)]
    assert [number for number, _ in held] == [*range(files)]
    assert all(count <= number + group for number, count in held)


def test_rows_that_are_set_aside_wait_for_no_large_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a job of nothing else would be stopped by its budget only after a million of them."""
    monkeypatch.setattr(reading, "REJECTED_AT_ONCE", 10)
    folder = tmp_path / "in"
    folder.mkdir()
    lines = ['{"x": 1}', *['{"x": "no number"}'] * 24, *['{"x": 1}'] * 60]
    (folder / "a.jsonl").write_text("\n".join(lines))
    planned = make_plan(spec_of(folder, source={"kind": "jsonl", "path": str(folder)}))
    job = next_attempt(planned, left_to_do(planned, tried=False)).job
    batches = [*read_share(job, 0, 1, lambda report: None)]
    assert [(len(each.rows), len(each.rejected)) for each in batches] == [
        (1, 10), (0, 10), (50, 4), (10, 0)
    ]  # fmt: skip
    ids = pa.concat_tables([each.rows for each in batches], promote_options="default")["__row"]
    assert ids.to_pylist() == [0, *range(25, 85)]
    assert [each.id for batch in batches for each in batch.rejected] == [*range(1, 25)]


def test_a_large_read_is_cut_with_the_files_that_its_rows_are_of(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number, rows in enumerate((3, 120, 40)):
        pq.write_table(pa.table({"x": [1.0] * rows}), folder / f"{number}.parquet")
    planned = make_plan(spec_of(folder))
    job = next_attempt(planned, left_to_do(planned, tried=False)).job
    batches = list(read_share(job, 0, 3, lambda report: None))
    assert [len(each.rows) for each in batches] == [50, 50, 50, 13]
    files = [{Path(path).name for path in each.sources.values()} for each in batches]
    one, two, three = "0.parquet", "1.parquet", "2.parquet"
    assert files == [{one, two}, {two}, {two, three}, {three}]
    rows = pa.concat_tables(each.rows for each in batches)["__row"].to_pylist()
    assert rows == [n << 32 | at for n, rows in enumerate((3, 120, 40)) for at in range(rows)]


def test_a_tables_version_is_opened_once_by_a_process_of_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log may name a hundred thousand files, and a job has thousands of read tasks."""
    for number in range(3):
        write_deltalake(tmp_path / "in", pa.table({"x": [number]}), mode="append")
    source = {"kind": "delta", "path": str(tmp_path / "in")}
    planned = make_plan(spec_of(tmp_path / "in", source=source))
    job = next_attempt(planned, left_to_do(planned, tried=False)).job
    open_one, opened = DeltaSource.open, list[int | None]()

    def open_noted(self: DeltaSource) -> DeltaVersion:
        opened.append(self.version)
        return open_one(self)

    monkeypatch.setattr(DeltaSource, "open", open_noted)

    def x_of(job: Job) -> list[int]:
        shares = ((0, 1), (1, 3))
        batches = [
            each for share in shares for each in read_share(job, *share, lambda report: None)
        ]
        return sorted(pa.concat_tables(each.rows for each in batches)["x"].to_pylist())

    assert x_of(job) == [0, 1, 2]
    write_deltalake(tmp_path / "in", pa.table({"x": [3]}), mode="append")
    assert x_of(job) == [0, 1, 2]
    assert opened == [2]
    again = replace(job, attempt=2)
    shutil.copytree(job.folder, again.folder)
    assert x_of(again) == [0, 1, 2]
    assert opened == [2, 2]


def test_a_day_of_a_table_is_looked_at_a_few_times_however_many_rows_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look is at all of them: one for each batch took hours for millions."""
    table, looks, num_rows = tmp_path / "shop.db", list[str](), 5_000
    with closing(sqlite3.connect(table)) as shop, shop:
        shop.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, at TIMESTAMP)")
        rows = [(each, "2026-01-31 12:00:00") for each in range(num_rows)]
        shop.executemany("INSERT INTO orders VALUES (?, ?)", rows)
    source = {"kind": "sql", "path": f"sqlite:///{table}", "table": "orders", "key": "id"}
    planned = make_plan(spec_of(tmp_path / "in", source={**source, "range_column": "at"}))
    job = next_attempt(planned, left_to_do(planned, tried=False)).job
    is_unchanged = SqlSource.is_unchanged

    def noted(self: SqlSource, storage: FsspecStorage, shard: Shard) -> bool:
        looks.append(shard.path)
        return is_unchanged(self, storage, shard)

    monkeypatch.setattr(SqlSource, "is_unchanged", noted)
    batches = read_share(job, 0, 1, lambda report: None)
    assert sum(len(each.rows) for each in batches) == num_rows
    assert len(looks) <= 4
    batches = read_share(job, 0, 1, lambda report: None)
    assert len(next(batches).rows) == 50
    with closing(sqlite3.connect(table)) as shop, shop:
        shop.execute("DELETE FROM orders WHERE id = 7")
    counted = list[int]()
    with pytest.raises(InputChanged):
        counted.extend(len(each.rows) for each in batches)
    assert 50 + sum(counted) < num_rows


@pytest.mark.parametrize(("bytes_each", "pieces"), [(10, 1), (10_000, 3)])
def test_columns_of_small_rows_are_in_one_piece(
    bytes_each: int, pieces: int, tmp_path: Path
) -> None:
    """Others are rather not copied."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        rows = {"x": [number, number + 1], "name": ["a" * bytes_each] * 2}
        pq.write_table(pa.table(rows), folder / f"{number}.parquet")
    planned = make_plan(spec_of(folder))
    job = next_attempt(planned, left_to_do(planned, tried=False)).job
    (batch,) = read_share(job, 0, 3, lambda report: None)
    assert [each.num_chunks for each in batch.rows.columns] == [pieces] * 3
    assert batch.rows["x"].to_pylist() == [0, 1, 1, 2, 2, 3]


def test_rows_that_are_settled_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"x": [*range(120)]}), folder / "a.parquet")
    planned = make_plan(spec_of(folder))
    job = next_attempt(planned, left_to_do(planned, tried=False)).job
    (todo,) = opening.load_todo(job, 0, 1)
    left = {
        "all": (todo, [*range(120)]),
        "but for some": (replace(todo, covered=rows(3, 90)), [0, 1, 2, *range(90, 120)]),
        "only these": (replace(todo, wanted=np.array([5, 60])), [5, 60]),
        "these but one": (replace(todo, wanted=np.array([5, 60]), covered=rows(5, 6)), [60]),
    }
    for what, (each, wanted) in left.items():
        monkeypatch.setattr(opening, "load_todo", lambda *_, each=each: [each])
        batches = read_share(job, 0, 1, lambda report: None)
        assert [x for b in batches for x in b.rows["x"].to_pylist()] == wanted, what


@pytest.mark.parametrize(
    ("said", "lines", "reason"),
    [({}, [], "utf-16-le"), ({"encoding": "utf-16-le"}, ["one"], "ends before this row")],
    ids=["damaged", "shorter"],
)
def test_rows_that_a_redrive_wants_beyond_what_is_read_are_set_aside_each(
    said: dict[str, str],
    lines: list[str],
    reason: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They were bad one by one to a version that did not see yet that the file is UTF-16."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt").write_bytes("one\ntwo\nthree\n".encode("utf-16-le"))
    source = {"kind": "text", "path": str(folder), **said}
    planned = make_plan(spec_of(folder, source=source))
    job = next_attempt(planned, left_to_do(planned, tried=False)).job
    (todo,) = opening.load_todo(job, 0, 1)
    some = replace(todo, wanted=np.array([0, 3, 4, 5]), covered=rows(4, 5))
    monkeypatch.setattr(opening, "load_todo", lambda *_: [some])
    (batch,) = read_share(job, 0, 1, lambda report: None)
    assert batch.rows["text"].to_pylist() == lines if lines else not len(batch.rows)
    first = [] if lines else [0]
    assert [(each.id, each.row) for each in batch.rejected] == [(at, at) for at in [*first, 3, 5]]
    assert all(reason in each.error_message.lower() for each in batch.rejected)
    assert [(each.shard, each.rows) for each in batch.ends] == [(0, 6)]


@pytest.mark.parametrize("quick_seconds", [0.0, 1e9], ids=["threads", "in turn"])
def test_small_files_are_read_in_order_however_long_they_take(
    quick_seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "QUICK_SECONDS", quick_seconds)
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(70):
        (folder / f"{number:02d}.bin").write_bytes(bytes([number]))
    source = {"kind": "binary", "path": str(folder)}
    planned = make_plan(spec_of(folder, source=source))
    job = next_attempt(planned, left_to_do(planned, tried=False)).job
    batches = [*read_share(job, 0, 70, lambda report: None)]
    found = [value for batch in batches for value in batch.rows["bytes"].to_pylist()]
    assert found == [bytes([number]) for number in range(70)]


@pytest.mark.parametrize("every_file_waits", [True, False])
def test_threads_are_used_where_every_file_waits_and_not_for_one_that_did(
    every_file_waits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One may have waited for a core, which threads would only make rarer."""
    clock, threads = [0.0], set[int]()
    read_rows = opening.read_rows

    def waiting(source: Source, storage: FsspecStorage, todo: Todo) -> Iterator[Read]:
        threads.add(threading.get_ident())
        if every_file_waits or todo.shard.path.endswith("/064.bin"):
            clock[0] += 2 * opening.QUICK_SECONDS
        yield from read_rows(source, storage, todo)

    monkeypatch.setattr(opening, "read_rows", waiting)
    monkeypatch.setattr(opening, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(130):
        (folder / f"{number:03d}.bin").write_bytes(bytes([number]))
    planned = make_plan(spec_of(folder, source={"kind": "binary", "path": str(folder)}))
    job = next_attempt(planned, left_to_do(planned, tried=False)).job
    assert sum(len(each.rows) for each in read_share(job, 0, 130, lambda report: None)) == 130
    assert (len(threads) > 1) == every_file_waits


def test_ends_of_files_without_rows_do_not_all_wait_for_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a million of them a batch would have a million paths, and so would its record."""
    monkeypatch.setattr(reading, "ENDS_AT_ONCE", 10)
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(26):
        (folder / f"{number:02}.jsonl").write_text("" if number != 12 else '{"x": 1}\n')
    planned = make_plan(spec_of(folder, source={"kind": "jsonl", "path": str(folder)}))
    job = next_attempt(planned, left_to_do(planned, tried=False)).job
    batches = [*read_share(job, 0, 26, lambda report: None)]
    assert [(len(each.rows), len(each.ends)) for each in batches] == [(0, 10), (1, 10), (0, 6)]
    assert [end.shard for batch in batches for end in batch.ends] == [*range(26)]
    assert [len(each.sources) for each in batches] == [10, 10, 6]
