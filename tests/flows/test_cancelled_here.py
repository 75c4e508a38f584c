"""Flow runs that somebody cancels in Prefect and that no worker would end."""

import atexit
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from shutil import copyfile
from typing import Any
from uuid import UUID

import pytest
from prefect import flow, task
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.flow_engine import run_flow
from prefect.runtime import flow_run
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.states import Cancelled, Cancelling, Pending, Running, Scheduled

from flows.backfill import backfill
from flows.batch_inference import batch_inference
from flows.lost_worker import STARTED_FOR
from flows.preview import preview
from flows.search import search
from flows.verify import verify
from tasks.errors import InvalidSpec, RunStopped
from tasks.running_jobs import stop_jobs
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import published, spec_of

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

QUICK = {"kind": "python", "class": "predictors:Double"}
SLOW = {"kind": "python", "class": "predictors:Double", "init": {"seconds": 1.0}}


@pytest.fixture(autouse=True)
def looked_for_often(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in ("flows.cancellation.LOOK_EVERY_SECONDS", "tasks.attempt.MARK_EVERY_SECONDS"):
        monkeypatch.setattr(each, 0.2)


def slow(numbers: Path) -> BatchInferenceSpec:
    """Its many batches take much longer than it takes to see that somebody has cancelled it."""
    return spec_of(numbers, model=SLOW, stages={"read": {"rows_per_batch": 10}})


def cancel(run: object, said: Callable[[], State] = Cancelling) -> None:
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(UUID(str(run)), said())


def cancel_it(flow: Any, flow_run: Any, state: Any) -> None:
    """As somebody does once it runs; Prefect's hook."""
    cancel(flow_run.id)


def now_of(run: Any) -> tuple[str, str | None]:
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(UUID(str(run))).state
    assert state
    return state.name or "", state.message


def test_a_run_that_is_cancelled_once_it_has_published_says_that_nothing_is_left(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flows.batch_inference.await_server", lambda: cancel(flow_run.id))
    spec = spec_of(numbers)
    report = batch_inference(spec)
    assert now_of(report["flow_run_id"]) == ("Cancelled", "done before it could be stopped")
    assert len(published(spec)) == 1000


@pytest.mark.parametrize("ours", [batch_inference, preview])
def test_of_a_workers_run_the_worker_alone_says_that_it_is_cancelled(ours: Any) -> None:
    """It calls the same hook, and says so after it, over what somebody may have said in between."""
    with get_client(sync_client=True) as client:
        run = client.create_flow_run(ours, state=Running())
        cancel(run.id)
    ours.on_cancellation_hooks[-1](ours, run, Cancelling())
    assert now_of(run.id)[0] == "Cancelling"


def test_a_cancelled_preview_stops_and_leaves_nothing(numbers: Path) -> None:
    runs: list[Any] = []
    begun: Any = [lambda _, run, state: runs.append(run.id), cancel_it]
    with pytest.raises(RunStopped):
        preview.with_options(on_running=begun)(slow(numbers), rows=400)
    assert now_of(runs[0]) == ("Cancelled", "stopped")
    assert list(numbers.parent.rglob("previews/*/*")) == []


def test_nobody_tells_a_preview_to_stop_any_more_once_it_deletes_what_it_has_left(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else that word comes between its folder's last file and the folder."""
    begun, ended, at_the_end = list[str](), list[str](), list[int]()

    def stop_slowly(spec: BatchInferenceSpec, flow_run: str) -> None:
        begun.append(flow_run)
        stop_jobs(spec, flow_run)
        time.sleep(1)
        ended.append(flow_run)

    monkeypatch.setattr("flows.cancellation.stop_jobs", stop_slowly)
    monkeypatch.setattr("flows.preview.clear_away", lambda _: at_the_end.append(len(ended)))
    with pytest.raises(RunStopped):
        preview.with_options(on_running=[cancel_it])(slow(numbers), rows=400)
    assert set(at_the_end) == {len(begun)}  # Prefect has it deleted once more


def test_a_cancelled_verification_stops_and_leaves_nothing(numbers: Path) -> None:
    runs: list[Any] = []
    begun: Any = [lambda _, run, state: runs.append(run.id), cancel_it]
    batch_inference(spec_of(numbers, model=QUICK))
    with pytest.raises(RunStopped):
        verify.with_options(on_running=begun)(slow(numbers), rows=1_000)
    assert now_of(runs[0]) == ("Cancelled", "stopped")
    assert list(numbers.parent.rglob("previews/*/*")) == []


def test_a_cancelled_search_is_not_cancelling_for_ever(numbers: Path) -> None:
    runs: list[Any] = []
    begun: Any = [lambda _, run, state: runs.append(run.id), cancel_it]
    with pytest.raises(InvalidSpec):
        search.with_options(on_running=begun)(spec_of(numbers), "any", k=0)
    assert now_of(runs[0]) == ("Cancelled", "stopped")


def test_a_cancelled_backfill_begins_no_other_period(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes less time than passes between two looks."""
    monkeypatch.setattr("flows.cancellation.LOOK_EVERY_SECONDS", 60.0)
    for day in ("2026-01-01", "2026-01-02"):
        (numbers / day).mkdir()
        copyfile(numbers / "0.parquet", numbers / day / "0.parquet")
    source = {"kind": "parquet", "path": f"{numbers}/{{scheduled:%Y-%m-%d}}"}
    sink = {"kind": "parquet", "path": f"{numbers.parent}/out/{{scheduled:%Y-%m-%d}}"}
    spec = spec_of(numbers, source=source, sink=sink)
    monkeypatch.setattr("flows.batch_inference.show_run", lambda *_: cancel(runs[0]))
    runs: list[Any] = []
    begun: Any = [lambda _, run, state: runs.append(run.id)]
    with pytest.raises(RunStopped, match="the flow run was cancelled"):
        backfill.with_options(on_running=begun)(spec, datetime(2026, 1, 1), datetime(2026, 1, 2))
    assert not (numbers.parent / "out/2026-01-02").exists()
    assert now_of(runs[0]) == ("Cancelled", "stopped, and can be resumed")


def test_a_flow_of_ones_own_that_is_cancelled_is_cancelled_once_its_process_ends(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no hook that would say so."""
    at_exit: list[Callable[[], None]] = []
    monkeypatch.setattr(atexit, "register", at_exit.append)
    runs: list[Any] = []

    @flow
    def own() -> None:
        runs.append(flow_run.id)
        cancel(flow_run.id, Cancelled)
        batch_inference(slow(numbers))

    with pytest.raises(RunStopped):
        own()
    assert now_of(runs[0])[0] == "Cancelling"
    (say,) = at_exit
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        say()  # to another server, of which it knows nothing
    say()
    assert now_of(runs[0]) == ("Cancelled", "stopped, and can be resumed")


def test_what_a_flow_of_ones_own_calls_in_a_task_stops_before_its_worker_kills_it(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal by which a worker ends it first is the main thread's alone."""
    at_exit: list[Callable[[], None]] = []
    monkeypatch.setattr(atexit, "register", at_exit.append)

    @task
    def predict() -> None:
        batch_inference(slow(numbers))

    @flow
    def own() -> None:
        monkeypatch.setenv(STARTED_FOR, str(flow_run.id))
        cancel(flow_run.id)
        predict.submit().result()

    with pytest.raises(RunStopped):
        own()
    assert not Path(f"{numbers.parent}/out").exists()
    assert not at_exit, "its worker says that it is over"


def test_a_deployments_run_that_is_cancelled_before_its_process_begins_does_nothing(
    numbers: Path,
) -> None:
    """Prefect lets it begin, where it was said to be over at once."""
    spec = spec_of(numbers)
    given = {"spec": spec.as_json()}
    with get_client(sync_client=True) as client:
        deployment = client.create_deployment(client.create_flow(batch_inference), "cancelled")
        run = client.create_flow_run_from_deployment(deployment, parameters=given)
        client.set_flow_run_state(run.id, Pending())
        client.set_flow_run_state(run.id, Cancelled())
        with pytest.raises(RunStopped, match="while it waited to start"):
            run_flow(batch_inference, flow_run=client.read_flow_run(run.id), parameters=given)
        assert now_of(run.id) == ("Cancelled", "stopped, and can be resumed")
        assert not Path(spec.sink.path).exists()
        client.set_flow_run_state(run.id, Scheduled(), force=True)
        run_flow(batch_inference, flow_run=client.read_flow_run(run.id), parameters=given)
    assert len(published(spec)) == 1000
