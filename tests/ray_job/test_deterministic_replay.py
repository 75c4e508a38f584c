"""Batches in parts, when Ray has their task done again."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.protocol.batch import ROW, Rejection, RowBatch, ShardEnd, without
from tasks.protocol.ids import IdRuns, as_ids
from tasks.protocol.records import Encoded, Part, store
from tasks.ray_job import deterministic_replay, head_notes
from tasks.ray_job.deterministic_replay import Notes, in_same_parts
from tasks.ray_job.job import Job
from tests.ray_job.test_own_machine import job_of, spec

ROWS = 60


class Died(Exception):
    """The process is gone."""


@dataclass
class Stage:
    """Settles a batch in parts of the sizes given, and the rest at once."""

    sizes: list[int]
    given: list[int] = field(default_factory=list)

    def __call__(self, batch: RowBatch) -> Iterator[RowBatch]:
        left = batch
        for size in [*self.sizes, ROWS]:
            part, left = deterministic_replay.divided(left, size)
            self.given += sorted({*part.ids.tolist()})
            yield settled(part)
            if not len(left.rows):
                return


def settled(part: RowBatch) -> RowBatch:
    """Each fifth row is filtered out, each seventh set aside."""
    ids = sorted({*part.ids.tolist()})
    gone, bad = [i for i in ids if i % 5 == 0], [i for i in ids if i % 7 == 0 and i % 5]
    aside = tuple(Rejection(i, "/in/a", i, "infer", "ValueError", "bad", "") for i in bad)
    left = without(part, as_ids(sorted([*gone, *bad])))
    filtered = IdRuns.of(as_ids([*part.filtered.ids().tolist(), *gone]))
    return RowBatch(left.rows, part.rejected + aside, filtered, part.ends)


def batch() -> RowBatch:
    """Of three rows each third is a child."""
    ids = [number for number in range(100, 100 + ROWS) for _ in range(1 + (number % 3 == 0))]
    before = Rejection(999, "/in/a", 9, "read", "ValueError", "ragged", "")
    rows = pa.table({ROW: pa.array(ids, pa.int64()), "x": ids})
    return RowBatch(rows, (before,), IdRuns.of(as_ids([998])), (ShardEnd(0, 7),))


def job_in(folder: Path) -> Job:
    return job_of(spec(sink={"kind": "parquet", "path": str(folder / "out")}))


def pretend(patch: pytest.MonkeyPatch) -> None:
    """A dictionary in place of Ray's table of notes, and one task."""
    held: dict[bytes, bytes] = {}
    patch.setattr(head_notes, "_internal_kv_put", lambda key, value, **_: held.update({key: value}))

    def of_task(job: Job, batch: RowBatch) -> Notes:
        return Notes(b"task", json.loads(held.get(b"task", b"[]")))

    patch.setattr(Notes, "of_task", of_task)


def record(job: Job, batch: RowBatch) -> None:
    aside = Part(b"", ".parquet", as_ids(each.id for each in batch.rejected))
    store(job.storage, job.run, "", batch, lambda _: Encoded([], aside, ""))


def outcome(made: list[RowBatch]) -> dict[str, Any]:
    """All that became of a batch."""
    return {
        "rows": [each for out in made for each in out.ids.tolist()],
        "filtered": sorted(each for out in made for each in out.filtered.ids().tolist()),
        "aside": [each.id for out in made for each in out.rejected],
        "ends": [end for out in made for end in out.ends],
    }


SIZES = st.lists(st.integers(1, 25), max_size=6)


@given(SIZES, SIZES, st.integers(0, 6), st.sets(st.integers(0, 5)))
def test_what_ray_has_got_and_what_it_gets_is_all_of_it_once(
    first: list[int], second: list[int], got: int, recorded: set[int]
) -> None:
    """Its process dies after some parts, or its node after all; then parts fall otherwise."""
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as folder:
        pretend(patch)
        patch.setattr(deterministic_replay, "SOON_SECONDS", -1.0)
        job, made = job_in(Path(folder)), list[RowBatch]()
        for out in in_same_parts(Stage(first), job)(batch()):
            if len(made) == got:
                break  # it was never handed on
            made.append(out)
        written = [out for number, out in enumerate(made) if number in recorded]
        for out in written:
            record(job, out)
        stage = Stage(second)
        anew = [*in_same_parts(stage, job)(batch())]
        assert outcome([*made, *anew[len(made) :]]) == outcome([*Stage([])(batch())])
        done = [out for out in written if not out.rejected]
        assert not {each for out in done for each in out.ids.tolist()} & {*stage.given}


def test_parts_that_are_lost_with_their_node_are_made_anew(tmp_path: Path) -> None:
    """Ray asks for the task once more for the sake of one part, and takes only that."""
    with pytest.MonkeyPatch.context() as patch:
        pretend(patch)
        made = []
        for out in in_same_parts(Stage([10, 20]), job_in(tmp_path))(batch()):
            made.append(out)
            if len(made) == 2:
                break
        anew = [*in_same_parts(Stage([3, 3, 3]), job_in(tmp_path))(batch())]
        assert outcome(anew[1:2]) == outcome(made[1:2])


def test_parts_made_anew_as_one_may_differ_in_their_numbers(tmp_path: Path) -> None:
    """NumPy has whole numbers until one is missing."""

    class Model(Stage):
        def __call__(self, batch: RowBatch) -> Iterator[RowBatch]:
            for number, part in enumerate(super().__call__(batch)):
                x = part.rows["x"].cast(pa.float64() if number % 2 else pa.int64())
                yield replace(part, rows=part.rows.set_column(1, "x", x))

    with pytest.MonkeyPatch.context() as patch:
        pretend(patch)
        for _ in in_same_parts(Stage([20]), job_in(tmp_path))(batch()):
            break  # noted, and never handed on
        first, *rest = in_same_parts(Model([5]), job_in(tmp_path))(batch())
        assert first.rows["x"].type == pa.float64()
        assert outcome([first, *rest]) == outcome([*Stage([])(batch())])


def test_what_was_set_aside_is_not_done(tmp_path: Path) -> None:
    """An earlier attempt has set it aside; this one died over its second try."""
    with pytest.MonkeyPatch.context() as patch:
        pretend(patch)
        job, (first, rest) = job_in(tmp_path), deterministic_replay.divided(batch(), 6)
        aside = tuple(Rejection(i, "/in/a", i, "infer", "E", "", "") for i in first.ids.tolist())
        record(job, RowBatch(first.rows.slice(0, 0), aside))
        for _ in in_same_parts(Stage([6]), job)(batch()):
            break  # noted, and never handed on
        stage = Stage([])
        list(in_same_parts(stage, job)(batch()))
        assert {*first.ids.tolist(), *rest.ids.tolist()} == {*stage.given}


def test_of_too_many_records_none_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = job_in(tmp_path)
    for part in deterministic_replay.divided(replace(batch(), filtered=IdRuns()), 5):
        record(job, part)
    assert len(deterministic_replay.recorded_ids(job)) == ROWS
    monkeypatch.setattr(deterministic_replay, "MOST_RECORDS", 1)
    assert len(deterministic_replay.recorded_ids(job)) == 0
