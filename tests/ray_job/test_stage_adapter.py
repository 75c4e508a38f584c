"""Ids, outcomes and timings around user code; rows are conserved."""

import json
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.errors import StageFailed, UserCodeBroke
from tasks.kinds.column_types import AUDIO, MEDIA
from tasks.kinds.models.runtimes.runtime_used import RuntimeLog
from tasks.protocol.batch import ROW, Rejection, RowBatch, ShardEnd
from tasks.protocol.ids import IdRuns, as_ids
from tasks.ray_job import stage_adapter
from tasks.ray_job.adaptive_batching import Pace
from tasks.ray_job.blame import Function
from tasks.ray_job.stage_adapter import LARGE_BYTES, StageAdapter


def batch_of(ids: list[int]) -> RowBatch:
    rows = pa.table({ROW: pa.array(ids, pa.int64()), "x": ids})
    return RowBatch(rows=rows, ends=(ShardEnd(0, len(ids)),), sources={0: "/in/a.csv"})


def noting(sizes: list[int]) -> Function:
    """Changes nothing, and notes how many rows each call gets."""

    def function(rows: pa.Table) -> pa.Table:
        sizes.append(len(rows))
        return rows

    return function


def drop_bad(rows: pa.Table) -> pa.Table:
    """Filters multiples of 3, fails on multiples of 5, triples multiples of 7."""
    ids = rows[ROW].to_pylist()
    if any(each % 5 == 0 for each in ids):
        raise ValueError("a multiple of five")
    kept = [each for each in ids if each % 3]
    out = [each for each in kept for _ in range(3 if each % 7 == 0 else 1)]
    return pa.table({ROW: pa.array(out, pa.int64()), "x": out})


def at_a_time(rows: int | None) -> tuple[Pace, bool]:
    """Of a stage that gets so many rows a call, or that cuts its batches itself."""
    return (Pace.fixed(rows), False) if rows else (Pace(), True)


def check_conservation(ids: list[int], size: int | None) -> None:
    adapter = StageAdapter("preprocess", (drop_bad,), *at_a_time(size))
    outs = list(adapter(batch_of(ids)))
    ok = [each for out in outs for each in out.ids.tolist()]
    rejected = {each.id for out in outs for each in out.rejected}
    filtered = [each for out in outs for each in out.filtered.ids().tolist()]
    assert rejected == {each for each in ids if each % 5 == 0}
    assert filtered == [each for each in ids if each % 3 == 0 and each % 5]
    assert set(ok) == {*ids}.difference(rejected, filtered)
    assert [end for out in outs for end in out.ends] == [ShardEnd(0, len(ids))]
    for each in set(ok):
        holders = [out for out in outs if each in out.ids.tolist()]
        assert len(holders) == 1, "children of one row are in one batch"
        assert holders[0].ids.tolist().count(each) == (3 if each % 7 == 0 else 1)


@given(count=st.integers(0, 80), size=st.one_of(st.none(), st.integers(1, 90)))
def test_every_row_has_one_outcome(count: int, size: int | None) -> None:
    check_conservation(list(range(count)), size)


def test_children_of_an_earlier_stage_stay_together() -> None:
    sizes = list[int]()
    adapter = StageAdapter("infer", (noting(sizes),), pace=Pace.fixed(2), cuts_itself=False)
    list(adapter(batch_of([1, 1, 1, 2, 3, 3])))
    assert sizes == [4, 2]


def test_rows_set_aside_call_by_call_are_not_copied_at_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = 300_000
    aside = tuple(Rejection(at, "a", at, "infer", "E", "bad", "{}") for at in range(rows))

    def run(adapter: StageAdapter, part: pa.Table, batch: RowBatch) -> RowBatch:
        first = part[ROW][0].as_py()
        return RowBatch(part.slice(0, 0), rejected=aside[first : first + len(part)])

    monkeypatch.setattr(StageAdapter, "run", run)
    adapter = StageAdapter("infer", (), pace=Pace.fixed(10), cuts_itself=False)
    begun = time.thread_time()
    (out,) = adapter(batch_of(list(range(rows))))
    assert out.rejected == aside
    assert time.thread_time() - begun < 4.0  # it took 10 s


def test_a_process_that_ray_ends_is_no_fault_of_the_code() -> None:
    def ended(rows: pa.Table) -> pa.Table:
        error = SystemExit(1)
        error.ray_terminate_msg = "The process receives a SIGTERM."  # type: ignore[attr-defined]
        raise error

    with pytest.raises(SystemExit):
        list(StageAdapter("infer", (ended,))(batch_of([1])))


def test_a_slow_stage_comes_out_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_adapter, "EMIT_EVERY_SECONDS", 0.0)
    adapter = StageAdapter("infer", (lambda rows: rows,), pace=Pace.fixed(10), cuts_itself=False)
    outs = list(adapter(batch_of(list(range(50)))))
    assert len(outs) == 5
    check_conservation(list(range(50)), 10)


@pytest.mark.parametrize(("seconds", "parts"), [(20.0, 5), (8.0, 2), (5.0, 1)])
def test_a_part_ends_before_a_call_that_would_make_it_last_too_long(
    seconds: float, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    module = SimpleNamespace(time=lambda: clock[0], monotonic=lambda: clock[0])
    monkeypatch.setattr(stage_adapter, "time", module)

    def slow(rows: pa.Table) -> pa.Table:
        clock[0] += seconds
        return rows

    made = []
    pace = Pace(10, most=10)
    adapter = StageAdapter("infer", (slow,), pace=pace, cuts_itself=False)
    for each in adapter(batch_of(list(range(50)))):
        made.append(each)
        clock[0] += 60.0  # until somebody wants the next part, which is no call's fault
    assert len(made) == parts
    assert pace.rows == 10


def test_a_clock_that_is_set_back_holds_no_part_back(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, wall = [0.0], [1e9]
    module = SimpleNamespace(time=lambda: wall[0], monotonic=lambda: clock[0])
    monkeypatch.setattr(stage_adapter, "time", module)

    def slow(rows: pa.Table) -> pa.Table:
        clock[0] += 20.0
        wall[0] -= 3600.0
        return rows

    adapter = StageAdapter("infer", (slow,), pace=Pace(10, most=10), cuts_itself=False)
    made = list(adapter(batch_of(list(range(50)))))
    assert [each.seconds["infer"] for each in made] == [20.0] * 5
    assert all(each.inferred_at and each.inferred_at[0] < each.inferred_at[1] for each in made)


def test_a_part_ends_before_a_call_that_has_grown_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    module = SimpleNamespace(time=lambda: clock[0], monotonic=lambda: clock[0])
    monkeypatch.setattr(stage_adapter, "time", module)

    def slow(rows: pa.Table) -> pa.Table:
        clock[0] += 12.0 / 64 * len(rows)
        return rows

    adapter = StageAdapter("infer", (slow,), pace=Pace(64), cuts_itself=False)
    made = [len(each.rows) for each in adapter(batch_of(list(range(64 + 128 + 128))))]
    assert made == [64, 128, 128], "12 s, and then 24 each"


def test_a_call_that_takes_a_whole_batch_too_slowly_makes_the_next_ones_smaller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, sizes = [0.0], []
    module = SimpleNamespace(time=lambda: clock[0], monotonic=lambda: clock[0])
    monkeypatch.setattr(stage_adapter, "time", module)

    def function(rows: pa.Table) -> pa.Table:
        sizes.append(len(rows))
        clock[0] += 0.1 * len(rows)
        return rows

    adapter = StageAdapter("infer", (function,), pace=Pace(2_048))
    for _ in range(2):
        list(adapter(batch_of(list(range(1_000)))))
    assert sizes == [1_000, 250, 250, 250, 250]


def test_children_go_with_their_parents_in_calls_of_as_many() -> None:
    sizes = list[int]()
    adapter = StageAdapter("infer", (noting(sizes),), pace=Pace(64, most=64))
    list(adapter(batch_of([number // 10 for number in range(1_000)])))
    assert sizes == [500, 500]


def test_outcomes_of_earlier_stages_are_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_adapter, "EMIT_EVERY_SECONDS", 0.0)
    before = Rejection(99, "/in/a.csv", 99, "read", "ValueError", "ragged", "")
    given_batch = batch_of(list(range(4)))
    earlier = IdRuns.of(as_ids([77, 78, 81]))
    batch = RowBatch(given_batch.rows, (before,), earlier, ends=given_batch.ends)
    outs = list(
        StageAdapter("infer", (lambda rows: rows,), pace=Pace.fixed(2), cuts_itself=False)(batch)
    )
    assert [each for out in outs for each in out.rejected] == [before]
    assert [out.filtered for out in outs] == [earlier, IdRuns()]
    assert [end for out in outs for end in out.ends] == [ShardEnd(0, 4)]


def test_a_batch_without_rows_passes_through() -> None:
    batch = batch_of([])
    (out,) = StageAdapter("infer", (drop_bad,))(batch)
    assert out.ends == batch.ends


def test_what_an_error_says_can_be_stored() -> None:
    """JSON may hold half of a character, as where a text of an emoji was cut off."""

    def function(rows: pa.Table) -> pa.Table:
        raise ValueError("unknown label \ud83d")

    (out,) = StageAdapter("infer", (function,))(batch_of([4]))
    (aside,) = out.rejected
    assert aside.error_message.startswith("unknown label \\ud83d (test_stage_adapter.py:")
    assert pa.array([aside.error_message]).type == pa.string()


def test_a_rejection_says_where_and_what() -> None:
    (out,) = StageAdapter("preprocess", (drop_bad,))(batch_of([4, 5]))
    assert len(out.rejected) == 1
    rejection = out.rejected[0]
    assert (rejection.source, rejection.row, rejection.stage) == ("/in/a.csv", 5, "preprocess")
    line = drop_bad.__code__.co_firstlineno + 4
    assert (
        rejection.error_message == f"a multiple of five (test_stage_adapter.py:{line} in drop_bad)"
    )
    assert rejection.input_json == '{"x": 5}'


def test_a_rejection_tells_media_and_what_is_large_by_size() -> None:
    """As Python's objects an hour of sound is gigabytes, and whoever looks reads no numbers."""
    rows = batch_of([5]).rows
    sound = pa.array([[0.25, -0.5]], pa.list_(pa.float32()))
    rows = rows.append_column(pa.field("sound", sound.type, metadata={MEDIA: AUDIO}), sound)
    rows = rows.append_column("few", sound)
    none = pa.nulls(1, sound.type)
    rows = rows.append_column(pa.field("silent", sound.type, metadata={MEDIA: AUDIO}), none)
    flat = pa.array(np.zeros(LARGE_BYTES, np.int8))
    rows = rows.append_column("many", pa.ListArray.from_arrays([0, len(flat)], flat))
    image = pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((1, 1024, 1024, 2), np.uint8))
    rows = rows.append_column("image", image)
    rows = rows.append_column("__features", rows["many"]).append_column("name", pa.array(["a"]))
    (out,) = StageAdapter("infer", (drop_bad,))(replace(batch_of([5]), rows=rows))
    assert json.loads(out.rejected[0].input_json) == {
        "x": 5,
        "sound": "<12 bytes>",
        "few": [0.25, -0.5],
        "silent": None,
        "many": f"<{LARGE_BYTES + 4} bytes>",
        "image": "<2097152 bytes>",
        "name": "a",
    }


def test_what_a_rejected_row_was_is_json() -> None:
    """NaN is none to strict readers, and null would hide why the row was refused."""

    def function(rows: pa.Table) -> pa.Table:
        raise ValueError("no number")

    numbers = {"x": [float("nan")], "y": [[1.5, float("-inf"), None]]}
    batch = batch_of([4])
    batch = replace(batch, rows=pa.table({ROW: batch.rows[ROW], **numbers}))
    (aside,) = next(StageAdapter("infer", (function,))(batch)).rejected
    assert aside.input_json == '{"x": "NaN", "y": [1.5, "-Infinity", null]}'


def test_batches_cross_processes_whole() -> None:
    (out,) = StageAdapter("preprocess", (drop_bad,))(batch_of(list(range(20))))
    back = RowBatch.from_bytes(out.to_bytes())
    assert back.rows.equals(out.rows)
    assert (back.rejected, back.ends, back.sources) == (out.rejected, out.ends, out.sources)
    assert back.filtered.ids().tolist() == out.filtered.ids().tolist()


def test_a_full_disk_can_be_tried_again_and_sets_no_row_aside() -> None:
    def function(rows: pa.Table) -> pa.Table:
        raise OSError(28, "No space left on device")

    with pytest.raises(StageFailed, match=r"stage infer failed at /in/a.csv, row 4: OSError"):
        list(StageAdapter("infer", (function,))(batch_of([4, 5])))


def test_code_that_breaks_a_rule_is_not_tried_again() -> None:
    adapter = StageAdapter("infer", (lambda rows: pa.table({"y": [1]}),))
    with pytest.raises(UserCodeBroke, match=r"infer failed at /in/a.csv, row 4: 2 rows given"):
        list(adapter(batch_of([4, 5])))


def changing_type(values: dict[int, Any], bad: int | None = None) -> Function:
    """Predicts 1 or what is named; fails on a bad row."""

    def function(rows: pa.Table) -> pa.Table:
        ids = rows[ROW].to_pylist()
        if bad in ids:
            raise ValueError("a bad row")
        return pa.table({"y": [values.get(each, 1) for each in ids]})

    return function


DIFFERING = [
    ({6: "one", 7: "one"}, "int64 and then as string"),
    ({6: [1.0], 7: [1.0]}, "int64 and then as list<item: double>"),
    ({4: 2**60, 6: 0.5, 7: 0.5}, "int64 and then as double"),
]


@pytest.mark.parametrize(("values", "types"), DIFFERING)
def test_a_column_whose_type_changes_between_calls_is_named(
    values: dict[int, Any], types: str
) -> None:
    adapter = StageAdapter("infer", (changing_type(values),), pace=Pace.fixed(2), cuts_itself=False)
    with pytest.raises(
        UserCodeBroke, match=f"^stage infer .* at /in/a.csv, row 6: .*'y' .*{types}"
    ):
        list(adapter(batch_of(list(range(10)))))


@pytest.mark.parametrize(("values", "types"), DIFFERING)
def test_so_is_one_whose_type_changes_in_the_search(values: dict[int, Any], types: str) -> None:
    adapter = StageAdapter(
        "infer", (changing_type(values, bad=5),), pace=Pace.fixed(4), cuts_itself=False
    )
    with pytest.raises(
        UserCodeBroke, match=f"^stage infer .* at /in/a.csv, row 4: .*'y' .*{types}"
    ):
        list(adapter(batch_of(list(range(4, 8)))))


def test_whole_numbers_and_fractions_go_together() -> None:
    adapter = StageAdapter(
        "infer", (changing_type({6: 0.5, 7: None}),), pace=Pace.fixed(2), cuts_itself=False
    )
    (out,) = adapter(batch_of(list(range(4, 8))))
    assert out.rows["y"].to_pylist() == [1.0, 1.0, 0.5, None]


def test_the_pace_is_found_once() -> None:
    sizes = list[int]()
    adapter = StageAdapter("infer", (noting(sizes),), pace=Pace(call_seconds=600.0))
    for count in (640, 3, 640):
        list(adapter(batch_of(list(range(count)))))
    assert sizes == [64, 288, 288, 3, 640], "three rows that were quick are no reason for fewer"


def test_what_cuts_itself_gets_calls_of_as_many_rows() -> None:
    sizes = list[int]()
    adapter = StageAdapter("infer", (noting(sizes),), pace=Pace(600, most=600))
    list(adapter(batch_of(list(range(1_024)))))
    assert sizes == [512, 512], "not a call of 600, and one whose threads have little to do"


def test_quick_calls_get_more_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, sizes = [0.0], list[int]()
    module = SimpleNamespace(time=lambda: clock[0], monotonic=lambda: clock[0])
    monkeypatch.setattr(stage_adapter, "time", module)

    def function(rows: pa.Table) -> pa.Table:
        sizes.append(len(rows))
        clock[0] += 0.0001 * len(rows)
        return rows

    pace = Pace(64, least=64, call_seconds=0.05)
    adapter = StageAdapter("infer", (function,), pace=pace, cuts_itself=False)
    list(adapter(batch_of(list(range(1_000)))))
    assert sizes == [64, 256, 256, 256, 168], "8 times as many would take longer than a moment"


@pytest.mark.parametrize("is_given", [True, False])
def test_calls_of_many_columns_get_more_rows_than_quick_ones(
    is_given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, sizes = [0.0], list[int]()
    module = SimpleNamespace(time=lambda: clock[0], monotonic=lambda: clock[0])
    monkeypatch.setattr(stage_adapter, "time", module)

    def wide(rows: pa.Table) -> pa.Table:
        return pa.table({ROW: rows[ROW]} | {f"c{at}": rows[ROW] for at in range(2_000)})

    def function(rows: pa.Table) -> pa.Table:
        sizes.append(len(rows))
        clock[0] += 0.06
        return rows.select([ROW]) if is_given else wide(rows)

    pace = Pace(64, least=64, call_seconds=0.05)
    adapter = StageAdapter("infer", (function,), pace=pace, cuts_itself=False)
    batch = batch_of(list(range(1_000)))
    list(adapter(replace(batch, rows=wide(batch.rows)) if is_given else batch))
    assert len(sizes) < 6, "in place of 16 calls of 64"


def test_calls_grow_no_more_once_memory_has_run_out() -> None:
    sizes: list[int] = []

    def function(rows: pa.Table) -> pa.Table:
        sizes.append(len(rows))
        if len(rows) > 512:
            raise MemoryError
        return rows

    pace = Pace(64, least=64, call_seconds=600.0)
    adapter = StageAdapter("infer", (function,), pace=pace, cuts_itself=False)
    (out,) = adapter(batch_of(list(range(6_000))))
    assert len(out.rows) == 6_000
    assert sizes[:4] == [64, 512, 4_096, 1_024]
    assert max(sizes[4:]) == 256
    assert adapter.limit.halvings == 0, "what it begins with has room"


def pictures(rows: pa.Table) -> pa.Table:
    """Of the first thousand numbers nothing, of each other 64 KiB."""
    kept = rows.filter(pa.array([each >= 1_000 for each in rows["x"].to_pylist()]))
    return kept.append_column("image", pa.array([bytes(64 << 10)] * len(kept), pa.binary()))


def test_what_outgrows_memory_comes_out_in_parts() -> None:
    adapter = StageAdapter("preprocess", (pictures,))
    outs = list(adapter(batch_of(list(range(20_000)))))
    assert len(outs) > 3
    assert max(out.rows.nbytes for out in outs) < 3 * stage_adapter.BYTES_PER_PART
    assert [each for out in outs for each in out.ids.tolist()] == [*range(1_000, 20_000)]
    assert adapter.pace.rows <= 1_024


def test_what_stays_small_comes_out_whole() -> None:
    adapter = StageAdapter("infer", (lambda rows: rows,))
    assert [len(out.rows) for out in adapter(batch_of(list(range(100_000))))] == [100_000]


def test_a_batch_size_is_as_asked_for() -> None:
    sizes = list[int]()
    adapter = StageAdapter("infer", (noting(sizes),), Pace.fixed(3_000), cuts_itself=False)
    list(adapter(batch_of(list(range(9_001)))))
    assert sizes == [3_000, 3_000, 3_000, 1]


def test_what_cuts_its_batches_itself_gets_as_many_rows_though_memory_runs_out() -> None:
    sizes: list[int] = []

    def function(rows: pa.Table) -> pa.Table:
        sizes.append(len(rows))
        if len(sizes) == 1:
            raise MemoryError
        return rows

    list(StageAdapter("infer", (function,))(batch_of(list(range(2_048)))))
    assert max(sizes) > 64


def test_warming_up_is_no_rows_time() -> None:
    runtimes = RuntimeLog()

    def function(rows: pa.Table) -> pa.Table:
        runtimes.warm_up_seconds += 600.0
        return rows

    adapter = StageAdapter(
        "infer", (function,), pace=Pace.fixed(4), cuts_itself=False, runtimes=runtimes
    )
    (out,) = adapter(batch_of(list(range(8))))
    assert out.seconds["infer"] == pytest.approx(-1_200, abs=300), "it took no time, and less those"
