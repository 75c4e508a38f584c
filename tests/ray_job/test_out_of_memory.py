"""Where memory runs out, batches are halved, and the job goes on; no row is lost or doubled."""

import gc
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flows.testing import RunSpec
from tasks.errors import InvalidSpec, OutOfMemory, StageFailed
from tasks.kinds.models.batch_limit import BatchLimit
from tasks.kinds.models.machine_errors import is_out_of_memory
from tasks.outputs import output_of
from tasks.protocol.batch import ROW, RowBatch
from tasks.protocol.storage import FsspecStorage
from tasks.ray_job.batch_limits import (
    OTHER_GPU,
    halvings_of,
    is_short,
    key_of,
    name_of,
    remembered_limit,
)
from tasks.ray_job.blame import is_data_error
from tasks.ray_job.stage_adapter import StageAdapter
from tasks.ray_job.stage_error import stage_error
from tasks.reporting.page import halved
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import parse_spec
from tests.ray_job.test_own_machine import job_of
from tests.ray_job.test_stage_adapter import at_a_time

SPEC: dict[str, Any] = {
    "name": "greedy",
    "source": {"kind": "jsonl", "path": "nowhere"},
    "model": {"kind": "python", "class": "greedy:Greedy"},
    "sink": {"kind": "parquet", "path": "nowhere"},
    "environment": {"working_dir": str(Path(__file__).parents[1] / "flows" / "user_code")},
    "resources": {"batch_size": 64},
}
PRINTS = {"model": "weights", "code": "greedy"}
"""Of the spec's model."""


@pytest.fixture(scope="module", autouse=True)
def _quick_collections() -> Iterator[None]:
    """Each time that memory runs out garbage is collected: not what all tests have imported."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


class Greedy:
    """Has memory for so many rows at a time, and says how many it was given."""

    def __init__(self, room: int, cuts_itself: BatchLimit | None = None) -> None:
        self.room, self.limit = room, cuts_itself
        self.given: list[int] = []

    def __call__(self, rows: pa.Table) -> pa.Table:
        size = min(len(rows), self.limit.of(32)) if self.limit else len(rows)
        self.given.append(size)
        if size > self.room:
            np.empty(1 << 60, np.uint8)  # really more than there is
        return rows


def adapter(room: int, fixed: int | None) -> tuple[StageAdapter, Greedy]:
    limit = BatchLimit()
    greedy = Greedy(room, None if fixed else limit)
    return StageAdapter("infer", (greedy,), *at_a_time(fixed), limit), greedy


def rows_of(count: int) -> RowBatch:
    return RowBatch(rows=pa.table({ROW: pa.array(range(count), pa.int64())}), sources={0: "/in/a"})


@settings(max_examples=30)
@given(st.integers(0, 200), st.integers(1, 70), st.one_of(st.none(), st.integers(1, 90)))
def test_every_row_comes_through_once(count: int, room: int, fixed: int | None) -> None:
    stage, greedy = adapter(room, fixed)
    with pytest.MonkeyPatch.context() as patch:
        # To collect garbage takes long in a process that has run other tests.
        patch.setattr("tasks.ray_job.stage_adapter.give_back_memory", lambda: None)
        out = [each for batch in stage(rows_of(count)) for each in batch.ids.tolist()]
    assert out == list(range(count))
    # Each failure halves, and larger batches are tried again ever more seldom.
    tries = (len(greedy.given) // 8).bit_length()
    assert sum(size > room for size in greedy.given) <= 7 + tries


@pytest.mark.parametrize("fixed", [None, 16])
def test_where_no_row_fits_the_error_says_what_helps(fixed: int | None) -> None:
    stage, greedy = adapter(0, fixed)
    with pytest.raises(OutOfMemory, match=r"stage infer failed at /in/a.*resources.memory_gb"):
        list(stage(rows_of(40)))
    assert len(greedy.given) < 9


@pytest.mark.parametrize("fixed", [None, 16])
def test_one_row_that_does_not_fit_makes_no_other_rows_batches_smaller(
    tmp_path: Path, fixed: int | None
) -> None:
    """For a week each batch would have one row."""
    spec = parse_spec({**SPEC, "sink": {"kind": "parquet", "path": str(tmp_path / "out")}})
    job = replace(job_of(spec), pins={"fingerprints": PRINTS})
    limit = remembered_limit(job, "cpu")
    limit.halve(64)  # of an earlier batch, whose rows fit since

    def predict(rows: pa.Table) -> pa.Table:
        if 21 in rows[ROW].to_numpy():
            np.empty(1 << 60, np.uint8)
        return rows

    with pytest.raises(OutOfMemory):
        list(StageAdapter("infer", (predict,), *at_a_time(fixed), limit)(rows_of(40)))
    assert limit.halvings == remembered_limit(job, "cpu").halvings == 1


def test_one_large_row_makes_the_batches_after_it_smaller_for_a_while_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else ten million images would take hours more, and those of the next nights too."""
    spec = parse_spec({**SPEC, "sink": {"kind": "parquet", "path": str(tmp_path / "out")}})
    job = replace(job_of(spec), pins={"fingerprints": PRINTS})
    given: list[int] = []

    def predict(rows: pa.Table) -> pa.Table:
        given.append(len(rows))
        if 21 in rows[ROW].to_numpy() and len(rows) > 1:
            np.empty(1 << 60, np.uint8)
        return rows

    limit = remembered_limit(job, "cpu")
    list(StageAdapter("infer", (predict,), *at_a_time(16), limit)(rows_of(1_000)))
    assert set(given[-20:-1]) == {16}, "the last is what is left"
    assert sum(size < 16 for size in given) < 50
    assert limit.halvings == remembered_limit(job, "cpu").halvings == 0
    assert "batches of 1/1 are tried again" in capsys.readouterr().out


def test_where_all_rows_are_large_larger_batches_are_tried_ever_more_seldom(tmp_path: Path) -> None:
    spec = parse_spec({**SPEC, "sink": {"kind": "parquet", "path": str(tmp_path / "out")}})
    job = replace(job_of(spec), pins={"fingerprints": PRINTS})
    greedy, limit = Greedy(10), remembered_limit(job, "cpu")
    list(StageAdapter("infer", (greedy,), *at_a_time(16), limit)(rows_of(8_000)))
    assert [size for size in greedy.given if size > 10] == [16] * 7
    later = remembered_limit(job, "cpu")
    assert (limit.halvings, later.halvings) == (1, 1)
    list(StageAdapter("infer", (greedy,), *at_a_time(16), later)(rows_of(800)))
    assert set(greedy.given[-100:]) == {8}, "what others have found is not tried again"


def test_what_another_replica_has_found_stays_when_one_takes_its_own_back(tmp_path: Path) -> None:
    spec = parse_spec({**SPEC, "sink": {"kind": "parquet", "path": str(tmp_path / "out")}})
    job = replace(job_of(spec), pins={"fingerprints": PRINTS})
    first, other = remembered_limit(job, "cpu"), remembered_limit(job, "cpu")
    other.halve(64)
    for tried in (64, 32, 16):
        first.halve(tried)
    assert remembered_limit(job, "cpu").halvings == 3
    first.take_back(0)
    assert remembered_limit(job, "cpu").halvings == 1
    assert first.halvings == 0


def test_the_page_tells_of_the_smallest_batches_in_whatever_order_replicas_ran_out() -> None:
    told = [{"device": "a", "halvings": times} for times in (3, 1)]
    assert halved([*told, {"device": "b", "halvings": 1}]) == "1/8 on a, 1/2 on b"


def test_rows_with_many_children_are_halved_by_rows() -> None:
    limit = BatchLimit()
    greedy = Greedy(0, limit)
    ids = pa.array([0] * 50 + [1] * 50, pa.int64())
    batch = RowBatch(rows=pa.table({ROW: ids}), sources={0: "/in/a"})
    with pytest.raises(OutOfMemory):
        list(StageAdapter("infer", (greedy,), limit=limit)(batch))
    assert len(greedy.given) < 20


def test_few_rows_of_many_children_do_not_halve_more_than_once() -> None:
    """What is learnt is kept for a week."""
    limit = BatchLimit()

    def predict(rows: pa.Table) -> pa.Table:
        if limit.rows(32) > 16:
            np.empty(1 << 60, np.uint8)
        return rows

    ids = pa.array([0] * 50 + [1] * 50, pa.int64())
    batch = RowBatch(rows=pa.table({ROW: ids}), sources={0: "/in/a"})
    outs = list(StageAdapter("infer", (predict,), limit=limit)(batch))
    assert [each for out in outs for each in out.ids.tolist()] == ids.to_pylist()
    assert limit.halvings == 1


def test_children_of_a_row_are_not_torn_apart() -> None:
    stage, greedy = adapter(3, 8)
    ids = [0, 0, 0, 1, 1, 2, 2, 2]
    batch = RowBatch(rows=pa.table({ROW: pa.array(ids, pa.int64())}), sources={0: "/in/a"})
    assert [each for out in stage(batch) for each in out.ids.tolist()] == ids
    assert greedy.given == [8, 5, 3, 2, 3]


NO_ENGINE = "was unable to find an engine to execute this computation"
"""What torch says where cuDNN has no room for any of its ways."""


class AcceleratorError(RuntimeError):
    """Named as torch's."""


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MemoryError(), True),
        (np.exceptions.AxisError("out of memory"), False),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: ..."), True),
        (AcceleratorError("CUDA error: out of memory"), True),
        (AcceleratorError("CUDA error: device-side assert triggered"), False),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), True),
        (RuntimeError("cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling ..."), True),
        (RuntimeError(f"GET {NO_ENGINE}"), True),
        (RuntimeError(f"FIND {NO_ENGINE}"), True),
        (RuntimeError('NVML_SUCCESS == r INTERNAL ASSERT FAILED at "CUDACachingAllocator"'), True),
        (RuntimeError("CUDA error: device-side assert triggered"), False),
        (ValueError("the text says: out of memory"), False),
    ],
)
def test_what_counts_as_out_of_memory(error: Exception, expected: bool) -> None:
    assert is_out_of_memory(error) is expected
    assert not (expected and is_data_error(error))
    assert isinstance(stage_error(error), OutOfMemory) is expected
    assert isinstance(stage_error(error), StageFailed)
    assert not isinstance(stage_error(error), InvalidSpec)


def test_what_a_library_says_of_memory_halves_batches() -> None:
    class Fail(Exception):
        """Named as onnxruntime's."""

    room = 3

    def predict(rows: pa.Table) -> pa.Table:
        if len(rows) > room:
            raise Fail("Failed to allocate memory for requested buffer of size 1")
        return rows

    stage = StageAdapter("infer", (predict,), *at_a_time(16), BatchLimit())
    outs = list(stage(rows_of(40)))
    assert [each for out in outs for each in out.ids.tolist()] == list(range(40))
    assert stage.limit.of(16) == 2, "what was learnt is kept"
    room = 0
    with pytest.raises(OutOfMemory, match=r"resources\.memory_gb"):
        list(stage(rows_of(1)))


def test_memory_that_ran_out_behind_another_error_halves_batches() -> None:
    def predict(rows: pa.Table) -> pa.Table:
        try:
            return greedy(rows)
        except MemoryError as error:
            raise RuntimeError("the model failed") from error

    greedy = Greedy(3)
    stage = StageAdapter("infer", (predict,), *at_a_time(16), BatchLimit())
    assert [each for out in stage(rows_of(40)) for each in out.ids.tolist()] == list(range(40))
    greedy.room = 0
    with pytest.raises(OutOfMemory, match=r"MemoryError: Unable to allocate.*memory_gb"):
        list(stage(rows_of(1)))


def test_torch_says_so_in_a_class_of_its_own() -> None:
    import torch

    with pytest.raises(RuntimeError) as raised:
        torch.empty(1 << 60)
    assert is_out_of_memory(raised.value)
    assert is_out_of_memory(torch.OutOfMemoryError())


@pytest.mark.prefect
def test_a_run_goes_on_and_the_next_one_knows(run_spec: RunSpec) -> None:
    rows = [{"id": each} for each in range(200)]
    first = run_spec({**SPEC}, rows=rows)
    assert [row["id"] for row in first.rows] == list(range(200))
    assert first.report["batch_halvings"][-1]["halvings"] == 3  # 64 rows, and there is room for 10
    assert "memory" in first.page
    assert first.rows[0]["most_refused"] == 64
    second = run_spec({**SPEC}, rows=[{"id": each} for each in range(200, 300)])
    assert {row["most_refused"] for row in second.rows if row["id"] >= 200} == {0}
    assert second.report["batch_halvings"] == []


@pytest.mark.parametrize("share", [{"memory_gb": 2}, {"num_gpus": 0.5}, {"batch_size": 32}])
def test_what_fits_is_known_of_the_same_share_of_memory_alone(share: dict[str, Any]) -> None:
    spec = parse_spec(SPEC)
    other = parse_spec({**SPEC, "resources": {**SPEC["resources"], **share}})
    assert key_of(spec, PRINTS, "cpu") == key_of(parse_spec(SPEC), PRINTS, "cpu")
    assert key_of(spec, PRINTS, "cpu") != key_of(other, PRINTS, "cpu")


def test_what_fits_is_known_of_the_same_model_on_the_same_device_alone() -> None:
    spec = parse_spec(SPEC)
    precise = parse_spec({**SPEC, "resources": {**SPEC["resources"], "dtype": "float32"}})
    larger = parse_spec({**SPEC, "model": {**SPEC["model"], "init": {"size": "large"}}})
    keys = {
        key_of(spec, PRINTS, "cpu"),
        key_of(spec, {**PRINTS, "model": "others"}, "cpu"),
        key_of(spec, {**PRINTS, "code": "mended"}, "cpu"),
        key_of(spec, PRINTS, "cuda"),
        key_of(precise, PRINTS, "cpu"),
        key_of(larger, PRINTS, "cpu"),
    }
    assert len(keys) == 6


@pytest.mark.parametrize(
    "other",
    [{"runtime": "openvino"}, {"task": "image-feature-extraction"}, {"options": {"top_k": 2}}],
)
def test_what_fits_is_known_of_the_same_task_and_runtime_alone(other: dict[str, Any]) -> None:
    model = {"kind": "huggingface", "task": "image-classification", "name_or_path": "vit"}
    spec, changed = (parse_spec({**SPEC, "model": {**model, **more}}) for more in ({}, other))
    assert key_of(spec, PRINTS, "cpu") != key_of(changed, PRINTS, "cpu")


def test_what_fits_is_known_however_fast_a_server_is_asked() -> None:
    model = {"kind": "http", "url": "http://a/v1", "model": "m"}
    spec, changed = (
        parse_spec({**SPEC, "model": {**model, **more}}) for more in ({}, {"concurrency": 2})
    )
    assert key_of(spec, PRINTS, "cpu") == key_of(changed, PRINTS, "cpu")


def test_that_memory_ran_out_is_known_of_such_replicas_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = parse_spec({**SPEC, "sink": {"kind": "parquet", "path": str(tmp_path / "out")}})
    assert not is_short(spec, PRINTS)
    told(spec, PRINTS)
    assert is_short(spec, PRINTS)
    assert not is_short(spec, {**PRINTS, "model": "others"})
    larger = spec.resources.model_copy(update={"memory_gb": 8})
    assert not is_short(spec.model_copy(update={"resources": larger}), PRINTS)
    monkeypatch.setattr("tasks.ray_job.batch_limits.DAYS_REMEMBERED", 0)
    assert not is_short(spec, PRINTS)


def told(spec: BatchInferenceSpec, fingerprints: dict[str, str]) -> None:
    """A replica has run out of memory."""
    job = replace(job_of(spec), pins={"fingerprints": fingerprints})
    remembered_limit(job, "cpu").halve(64)


def test_what_replicas_of_many_models_have_told_is_read_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one that is trained each night there is more each night, and each report asks for it."""
    spec = parse_spec({**SPEC, "sink": {"kind": "parquet", "path": str(tmp_path / "out")}})
    for night in range(2):
        told(spec, {**PRINTS, "model": f"of night {night}"})
    both, read = threading.Barrier(2), FsspecStorage.read

    def awaited(self: FsspecStorage, path: str) -> bytes:
        both.wait(60)
        return read(self, path)

    monkeypatch.setattr(FsspecStorage, "read", awaited)
    assert len(halvings_of(*output_of(spec), "run")) == 2


@pytest.mark.prefect
def test_what_fits_is_tried_again_after_a_week(
    run_spec: RunSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_spec({**SPEC}, rows=[{"id": each} for each in range(200)])
    monkeypatch.setattr("tasks.ray_job.batch_limits.DAYS_REMEMBERED", 0)
    again = run_spec({**SPEC}, rows=[{"id": each} for each in range(200, 300)])
    assert {row["most_refused"] for row in again.rows if row["id"] >= 200} == {64}


def test_a_gpu_that_pytorch_does_not_see_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert name_of("cuda") == OTHER_GPU
