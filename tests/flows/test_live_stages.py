"""The four stages as Prefect shows them: side by side, moving, and red where something broke."""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows import attempts
from flows.batch_inference import batch_inference
from tasks.attempt import Attempt
from tasks.errors import BatchInferenceError
from tasks.plan import PlannedRun
from tasks.ray_job.counts import STAGES
from tasks.run import next_attempt
from tasks.timeouts import is_loading
from tests.flows.conftest import published, spec_of
from tests.flows.test_stalled import losing_patience

pytestmark = [pytest.mark.ray, pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]


def on(address: str) -> dict[str, Any]:
    return {"cluster": {"kind": "local", "address": address}}


def stage_runs(since: float, stages: tuple[str, ...] = STAGES) -> dict[str, Any]:
    """The stage tasks' runs that started after a moment, read back from Prefect's API.

    It learns of their states by events, which may come later than the flow's end.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import TaskRunFilter, TaskRunFilterStartTime

    later = TaskRunFilterStartTime(after_=datetime.fromtimestamp(since, UTC))
    until = time.monotonic() + STATES_SECONDS
    with get_client(sync_client=True) as client:
        while True:
            runs: list[Any] = client.read_task_runs(task_run_filter=TaskRunFilter(start_time=later))
            mine = [run for run in runs if run.name in STAGES]
            found = {run.name: run for run in mine}
            are_final = all(run.state and run.state.is_final() for run in mine)
            if (are_final and set(found) >= set(stages)) or time.monotonic() > until:
                return found
            time.sleep(0.2)


def watch(since: float, until: threading.Event, seen: dict[str, set[str]], enough: Path) -> None:
    """Collect what the progress artifacts of a run's stages say while it goes on.

    Args:
        since: when the run began.
        until: it is over.
        seen: gets what they say, by stage.
        enough: is made once stages have been seen to move.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.sorting import ArtifactSort

    with get_client(sync_client=True) as client:
        while not until.wait(0.2):
            for artifact in client.read_artifacts(sort=ArtifactSort.CREATED_DESC, limit=8):
                if not artifact.created or artifact.created.timestamp() < since:
                    continue
                key = (artifact.key or "").removeprefix("doubling-")
                if key in STAGES and artifact.description:
                    seen.setdefault(key, set()).add(artifact.description)
            if all(has_moved(seen.get(stage, set())) for stage in MOVING):
                enough.touch()


MOVING = ("infer", "write")


def has_moved(said: set[str]) -> bool:
    """Whether a stage's artifact has shown several counts before the last, and the time left."""
    counts = {text.split(" rows")[0] for text in said} - {"600"}
    return len(counts) >= 3 and any("s left" in text for text in said)


@pytest.fixture
def heavy(tmp_path: Path) -> Path:
    """Rows so large that reading has to wait for the model: all would fill Ray's store."""
    folder = tmp_path / "heavy"
    folder.mkdir()
    weight = pa.array([bytes(500_000)] * 100)
    for number in range(6):
        ids = list(range(number * 100, number * 100 + 100))
        table = pa.table({"id": ids, "x": [float(each) for each in ids], "weight": weight})
        pq.write_table(table, folder / f"{number}.parquet", compression="none", use_dictionary=[])
    return folder


LOADING_SECONDS = 3.0
STATES_SECONDS = 90.0


def test_stages_overlap_and_move(
    heavy: Path, ray_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.stage_artifacts.REPORT_EVERY_SECONDS", (0.5, 0.5))
    enough = heavy.parent / "enough"
    init = {"seconds": 1.0, "loading": LOADING_SECONDS, "file": str(enough)}
    model = {"kind": "python", "class": "predictors:SlowUntil", "init": init}
    spec = spec_of(heavy, model=model, cost={"per_cpu_hour": 3600}, **on(ray_address))
    spec = spec.model_copy(
        update={"sink": spec.sink.model_copy(update={"keep_columns": ["id", "x"]})}
    )
    seen: dict[str, set[str]] = {}
    loading = losing_patience(monkeypatch, 0.5, is_loading)
    over = threading.Event()
    since = time.time()
    watcher = threading.Thread(target=watch, args=(since, over, seen, enough))
    watcher.start()
    try:
        report = batch_inference(spec)
    finally:
        over.set()
        watcher.join()
    assert report["attempts"] == 1, "it may load for longer than nothing else may stand still"
    assert loading == {"1 replica of infer to load the model"}
    assert report["rows"] == {"read": 600, "written": 600, "rejected": 0, "filtered": 0}
    assert [row["doubled"] for row in published(spec)] == [2.0 * each for each in range(600)]
    runs = stage_runs(since)
    assert set(runs) == set(STAGES)
    assert {run.state.type.value for run in runs.values()} == {"COMPLETED"}
    assert max(run.start_time for run in runs.values()) < min(run.end_time for run in runs.values())
    waited = runs["infer"].start_time - runs["read"].start_time
    assert waited.total_seconds() > LOADING_SECONDS, "infer starts with the model's first row"
    for stage in MOVING:
        assert has_moved(seen[stage]), seen[stage]
    assert "nothing to do" in runs["preprocess"].state.message
    # At one a second for a core: the model's were held while it loaded and worked, of four in all.
    model_seconds = report["stages"]["infer"]["seconds"] + LOADING_SECONDS
    assert model_seconds < report["cost"] < 4 * report["seconds"]["total"]


def break_read(spec: Any) -> None:
    """Rewrite an input as soon as the run is planned."""
    Path(spec.source.path, "5.parquet").write_bytes(
        Path(spec.source.path, "6.parquet").read_bytes()
    )


def break_write(spec: Any) -> None:
    """Put a file where the staging folder should be."""
    (run,) = Path(f"{spec.sink.path}.state/runs").iterdir()
    (run / "staging").write_text("in the way")


def act_before_the_job(patch: pytest.MonkeyPatch, act: Callable[[Any], None]) -> None:
    """Do something, once, as soon as the run has a plan and before its job begins."""

    def next_after(planned: PlannedRun, *given: Any) -> Attempt:
        patch.setattr(attempts, "next_attempt", next_attempt)
        act(planned.spec)
        return next_attempt(planned, *given)

    patch.setattr(attempts, "next_attempt", next_after)


STEP = [{"kind": "python", "function": "predictors:fail_on_500"}]
DYING = {"kind": "python", "class": "predictors:Double", "init": {"dies": 700.0}}


@pytest.mark.parametrize(
    ("stage", "changes", "act", "where"),
    [
        ("read", {}, break_read, "5.parquet"),
        ("preprocess", {"steps": STEP}, None, "5.parquet, row 0"),
        ("infer", {"model": DYING}, None, "7.parquet, row 0"),
        ("write", {}, break_write, ".parquet, row "),
    ],
    ids=STAGES,
)
def test_the_stage_that_raised_is_red_and_no_other(
    numbers: Path,
    ray_address: str,
    stage: str,
    changes: dict[str, Any],
    act: Callable[[Any], None] | None,
    where: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # One of them on Ray: what a job says of its end is the same inline.
    spec = spec_of(numbers, **(on(ray_address) if stage == "write" else {}), **changes)
    since = time.time()
    if act:
        act_before_the_job(monkeypatch, act)
    with pytest.raises(BatchInferenceError) as caught:
        batch_inference(spec)
    assert caught.value.stage == stage
    assert where in str(caught.value)
    runs = stage_runs(since)
    red = [name for name, run in runs.items() if run.state.is_failed() or run.state.is_crashed()]
    assert red == [stage]
    assert where in runs[stage].state.message
    assert not Path(spec.sink.path).exists(), "nothing is published"
