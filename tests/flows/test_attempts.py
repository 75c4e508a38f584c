"""Attempt after attempt: what can be retried is, and nothing is done twice."""

import gc
import itertools
import json
import math
import time
import weakref
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.flow_engine import FlowRunTimeoutError
from prefect.states import Cancelled, Cancelling, Running
from prefect.task_runners import ProcessPoolTaskRunner

from flows import attempts, cancellation, lost_worker
from flows import batch_inference as flow_runs
from flows.batch_inference import batch_inference
from flows.stage_tasks import run_stages
from tasks import lineage, stage_artifacts
from tasks import publish as publishing
from tasks.attempt import Attempt
from tasks.clusters.inline import Inline
from tasks.errors import (
    InputChanged,
    InvalidSpec,
    RowsMissing,
    RunStopped,
    RunTimedOut,
    StageFailed,
    Unreachable,
)
from tasks.job_look import Look
from tasks.lease import Holder, holder_of, is_held_for, load_holder
from tasks.ledgers import ledger_of
from tasks.outputs import output_of
from tasks.plan import PlannedRun, make_plan
from tasks.protocol.acceptance import Gap
from tasks.publish import publish_planned
from tasks.ray_job.counts import STAGES
from tasks.ray_job.job import Job
from tasks.ray_job.output_schema import LAST_CHANGE
from tasks.report import report_run
from tasks.run import left_to_do, next_attempt
from tasks.running_jobs import tell_to_stop
from tasks.timeouts import Deadline
from tests.flows.conftest import published, spec_of
from tests.flows.jobs_cluster import await_that
from tests.flows.test_lost_device import around_500
from tests.noted_calls import noted_calls
from tests.test_waiting import seen_to_run_the_job

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another attempt, or another question to a storage, follows soon."""
    monkeypatch.setattr("tasks.timeouts.MAX_BACKOFF_SECONDS", 0.1)


def dies_once(numbers: Path, *at: float) -> dict[str, object]:
    init = {"at": [*at] or 500.0, "marker": str(numbers.parent / "died")}
    return {"kind": "python", "class": "predictors:DiesOnce", "init": init}


def test_a_passing_trouble_is_retried(numbers: Path) -> None:
    spec = spec_of(numbers, model=dies_once(numbers), retries={"max_attempts": 3})
    report = batch_inference(spec)
    assert (report["attempts"], report["redone_rows"]) == (2, 0)
    assert [row["doubled"] for row in published(spec)] == [2.0 * each for each in range(1000)]


def test_a_run_that_ends_between_commit_and_report_is_reported_by_the_next(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(numbers)

    def killed(*_: object) -> None:
        raise ZeroDivisionError("as a power cut")

    with monkeypatch.context() as patch:
        patch.setattr(flow_runs, "report_run", killed)
        with pytest.raises(ZeroDivisionError):
            batch_inference(spec)
    manifests = Path(f"{spec.sink.path}.state/manifests")
    assert not manifests.exists()
    report = batch_inference(spec)
    assert (report["published"], report["version"]) == (False, 1)
    (made_up,) = manifests.iterdir()
    found = json.loads(made_up.read_text())
    assert (found["version"], found["rows"]["written"]) == (1, 1000)


def test_attempts_are_bounded_and_the_next_run_goes_on(numbers: Path) -> None:
    spec = spec_of(numbers, model=dies_once(numbers), retries={"max_attempts": 1})
    with pytest.raises(StageFailed, match=r"the device is gone.*given up after 1 attempt;"):
        batch_inference(spec)
    report = batch_inference(spec)
    assert report["resumed_rows"] == 500
    assert len(published(spec)) == 1000


def test_an_attempt_that_records_something_is_the_first_of_as_many_again(numbers: Path) -> None:
    """Nodes that are taken away every few hours are not to end a run that goes on each time."""
    model = dies_once(numbers, 100.0, 300.0, 500.0, 700.0)
    spec = spec_of(numbers, model=model, retries={"max_attempts": 2})
    report = batch_inference(spec)
    assert (report["attempts"], report["redone_rows"]) == (5, 0)
    assert [row["doubled"] for row in published(spec)] == [2.0 * each for each in range(1000)]


@pytest.mark.parametrize(("most", "tried"), [(1, 1), (2, 2), (3, 3)])
def test_attempts_that_record_nothing_are_bounded(numbers: Path, most: int, tried: int) -> None:
    model = dies_once(numbers, *(float(each) for each in range(4)))  # in the first batch
    spec = spec_of(numbers, model=model, retries={"max_attempts": most})
    with pytest.raises(StageFailed, match="the device is gone") as raised:
        batch_inference(spec)
    assert raised.value.attempts == tried


def test_types_that_the_first_batches_do_not_tell_come_from_later_ones(numbers: Path) -> None:
    """What was written before they were known is made anew."""
    model = {"kind": "python", "class": "predictors:FindsLate", "init": {"first": 320.0}}
    report = batch_inference(spec := spec_of(numbers, model=model))  # with one attempt at most
    assert (report["attempts"], report["rows"]["written"]) == (2, 1000)
    rows = published(spec)
    assert [row["score"] for row in rows] == [None] * 320 + [float(x) for x in range(320, 1000)]
    assert [row["share"] for row in rows] == [0.0] * 640 + [x / 4 for x in range(640, 1000)]
    found = [[], [{"at": 320.0, "more": None}], [{"at": 640.0, "more": 640.0}]]
    assert [rows[at]["found"] for at in (319, 320, 640)] == found


def test_a_late_writer_that_widens_a_type_mixes_none(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of a job thought dead, while the run is judged: its type counts for all rows, or none."""
    judged = publishing.brings_rows_to_judge
    calls = iter([True])

    def widens(planned: PlannedRun) -> bool:
        if next(calls, False):
            (first,) = planned.storage.list(planned.run.schemas)
            known = pa.ipc.read_schema(pa.py_buffer(planned.storage.read(first.path)))
            wide = known.set(known.get_field_index("id"), pa.field("id", pa.float64()))
            path = f"{planned.run.schemas}/{LAST_CHANGE:020d}-late.arrow"
            planned.storage.write(path, wide.serialize().to_pybytes())
        return judged(planned)

    monkeypatch.setattr(publishing, "brings_rows_to_judge", widens)
    report = batch_inference(spec := spec_of(numbers))
    assert (report["attempts"], report["version"]) == (2, 1)
    assert [row["id"] for row in published(spec)] == list(range(1000))
    files = Path(spec.sink.path).rglob("*.parquet")
    assert {pq.read_schema(file).field("id").type for file in files} == {pa.float64()}
    kept = bytes.fromhex(ledger_of(spec).look().entries[1]["schema"])
    assert pa.ipc.read_schema(pa.py_buffer(kept)).field("id").type == pa.float64()


def test_nothing_is_published_where_all_that_was_new_has_gone(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(numbers, retries={"max_attempts": 2})
    assert batch_inference(spec)["version"] == 1
    new = numbers / "new.parquet"
    pq.write_table(pa.table({"id": [1000], "x": [1000.0]}), new)

    def vanish(*_: object) -> None:
        new.unlink()
        raise InputChanged("the input is gone")

    monkeypatch.setattr(attempts, "run_stages", vanish)
    report = batch_inference(spec)
    assert (report["published"], report["attempts"]) == (False, 1)
    assert len(published(spec)) == 1000
    assert ledger_of(spec).look().version == 1


def failing_storage(monkeypatch: pytest.MonkeyPatch, times: float) -> None:
    """Have the output's storage fail so many times when a run asks what is left to do."""
    asked = itertools.count(1)

    def ask(planned: PlannedRun, *, tried: bool) -> Gap:
        if next(asked) <= times:
            raise ConnectionError("no route")
        return left_to_do(planned, tried=tried)

    monkeypatch.setattr(attempts, "left_to_do", ask)


def test_a_storage_that_fails_between_attempts_is_waited_for(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    failing_storage(monkeypatch, 2)
    assert batch_inference(spec_of(numbers))["published"]
    assert caplog.text.count("no route; retrying for at most 600 s") == 1


def test_one_that_fails_while_rows_are_published_is_named_and_waited_for(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answers = iter([ConnectionError("no route"), PermissionError("may not write")])

    def publish(planned: PlannedRun) -> int:
        if (error := next(answers, None)) is not None:
            raise error
        return publish_planned(planned)

    monkeypatch.setattr(lineage, "publish_planned", publish)
    assert batch_inference(spec_of(numbers))["published"]
    assert caplog.text.count("no route; retrying for at most 600 s") == 1


def test_a_storage_that_stays_away_is_named(numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing_storage(monkeypatch, math.inf)
    spec = spec_of(numbers, timeouts={"unreachable_seconds": 1})
    with pytest.raises(Unreachable, match=r"sink\.path: the storage does not answer.*no route"):
        batch_inference(spec)


def test_no_run_fails_since_prefect_cannot_show_it(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*given: object, **named: object) -> None:
        raise ConnectionError("500 Internal Server Error")

    monkeypatch.setattr(stage_artifacts, "create_progress_artifact", refuse)
    assert batch_inference(spec_of(numbers))["published"]
    assert "the stage infer cannot be shown in Prefect: ConnectionError('500" in caplog.text


def test_a_run_has_an_end(numbers: Path) -> None:
    slow = {"kind": "python", "class": "predictors:Double", "init": {"seconds": 1.0}}
    spec = spec_of(numbers, model=slow, timeouts={"run_seconds": 3})
    with pytest.raises(RunTimedOut, match=r"timeouts\.run_seconds 3"):
        batch_inference(spec)
    assert not Path(spec.sink.path).exists()


def test_a_time_limit_of_the_flows_own_is_told_as_what_it_is(numbers: Path) -> None:
    """A longer one of the run's is not what has passed, and Prefect has a state for the other."""
    for seconds in (2, 20):
        slow = {"kind": "python", "class": "predictors:Double", "init": {"seconds": seconds / 10}}
        sink = {"kind": "parquet", "path": str(numbers.parent / f"out-{seconds}")}
        spec = spec_of(numbers, model=slow, sink=sink, timeouts={"run_seconds": 600})
        limited = batch_inference.with_options(timeout_seconds=seconds)
        state: Any = limited(spec, return_state=True)
        assert state.name == "TimedOut"
        with pytest.raises(FlowRunTimeoutError, match=rf"timed out after {seconds}\.0 second"):
            state.result()
        assert not Path(spec.sink.path).exists()
        pages = [*Path(f"{spec.sink.path}.state").glob("runs/*/report.md")]
        if pages:  # on a busy machine two seconds may have passed before there was a plan
            break
    (page,) = pages
    said = f"the run took longer than timeout_seconds {seconds} of its flow; run it again to"
    assert said in page.read_text()


@pytest.mark.parametrize("run_seconds", [None, 600])
def test_what_keeps_a_job_from_starting_is_told_and_not_tried_again(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, run_seconds: float | None
) -> None:
    """Also where the run has an end, for which it is waited in another way."""
    asked: list[Job] = []

    def refuse(_: Inline, job: Job) -> Any:
        asked.append(job)
        raise InvalidSpec("environment.pip: there is no such package")

    monkeypatch.setattr(Inline, "start", refuse)
    spec = spec_of(numbers, retries={"max_attempts": 3}, timeouts={"run_seconds": run_seconds})
    with pytest.raises(InvalidSpec, match="there is no such package"):
        batch_inference(spec)
    assert len(asked) == 1


def test_no_attempt_is_made_when_a_runs_time_is_up(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its job would be started, a cluster made for it perhaps, and both be ended at once."""
    retries, timeouts = {"max_attempts": 3}, {"run_seconds": 600}
    spec = spec_of(numbers, model=dies_once(numbers), retries=retries, timeouts=timeouts)

    def wait_for_long(tried: int) -> float:
        late = SimpleNamespace(**{**vars(time), "monotonic": lambda: time.monotonic() + 600})
        monkeypatch.setattr("tasks.timeouts.time", late)
        return 0.0

    monkeypatch.setattr(attempts, "backoff_seconds", wait_for_long)
    with pytest.raises(RunTimedOut, match=r"longer than timeouts.run_seconds 600"):
        batch_inference(spec)
    assert len([*Path(f"{spec.sink.path}.state/runs").glob("*/attempts/*/job.json")]) == 1


def test_files_have_as_many_rows_as_asked_for(numbers: Path) -> None:
    sink = {"kind": "parquet", "path": str(numbers.parent / "out"), "rows_per_file": 200}
    spec = spec_of(numbers, sink=sink)
    batch_inference(spec)
    files = Path(spec.sink.path).rglob("*.parquet")
    assert [pq.read_metadata(file).num_rows for file in files] == [200] * 5
    assert [row["id"] for row in published(spec)] == list(range(1000))


def test_a_changed_input_is_predicted_again_alone(numbers: Path) -> None:
    spec = spec_of(numbers)
    batch_inference(spec)
    changed = numbers / "3.parquet"
    changed.write_bytes((numbers / "4.parquet").read_bytes())
    report = batch_inference(spec)
    assert (report["version"], report["inputs_skipped"], report["rows"]["written"]) == (2, 9, 100)
    ids = [row["id"] for row in published(spec)]
    assert ids == sorted([*range(300), *range(400, 500), *range(400, 1000)])


@pytest.mark.ray
def test_rows_that_kill_their_process_do_not_do_so_for_ever(
    tmp_path: Path, ray_address: str
) -> None:
    model = {"kind": "python", "class": "predictors:KillsItsProcess", "init": {"rows": 10}}
    spec = around_500(tmp_path, ray_address, model=model)
    with pytest.raises(StageFailed, match=r"(?i)actor.*died") as raised:
        batch_inference(spec)
    assert (raised.value.stage, raised.value.row) == ("infer", 11)
    assert raised.value.source == str(tmp_path / "around" / "0.parquet")
    assert "most recently on 1 row: " in str(raised.value)
    assert not Path(spec.sink.path).exists(), "nothing is published"


@pytest.mark.ray
def test_a_batch_that_does_not_fit_into_memory_is_halved(numbers: Path, ray_address: str) -> None:
    for file in sorted(numbers.iterdir())[1:]:
        file.unlink()
    model = {"kind": "python", "class": "greedy:Confined"}
    spec = spec_of(numbers, model=model, cluster={"kind": "local", "address": ray_address})
    with seen_to_run_the_job(spec):  # a driver that has joined the Ray while the run was planned
        report = batch_inference(spec)
    rows = published(spec)
    assert [row["id"] for row in rows] == list(range(100))
    # 50 rows at 100 MiB each are refused in a process that may take 1 GiB more, and 6 are not.
    assert max(row["most_refused"] for row in rows) == 50
    assert {each["halvings"] for each in report["batch_halvings"]} == {1, 2, 3}
    assert report["attempts"] == 1


def test_a_run_that_is_started_again_does_not_throw_its_own_work_away(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an automation starts the same flow run again whose worker died."""
    monkeypatch.setattr(flow_runs, "own_flow_runs", lambda: ("the same",))
    spec = spec_of(numbers, model=dies_once(numbers), retries={"max_attempts": 1})
    with pytest.raises(StageFailed):
        batch_inference(spec, restart=True)
    assert batch_inference(spec, restart=True)["resumed_rows"] == 500


def test_a_process_whose_run_has_failed_holds_the_output_no_more(numbers: Path) -> None:
    """A notebook goes on, and others would wait until it is closed."""
    spec = spec_of(numbers, model=dies_once(numbers), retries={"max_attempts": 1})
    with pytest.raises(StageFailed):
        batch_inference(spec)
    storage, output = output_of(spec)
    (run,) = map(output.run, storage.folders(output.runs))
    holder = load_holder(storage, run.lease)
    assert holder
    assert holder.is_this_process()
    assert holder_of(storage, run, or_own=True) is None
    assert is_held_for(storage, run, "another") is not is_held_for(storage, run, *holder.flow_runs)


def test_a_run_is_held_until_it_is_reported(numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes next would report it too, as of a process that has ended."""
    held = list[Holder | None]()

    def look_and_report(planned: PlannedRun, *more: Any) -> Any:
        held.append(holder_of(planned.storage, planned.run, or_own=True))
        return report_run(planned, *more)

    monkeypatch.setattr(flow_runs, "report_run", look_and_report)
    assert batch_inference(spec_of(numbers))["published"]
    assert len(held) == 1
    assert held[0]


def test_a_run_that_was_stopped_is_gone_on_with_by_who_starts_it_again(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was said to the one before is not said to this one, whose job may still live."""
    spec = spec_of(numbers)
    planned = make_plan(spec)
    job = next_attempt(planned, left_to_do(planned, tried=False)).job
    assert [each.id for each in tell_to_stop(spec).unseen] == [job.id]
    taken_back = noted_calls(monkeypatch, "delete")
    assert batch_inference(spec)["published"]
    assert job.stopped_file in taken_back


def test_a_run_that_is_stopped_between_two_attempts_makes_no_other(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of(numbers, model=dies_once(numbers), retries={"max_attempts": 3})

    def stop_meanwhile(tried: int) -> float:
        (stopped,) = Path(f"{spec.sink.path}.state/runs").glob("*/attempts/*/result.json")
        stopped.with_name("stopped").touch()
        return 0.0

    with monkeypatch.context() as waiting:
        waiting.setattr(attempts, "backoff_seconds", stop_meanwhile)
        with pytest.raises(RunStopped, match="run again to go on"):
            batch_inference.with_options(retries=2)(spec)
    assert batch_inference(spec)["resumed_rows"] == 500, "another run is not stopped by that"


@pytest.mark.parametrize("said", [Cancelling, Cancelled])
def test_a_run_that_no_worker_started_is_cancelled_in_prefect_like_others(
    numbers: Path, monkeypatch: pytest.MonkeyPatch, said: Callable[[], State]
) -> None:
    """Prefect would have nobody end it: it would go on, publish, and be `Cancelling` for ever."""
    for each in ("flows.cancellation.LOOK_EVERY_SECONDS", "tasks.attempt.MARK_EVERY_SECONDS"):
        monkeypatch.setattr(each, 0.2)
    slow = {"kind": "python", "class": "predictors:Double", "init": {"seconds": 0.5}}
    spec = spec_of(numbers, model=slow, stages={"read": {"rows_per_batch": 10}})
    cancelled = []

    def cancel() -> None:
        runs = Path(f"{spec.sink.path}.state/runs")
        await_that(lambda: any(runs.glob("*/records/*.json")), "no batch is recorded")
        (lease,) = runs.glob("*/lease.json")
        cancelled.append(UUID(json.loads(lease.read_text())["flow_runs"][0]))
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(cancelled[0], said())

    meanwhile = Thread(target=copy_context().run, args=(cancel,))
    meanwhile.start()
    with pytest.raises(RunStopped):
        batch_inference(spec)
    meanwhile.join()
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(cancelled[0]).state
    assert state is not None
    assert state.name == "Cancelled"
    assert not Path(spec.sink.path).exists()


def test_a_run_that_is_cancelled_before_its_job_is_there_stops_once_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cancellation, "LOOK_EVERY_SECONDS", 0.01)
    monkeypatch.setattr(cancellation, "is_to_end", lambda *_: True)
    looks: list[str] = []
    monkeypatch.setattr(cancellation, "stop_jobs", lambda _, run: looks.append(run))
    with cancellation.heeding_cancellation(spec_of(tmp_path), ("own", "caller")):
        await_that(lambda: len(looks) > 2, "it is looked for once")
    assert set(looks) == {"own"}


@pytest.mark.parametrize(
    ("said", "of", "workers", "stops"),
    [
        (Cancelling, "own", "own", False),
        (Cancelled, "own", "own", False),
        (Cancelling, "own", "outer", True),
        (Cancelling, "outer", "outer", True),
        (Cancelled, "outer", "outer", True),
        (Cancelled, "caller", "own", False),
        (Cancelling, "caller", "caller", False),
    ],
    ids=[
        *("by its worker", "by its worker now", "a called flow", "around a command", "the same"),
        *("who called it elsewhere", "who called it, by its worker"),
    ],
)
def test_what_no_worker_ends_stops_where_a_worker_has_started_it_or_what_it_is_within(
    said: Callable[[], State],
    of: str,
    workers: str,
    stops: bool,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(cancellation, "LOOK_EVERY_SECONDS", 0.01)
    monkeypatch.setenv(lost_worker.STARTED_FOR, workers)
    asked: list[str] = []
    looks: list[str] = []
    now_cancelling: list[str] = []

    def state_of(run: str) -> State:
        asked.append(run)
        return said() if run == of else Running()

    monkeypatch.setattr(cancellation, "state_of", state_of)
    monkeypatch.setattr(cancellation, "cancel_in_earnest", now_cancelling.append)
    monkeypatch.setattr(cancellation, "stop_jobs", lambda _, run: looks.append(run))
    with cancellation.heeding_cancellation(spec_of(tmp_path), ("own", "caller")):
        await_that(lambda: asked.count("own") > 3, "nobody looks")
    assert bool(looks) is stops
    assert bool(now_cancelling) is (said is Cancelled and of == "own")


def test_a_run_that_is_cancelled_while_it_waits_for_its_retry_is_not_begun_anew(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefect lets it begin: of those that no worker started, nobody ends the process."""
    spec = spec_of(numbers, model=dies_once(numbers))
    runs, states = list[UUID](), list[str | None]()

    def cancel_while_it_waits(seconds: float) -> None:
        with get_client(sync_client=True) as client:
            states.append(client.read_flow_run(runs[0]).state_name)
            client.set_flow_run_state(runs[0], Cancelling())

    waits = SimpleNamespace(**{**vars(time), "sleep": cancel_while_it_waits})
    monkeypatch.setattr("prefect.utilities.engine.time", waits)
    begun: Any = [lambda _, run, state: runs.append(run.id)]
    twice = batch_inference.with_options(retries=2, retry_delay_seconds=60, on_running=begun)
    with pytest.raises(RunStopped, match="while it waited to start"):
        twice(spec)
    assert states == ["AwaitingRetry"]
    assert not Path(spec.sink.path).exists()


def test_a_runner_of_tasks_in_other_processes_is_refused_before_anything_is_planned(
    numbers: Path,
) -> None:
    """No stage's task could follow the job from there; it ended in a TypeError about pickling."""
    spec = spec_of(numbers)
    runner: Any = ProcessPoolTaskRunner()
    elsewhere = batch_inference.with_options(task_runner=runner)
    with pytest.raises(InvalidSpec, match=r"^task_runner: ProcessPoolTaskRunner .* leave task_ru"):
        elsewhere(spec)
    assert not Path(f"{spec.sink.path}.state").exists()


def test_a_storage_that_fails_while_publishing_is_waited_for(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = itertools.count(1)

    def publish(planned: PlannedRun) -> int:
        if next(asked) <= 2:
            raise ConnectionError("no route")
        return publish_planned(planned)

    monkeypatch.setattr(lineage, "publish_planned", publish)
    spec = spec_of(numbers)
    assert batch_inference(spec)["published"]
    assert len(published(spec)) == 1000


def test_rows_that_are_missed_while_publishing_are_done_again(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that comes late counts before others, which may leave a gap."""
    asked = itertools.count(1)

    def publish(planned: PlannedRun) -> int:
        if next(asked) == 1:
            for record in Path(planned.run.records).iterdir():
                record.unlink()
            raise RowsMissing("of 1,000 rows there is no record that counts")
        return publish_planned(planned)

    monkeypatch.setattr(lineage, "publish_planned", publish)
    spec = spec_of(numbers)
    assert batch_inference(spec)["attempts"] == 2
    assert len(published(spec)) == 1000


def test_a_plan_does_not_outlive_its_run(numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backfill of a year would hold three hundred of them."""
    plans: list[weakref.ref[PlannedRun]] = []

    def remember(planned: PlannedRun, *given: Any) -> Attempt:
        plans.append(weakref.ref(planned))
        return next_attempt(planned, *given)

    monkeypatch.setattr(attempts, "next_attempt", remember)
    batch_inference(spec_of(numbers))
    gc.collect()
    assert [plan() for plan in plans] == [None]


def test_an_error_in_a_stage_that_was_done_is_not_lost(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray reads once more what a node has lost, and finds the input changed."""

    class ReadAgain(Attempt):
        """Says that all is read, and later that reading failed."""

        looks = 0

        def ensure_started(self) -> Any:
            self.running = SimpleNamespace(where="there", stop=lambda: None)
            return self.running

        def look(self) -> Look:
            self.looks += 1
            counts = {"rows": 1, "started": 1.0, "updated": 2.0, "total": 1, "rejected": 0}
            stages = {stage: {**counts, "state": "running"} for stage in STAGES}
            stages["read"]["state"] = "done"
            said = {"state": "running", "works_at": "infer", "waits_for": None, "at": 2.0}
            self.last = Look({**said, "stages": stages})
            if self.looks > 20:
                where = {"stage": "read", "source": "/in/a", "row": None}
                told = {"class": "InputChanged", "message": "it changed", **where}
                self.last = Look(self.last.progress, {"state": "failed", "error": told})
            return self.last

    planned = make_plan(spec_of(numbers))
    job = next_attempt(planned, left_to_do(planned, tried=False)).job
    following = ReadAgain(job, cluster=SimpleNamespace())

    @flow(**flow_runs.OURS)
    def follow() -> None:
        run_stages(following, Deadline(None))

    with pytest.raises(InputChanged, match=r"read.*/in/a.*it changed"):
        follow()
