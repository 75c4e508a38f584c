"""A job in this process: its stages overlap, it can be stopped, and it makes what Ray makes."""

import asyncio
import gc
import threading
import time
from pathlib import Path
from typing import Any, ClassVar
from weakref import WeakSet

import numpy as np
import pytest
from PIL import Image

from tasks.attempt import FOLLOWED, Attempt
from tasks.clusters.inline import InlineJob
from tasks.errors import JobLost, StageFailed
from tasks.job_look import Look
from tasks.kinds.clusters import LocalCluster
from tasks.plan import PlannedRun
from tasks.previewing import staged_rows
from tasks.protocol.records import all_ids
from tasks.protocol.storage import FsspecStorage
from tasks.ray_job import inline
from tasks.ray_job.job import Job, load_job
from tasks.ray_job.stage_adapter import StageAdapter
from tasks.ray_job.stage_functions import infer_stage, preprocess_stage
from tasks.ray_job.writing import QUARANTINE
from tasks.run import attempts_in
from tasks.spec import BatchInferenceSpec
from tests.clusters.small_job import begin, whole_run
from tests.flows.conftest import spec_of
from tests.kinds.tiny_models import predicted, rows_of, save_images, save_vit

LONG = 60.0
INLINE = {"kind": "inline"}
MEET = threading.Barrier(2, timeout=LONG)


def meet(batch: dict[str, Any]) -> dict[str, Any]:
    """A step that goes on from its second batch when the model is at its first."""
    if batch["id"][0] >= 50:
        MEET.wait()
    return batch


def into_twenty_folders(batch: dict[str, Any]) -> dict[str, Any]:
    """A step that says which folder a row belongs to."""
    return {**batch, "folder": batch["id"] % 20}


class Meets:
    """Doubles x; goes on when the step is at the next batch."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        if batch["id"][0] < 150:
            MEET.wait()
        return {"doubled": batch["x"] * 2}


class Waits:
    """Never ends of itself, but between two calls."""

    calls = 0

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        Waits.calls += 1
        time.sleep(0.1)
        return {"doubled": batch["x"] * 2}


class Breaks:
    """Fails at once, with whatever weights it holds."""

    held: ClassVar[WeakSet["Breaks"]] = WeakSet()

    def __init__(self) -> None:
        Breaks.held.add(self)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        raise ConnectionError("the network is gone")


class HasLoop:
    """Runs coroutines on an event loop that it has from its thread, as scripts do."""

    def __init__(self) -> None:
        self.loop = asyncio.get_event_loop()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"doubled": self.loop.run_until_complete(asyncio.sleep(0, batch["x"] * 2))}


class LoadsSlowly:
    """Takes its time to load."""

    may_be_there = threading.Event()

    def __init__(self) -> None:
        self.may_be_there.wait(LONG)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"doubled": batch["x"] * 2}


class NeverLoads:
    """Hangs, as where a server takes a request and never answers."""

    waits, goes_on = threading.Event(), threading.Event()

    def __init__(self) -> None:
        self.waits.set()
        self.goes_on.wait(LONG)

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        return {"doubled": batch["x"] * 2}


def small(numbers: Path, model: str, **changes: Any) -> BatchInferenceSpec:
    """The numbers' job with a class of this file."""
    return spec_of(numbers, model={"kind": "python", "class": f"{__name__}:{model}"}, **changes)


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """Two hundred rows: id, and x = id."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = tmp_path / "numbers"
    folder.mkdir()
    ids = list(range(200))
    pq.write_table(pa.table({"id": ids, "x": [float(i) for i in ids]}), folder / "0.parquet")
    return folder


@pytest.mark.parametrize(("rows_per_file", "writes"), [(None, 2), (20, 10)])
def test_rows_of_many_folders_wait_for_others_of_their_files(
    numbers: Path, rows_per_file: int | None, writes: int
) -> None:
    """Each batch has a row for each of twenty folders: the first one shows that files are small."""
    sink = {"kind": "parquet", "partition_by": ["folder"], "rows_per_file": rows_per_file}
    planned = whole_run(
        spec_of(
            numbers,
            steps=[{"kind": "python", "function": f"{__name__}:into_twenty_folders"}],
            sink={**sink, "path": str(numbers.parent / "out")},
            stages={"read": {"rows_per_batch": 20}},
        )
    )
    records = [each for each in planned.accepted().records if each.files]
    files = [file for record in records for file in record.files]
    assert len(records) == writes
    assert sorted(file.partition for file in files) == sorted(
        f"folder={each}/" for each in range(20) for _ in range(writes)
    )
    assert sum(file.rows for file in files) == 200


def test_a_step_works_on_a_batch_while_the_model_is_at_the_one_before(numbers: Path) -> None:
    step = {"kind": "python", "function": f"{__name__}:meet"}
    planned = whole_run(small(numbers, "Meets", steps=[step]))
    assert planned.accepted().num_ok == 200


def test_a_model_finds_an_event_loop_as_on_ray(numbers: Path) -> None:
    """There it is called in its process's main thread."""
    planned = whole_run(small(numbers, "HasLoop"))
    assert planned.accepted().num_ok == 200


def test_a_model_may_take_longer_to_load_than_a_row_to_move(numbers: Path) -> None:
    planned, attempt = begin(small(numbers, "LoadsSlowly", timeouts={"no_progress_seconds": 60}))
    attempt.ensure_started()
    while not ((look := attempt.look()).progress or {}).get("is_loading"):
        time.sleep(0.02)
    assert not attempt.stall.lasts(look.progress)
    attempt.stall.since -= 100
    assert not attempt.stall.lasts(look.progress), attempt.stall.error(look.progress)
    LoadsSlowly.may_be_there.set()
    while attempt.look().result is None:
        time.sleep(0.02)
    assert planned.accepted().num_ok == 200


def test_a_job_that_is_stopped_ends_within_the_call_it_is_in(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Waits, "calls", 0)
    _, attempt = begin(small(numbers, "Waits", resources={"max_replicas": 1, "batch_size": 1}))
    running = attempt.ensure_started()
    assert isinstance(running, InlineJob)
    while not Waits.calls:
        time.sleep(0.01)
    attempt.stop()
    assert not running.is_alive()
    assert not any(thread.is_alive() for thread in running.stages.threads)
    assert 1 <= Waits.calls < 200


def test_a_job_that_another_process_stops_ends(numbers: Path) -> None:
    _, attempt = begin(small(numbers, "Waits", resources={"max_replicas": 1, "batch_size": 1}))
    running = attempt.ensure_started()
    attempt.job.storage.write(attempt.job.stopped_file, b"")
    until = time.monotonic() + LONG
    while running.is_alive() and time.monotonic() < until:
        time.sleep(0.02)
    assert Look.of(attempt.job).result["error"]["class"] == "RunStopped"  # type: ignore[index]


def test_of_two_who_make_the_same_attempt_at_once_the_first_ones_result_stays(
    numbers: Path,
) -> None:
    """Whoever finds it stops its own job, and that one's last word was taken for the other's."""
    one = {"max_replicas": 1, "batch_size": 1}
    _, first = begin(small(numbers, "Waits", resources=one))
    second = Attempt(first.job, first.cluster)
    second.running = second.cluster.start(first.job)
    first.stop()
    told = Path(first.job.result_file).read_text()
    assert "the job was stopped" in told
    Path(first.job.result_file).write_text(ended := told.replace("the job was", "the first was"))
    second.stop()
    assert not second.running.is_alive()
    assert Path(first.job.result_file).read_text() == ended


def test_a_job_that_can_leave_no_result_says_why(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk: else nobody would know of that."""

    def write(storage: FsspecStorage, path: str, data: bytes) -> None:
        if "/records/" in path or path.endswith("/result.json"):
            raise OSError(28, "No space left on device", path)
        store(storage, path, data)

    store = FsspecStorage.write
    monkeypatch.setattr(FsspecStorage, "write", write)
    with pytest.raises(JobLost, match=r"(?s)of its log:.*No space left .*/records/.*/result\.json"):
        whole_run(spec_of(numbers))


def test_a_job_that_has_failed_holds_its_model_no_longer(numbers: Path) -> None:
    """Else memory would hold that of each attempt."""
    with pytest.raises(StageFailed, match="the network is gone"):
        whole_run(small(numbers, "Breaks"))
    gc.collect()
    assert FOLLOWED[-1].job.spec.name == "doubling"
    assert not Breaks.held


def test_a_model_that_never_loads_keeps_no_other_job_from_its_own(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inline, "BUILDING_SECONDS", 0.2)
    monkeypatch.setattr(inline, "LEAVE_SECONDS", 0.1)
    _, hangs = begin(small(numbers, "NeverLoads"))
    assert NeverLoads.waits.wait(LONG)
    hangs.stop()
    sink = {"kind": "parquet", "path": str(numbers.parent / "other")}
    try:
        planned, attempt = begin(spec_of(numbers, sink=sink))
        until = time.monotonic() + LONG / 2
        while attempt.look().result is None and time.monotonic() < until:
            time.sleep(0.02)
        assert planned.accepted().num_ok == 200
    finally:
        NeverLoads.goes_on.set()


def test_a_model_and_its_images_have_all_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And predict what the model does alone."""
    vit, source, given = tmp_path / "vit", tmp_path / "images", {}
    save_vit(vit)
    shown = save_images(source, 40)
    task = "image-classification"
    spec = spec_of(
        source,
        source={"kind": "images", "path": str(source)},
        model={"kind": "huggingface", "task": task, "name_or_path": str(vit)},
        resources={"batch_size": 8},
    )

    def preprocess(job: Job, num_threads: int) -> StageAdapter:
        given["preprocess"] = num_threads
        return preprocess_stage(job, num_threads)

    def infer(job: Job, device: str, num_threads: int) -> StageAdapter:
        given["infer"] = num_threads
        return infer_stage(job, device, num_threads)

    for module in ("own_machine", "stage_functions"):
        monkeypatch.setattr(f"tasks.ray_job.{module}.cores", lambda: 3)
    monkeypatch.setattr("tasks.ray_job.inline.preprocess_stage", preprocess)
    monkeypatch.setattr("tasks.ray_job.inline.infer_stage", infer)
    rows = staged_rows(whole_run(spec))
    assert given == {"preprocess": 3, "infer": 3}
    assert rows is not None
    rows, alone = rows.sort_by("path"), predicted(vit, task, rows_of("image", shown))
    assert rows["predicted_label"] == alone["predicted_label"]
    found, wanted = (each["predicted_score"].to_numpy() for each in (rows, alone))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)

    asked = spec.resources.model_copy(update={"num_cpus": 2.0})
    sink = spec.sink.model_copy(update={"path": f"{spec.sink.path}-2"})
    whole_run(spec.model_copy(update={"resources": asked, "sink": sink}))
    assert given == {"preprocess": 1, "infer": 2}


def pictures(folder: Path) -> BatchInferenceSpec:
    """Images, some broken; some are dropped by a step, some too small for a tile, others many."""
    source = folder / "pictures"
    source.mkdir()
    for number in range(30):
        size = (8 + number, 20)
        Image.new("RGB", size, (number, 0, 0)).save(source / f"{number:02d}.png")
    for number in (3, 17):
        (source / f"{number:02d}.png").write_bytes(b"no image")
    return spec_of(
        source,
        source={"kind": "images", "path": str(source)},
        steps=[{"kind": "tile_images", "width": 10, "edges": "drop"}],
        model={"kind": "python", "class": "predictors:Shapes"},
        resources={"num_gpus": 0, "num_cpus": 0.2, "max_replicas": 1, "batch_size": 4},
        stages={"read": {"rows_per_batch": 8, "num_cpus": 0.2}, "preprocess": {"num_cpus": 0.2}},
        errors={"max_rejected_fraction": 0.5},
    )


def lines(folder: Path) -> BatchInferenceSpec:
    """Lines of unknown number, some unreadable, some dropped by a filter, some refused."""
    source = folder / "lines"
    source.mkdir()
    for number in range(3):
        text = [f'{{"id": {n}, "x": {n}.0}}' for n in range(number * 40, number * 40 + 40)]
        text[7] = "no json"
        (source / f"{number}.jsonl").write_text("\n".join(text))
    return spec_of(
        source,
        source={"kind": "jsonl", "path": str(source)},
        steps=[{"kind": "filter", "expression": "id < 30 or id > 50"}],
        model={"kind": "python", "class": "predictors:Picky", "init": {"refuses": [5.0, 77.0]}},
        resources={"num_gpus": 0, "num_cpus": 0.2, "max_replicas": 1, "batch_size": 4},
        stages={"read": {"rows_per_batch": 16, "num_cpus": 0.2}, "preprocess": {"num_cpus": 0.2}},
        errors={"max_rejected_fraction": 0.5},
    )


def run_on(cluster: dict[str, Any], spec: BatchInferenceSpec) -> PlannedRun:
    """The run, to an output of its own."""
    sink = spec.sink.model_copy(update={"path": f"{spec.sink.path}-{cluster['kind']}"})
    raw = {**spec.model_dump(mode="json", by_alias=True), "cluster": cluster}
    return whole_run(BatchInferenceSpec.model_validate(raw).model_copy(update={"sink": sink}))


def outcome(planned: PlannedRun) -> dict[str, Any]:
    """All that a run has recorded, but for how rows were put into batches."""
    accepted, rows = planned.accepted(), staged_rows(planned)
    assert rows is not None
    return {
        "rows": sorted(map(repr, rows.to_pylist())),
        "schema": rows.schema,
        "ok": sorted(all_ids(each.ok for each in accepted.records).tolist()),
        "filtered": sorted(all_ids(each.filtered for each in accepted.records).tolist()),
        "rejected": accepted.rejected.ids().tolist(),
        "ends": (accepted.ends.shards.tolist(), accepted.ends.rows.tolist()),
        "set aside": set_aside(planned),
        "left": planned.gap(accepted, retry_rejected=False).rows,
    }


def set_aside(planned: PlannedRun) -> list[str]:
    """The rows set aside, with their reasons."""
    files = [record.quarantine for record in planned.accepted().records if record.quarantine]
    tables = [
        QUARANTINE.decode(planned.storage.read(f"{planned.run.staging}/{file.name}"))
        for file in files
    ]
    lines = [line for table in tables for line in table.to_pylist()]
    return sorted(repr({**line, "run_id": None}) for line in lines)


@pytest.mark.ray
@pytest.mark.parametrize("job", [pictures, lines])
def test_ray_makes_the_same_rows_and_records(
    job: Any, ray_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = job(tmp_path)
    here = outcome(run_on(INLINE, spec))
    assert here["set aside"]
    assert here["filtered"]
    assert here["left"] == 0
    # A Ray that somebody has named is joined, and none is started.
    monkeypatch.setenv("RAY_ADDRESS", ray_address)
    on_ray = run_on({"kind": "local"}, spec)
    assert outcome(on_ray) == here
    job_file = load_job(on_ray.storage.read(attempts_in(on_ray.storage, on_ray.run)[0]))
    assert job_file.spec.cluster == LocalCluster(address=ray_address)
