"""Records: files first, then what names them; JSON there and back."""

import json
from threading import Barrier

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.protocol import ids
from tasks.protocol.batch import ROW, Rejection, RowBatch, ShardEnd
from tasks.protocol.ids import IdRuns, as_ids
from tasks.protocol.layout import RunFolder
from tasks.protocol.records import (
    READERS,
    Record,
    StagedFile,
    filled_up,
    from_json,
    load_records,
    store,
    to_json,
    unique_in_order,
)
from tasks.protocol.shard_ends import EndRuns
from tests.simulation.storage import Calm, Lost, SimStorage
from tests.simulation.writing import encode

pytestmark = pytest.mark.usefixtures("either_encoding")
RUN = RunFolder("runs/one")
runs = st.lists(st.integers(0, 2**63 - 1)).map(lambda ids: IdRuns.of(as_ids(ids)))
files = st.builds(StagedFile, st.text(), runs, st.integers(0, 2**40), st.text())
seconds = st.floats(0, 1e6).map(lambda spent: round(spent, 6))
records = st.builds(
    Record,
    st.text(),
    st.text(),
    st.text(),
    st.lists(files, max_size=2).map(tuple),
    st.none() | files,
    runs,
    runs,
    st.lists(st.builds(ShardEnd, st.integers(0, 9), st.integers(0, 9)), max_size=2).map(EndRuns.of),
    st.none() | runs.filter(len),
    st.dictionaries(st.text(), seconds),
    st.none() | st.tuples(seconds, seconds),
)


@given(records)
def test_json_gives_the_record_back(record: Record) -> None:
    assert from_json(to_json(record)) == record


@given(st.sets(st.integers(0, 99)), st.sets(st.integers(0, 99)))
def test_what_a_filter_left_and_what_it_took_are_the_same_together(
    left: set[int], taken: set[int]
) -> None:
    ok, filtered = (IdRuns.of(as_ids(sorted(each))) for each in (left, taken))
    together = filled_up(ok.ids(), filtered)
    record = Record("r", "plan", "s", ok=ok, filtered=filtered, together=together)
    named = np.concatenate([each.ids() for each in record.settled])
    assert sorted(named.tolist()) == sorted([*left, *taken])


def test_rows_that_fill_each_others_gaps_are_read_as_one_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ids, "MOST_RUNS", 8)
    left = as_ids(range(0, 100, 3))
    taken = IdRuns.of(as_ids(each for each in range(100) if each % 3))
    batch = RowBatch(pa.table({ROW: left, "value": ["x"] * len(left)}), filtered=taken)
    record = from_json(to_json(store(SimStorage(Calm()), RUN, "plan", batch, encode)))
    assert record.filtered.packed
    assert record.settled == (IdRuns(((0, 100, 1),)),)


@given(st.lists(st.integers(0, 9)))
def test_unique_in_order_keeps_first_places(some: list[int]) -> None:
    assert unique_in_order(as_ids(some)).tolist() == list(dict.fromkeys(some))


class Diary(Calm):
    """Remembers what was written, in order."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def after(self, call: str, path: str, lost: Lost) -> None:
        self.written.append(path)


def some_batch() -> RowBatch:
    rows = pa.table({ROW: pa.array([4, 4, 5], pa.int64()), "value": ["x", "y", "z"]})
    rejection = Rejection(6, "a", 6, "infer", "E", "", '"why"')
    return RowBatch(rows, (rejection,), IdRuns.of(as_ids([7])), (ShardEnd(0, 8),))


def as_stored(record: Record) -> Record:
    return from_json(to_json(record))


def test_record_is_written_last_and_names_all_that_was_written() -> None:
    diary = Diary()
    storage = SimStorage(diary)
    record = store(storage, RUN, "plan", some_batch(), encode)
    *staged, last = diary.written
    assert last == f"{RUN.records}/{record.name}.json"
    assert record.quarantine is not None
    named = [file.name for file in (*record.files, record.quarantine)]
    assert staged == [f"{RUN.staging}/{name}" for name in named]
    assert load_records(storage, RUN) == [as_stored(record)]


def test_record_names_each_parent_once_and_files_each_child() -> None:
    record = store(SimStorage(Calm()), RUN, "plan", some_batch(), encode)
    assert record.ok.ids().tolist() == [4, 5]
    assert sorted(np.concatenate([file.ids.ids() for file in record.files])) == [4, 4, 5]
    assert record.rejected.ids().tolist() == [6]
    assert record.filtered.ids().tolist() == [7]


def test_storing_twice_overwrites_nothing() -> None:
    storage = SimStorage(Calm())
    first = store(storage, RUN, "plan", some_batch(), encode)
    before = dict(storage.objects)
    second = store(storage, RUN, "plan", some_batch(), encode)
    assert before.items() <= storage.objects.items()
    assert load_records(storage, RUN) == [as_stored(first), as_stored(second)]


def test_many_records_are_read_in_order() -> None:
    storage = SimStorage(Calm())
    made = [Record(f"{number:03d}", "plan", "s") for number in range(READERS * 2)]
    for record in reversed(made):
        storage.write(f"{RUN.records}/{record.name}.json", to_json(record))
    assert load_records(storage, RUN) == made


class Slow(SimStorage):
    """Each who reads waits for another."""

    def __init__(self) -> None:
        super().__init__(Calm())
        self.both = Barrier(2, timeout=30)

    def read(self, path: str) -> bytes:
        self.both.wait()
        return super().read(path)


def test_a_few_records_are_read_at_once() -> None:
    """As many as a night of some thousand rows has."""
    storage = Slow()
    made = [Record(f"{number:03d}", "plan", "s") for number in range(4)]
    for record in made:
        storage.write(f"{RUN.records}/{record.name}.json", to_json(record))
    assert load_records(storage, RUN) == made


def test_seconds_are_kept_short() -> None:
    record = Record("r", "plan", "s", seconds={"infer": 1 / 3})
    assert json.loads(to_json(record))["seconds"] == {"infer": 0.333333}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2))))
def test_ends_come_back_from_their_runs(pairs: list[tuple[int, int]]) -> None:
    ends = [ShardEnd(shard, rows) for shard, rows in pairs]
    assert list(EndRuns.of_json(EndRuns.of(ends).as_json())) == ends


def test_ends_of_many_small_files_take_little_room() -> None:
    ends = [ShardEnd(shard, 1) for shard in range(7, 2_055)]
    assert EndRuns.of(ends).as_json() == [[7, 1, 2_048]]
    read = EndRuns.of_json([[3, 8], [4, 1, 2]])
    assert list(read) == [ShardEnd(3, 8), ShardEnd(4, 1), ShardEnd(5, 1)]
