"""What published runs have set aside is found wherever the output lies, in one look at it."""

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from tasks.protocol import redrive_shards
from tasks.protocol.acceptance import accept
from tasks.protocol.batch import Rejection, RowBatch, ShardEnd
from tasks.protocol.ids import ROW_BITS, IdRuns, Mask, RowsByRun, as_ids, row_id
from tasks.protocol.ledger_lines import LedgerFile
from tasks.protocol.plan_file import Shard, first_plan, save_plan, shard_table
from tasks.protocol.publication import Publication
from tasks.protocol.publishing import publish
from tasks.protocol.records import Encoded, load_records, store
from tasks.protocol.redrive_shards import (
    PastRun,
    lines_of,
    published_shards,
    runs_of,
)
from tasks.protocol.redriving import less_rows
from tests.protocol.bench import Bench, encode, in_memory, on_disk
from tests.simulation.writing import drop_rows, table_of


def publish_runs(bench: Bench, aside: str, none_aside: str) -> None:
    """Runs of an input each, some of which set a row aside."""
    for key in aside + none_aside:
        what = bench.prepare(key, {key: "v1"}, rejects=1 if key in aside else None)
        save_plan(bench.storage, what.run, what.plan)
        publish(bench.storage, bench.ledger, bench.output, what)


def test_an_output_may_be_moved_with_its_state(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    publish_runs(on_disk(before), "ab", "c")
    shutil.move(before, after)
    moved = on_disk(after)
    runs = [*runs_of(moved.storage, moved.output, seen := moved.ledger.look(), seen.rows_aside)]
    assert [run.run_id for run in runs] == ["run-a", "run-b"]
    assert [line["path"] for run in runs for line in lines_of(run)] == ["a", "b"]


def rows_of(*runs: str) -> RowsByRun:
    """A row of each one's first shard."""
    return {run_id: as_ids([0]) for run_id in runs}


def test_files_are_gone_through_once_for_all_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    bench, looks, parsed = in_memory(), list[object](), list[str]()
    publish_runs(bench, "abc", "defg")
    seen, of_json = bench.ledger.look(), IdRuns.of_json

    def look(*given: object) -> dict[str, set[int]]:
        looks.append(given)
        return published_shards(seen, rows_of("run-a", "run-b", "run-c"))

    def parse(text: str) -> IdRuns:
        parsed.append(text)
        return of_json(text)

    monkeypatch.setattr(redrive_shards, "published_shards", look)
    runs = runs_of(bench.storage, bench.output, seen, seen.rows_aside)
    assert [run.published for run in runs] == [{0}] * 3
    assert len(looks) == 1
    monkeypatch.setattr(IdRuns, "of_json", staticmethod(parse))
    assert published_shards(seen, rows_of("run-a", "run-d")) == {"run-a": {0}, "run-d": {0}}
    assert len(parsed) == 2, "files of other runs are passed over"


class AllSuperseded:
    """Keys of rows none of which is the newest of its name."""

    def __init__(self, what: Publication) -> None:
        files = [file for record in what.accepted.records for file in record.files]
        self.staged = {file.name: np.zeros(file.rows, dtype=bool) for file in files}

    @property
    def chosen(self) -> dict[str, Mask]:
        return self.staged

    def left(self, files: list[LedgerFile]) -> Iterator[Mask]:
        return (np.ones(file.rows, dtype=bool) for file in files)


def test_of_many_files_with_rows_set_aside_each_is_compared_with_its_own_rows_alone() -> None:
    """As of images, a row a shard."""
    count, each = 2_000, 50
    rows = np.arange(count * each) << ROW_BITS
    done = {"run-a": np.delete(rows, np.arange(0, len(rows), each))}
    files = [
        LedgerFile(f"{at}.parquet", "x", "run-a", 1, IdRuns.of(part))
        for at, part in enumerate(np.split(rows, count))
    ]
    begun = time.thread_time()
    found = less_rows([*files, replace(files[0], run_id="run-b")], done)
    assert time.thread_time() - begun < 3.0, "it took 20 s"
    assert [(file.path, keep.nonzero()[0].tolist()) for file, keep in found] == [
        *((file.path, [0]) for file in files),
        (files[0].path, [*range(each)]),
    ]


def first_rows_aside(bench: Bench, lengths: dict[str, int]) -> Publication:
    """A run on files of unknown length: of what follows a first row one is filtered, one is ok."""
    plan = first_plan(
        shard_table(Shard(0, name, "v1", 1) for name in lengths), {"ledger_version": 0}
    )
    run = bench.output.run("run-a")
    save_plan(bench.storage, run, plan)
    for shard, (name, rows) in enumerate(lengths.items()):
        ids = [row_id(shard, row) for row in range(rows)]
        batch = RowBatch(
            rows=table_of([(each, '["", "", 0]') for each in ids[2:]]),
            rejected=(Rejection(ids[0], name, 0, "read", "E", "", '["", "", 0]'),),
            filtered=IdRuns.of(as_ids(ids[1:2])),
            ends=(ShardEnd(shard, rows),),
        )
        store(bench.storage, run, plan.digest, batch, encode)
    accepted = accept(load_records(bench.storage, run), plan)
    return Publication(
        *("a", run, plan, accepted, ".json", drop_rows, drop_rows),
        rows={"written": 1, "rejected": 3, "filtered": 2},
    )


def test_only_a_file_that_nobody_could_read_is_read_again_as_a_whole() -> None:
    """Rows that were filtered, or lost to others of their name, are in no published file."""
    bench = in_memory()
    what = first_rows_aside(bench, {"unread": 1, "filtered": 2, "superseded": 3})
    what = replace(what, keys=AllSuperseded(what))
    publish(bench.storage, bench.ledger, bench.output, what)
    seen = bench.ledger.look()
    assert not seen.files
    (run,) = runs_of(bench.storage, bench.output, seen, seen.rows_aside)
    wholes = {line["path"]: line["whole"] for line in lines_of(run)}
    assert wholes == {"unread": True, "filtered": False, "superseded": False}


def encode_as(schema: str, batch: RowBatch) -> Encoded:
    return replace(encode(batch), schema=schema)


def run_with_a_file_unread(bench: Bench, schemas: tuple[str, str]) -> PastRun:
    """Two records: a file, and with another's row the end of one that nobody could read."""
    shards = shard_table(Shard(0, name, "v1", 1) for name in ("a", "b", "unread"))
    run, plan = bench.output.run("run-a"), first_plan(shards, {"ledger_version": 0})
    unread = row_id(2, 0)
    aside = (Rejection(unread, "unread", 0, "read", "E", "", '["", "", 0]'),)
    for shard, (rejected, ends) in enumerate([((), ()), (aside, (ShardEnd(2, 1),))]):
        rows = table_of([(row_id(shard, 0), '["", "", 0]')])
        batch = RowBatch(rows, rejected, ends=(ShardEnd(shard, 1), *ends))
        store(bench.storage, run, plan.digest, batch, partial(encode_as, schemas[shard]))
    save_plan(bench.storage, run, plan)
    (plan_file,) = bench.storage.list(run.plans)
    return PastRun(bench.storage, run, as_ids([unread]), plan_file.path, {0, 1})


def test_a_file_is_known_to_be_unread_though_another_schema_was_written_first() -> None:
    """That record counts for no row, and what it was first to say of lengths is true."""
    (line,) = lines_of(run_with_a_file_unread(in_memory(), ("lost", "pinned")))
    assert (line["path"], line["whole"]) == ("unread", True)


def test_without_its_records_nobody_says_whether_a_file_was_read() -> None:
    bench = in_memory()
    run = run_with_a_file_unread(bench, ("pinned", "pinned"))
    for stat in bench.storage.list(run.folder.records):
        bench.storage.delete(stat.path)
    with pytest.raises(FileNotFoundError, match=r"no record in .*/records has the end of unread"):
        lines_of(run)
