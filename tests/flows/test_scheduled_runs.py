"""The scheduled time on a real server: of a late run, a retried one, one that crashed."""

import asyncio
import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from prefect import flow

from deployments.stack import lost_runs
from flows.backfill import backfill
from flows.backfill import bring_up as really_bring_up
from flows.batch_inference import batch_inference
from flows.cancellation_hooks import stop_backfill_jobs, stop_its_jobs
from flows.meant_time import time_meant_by
from flows.orphaned_runs import end_its_runs
from tasks.errors import Unreachable
from tasks.spec_file import parse_spec
from tests.flows.daily import DAY, daily_spec, ids_in, put

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

MEANT = datetime(2026, 3, 5, 2, tzinfo=UTC)


def prefect(*arguments: str) -> None:
    """Prefect's own command line, in a process of its own."""
    from prefect.settings import PREFECT_API_URL

    environment = {**os.environ, "PREFECT_API_URL": PREFECT_API_URL.value() or ""}
    command = [str(Path(sys.executable).with_name("prefect")), "--no-prompt", *arguments]
    with tempfile.TemporaryDirectory() as empty:
        # Prefect takes a copy of the folder that it is called in.
        subprocess.run(command, env=environment, cwd=empty, check=True, timeout=300)


def retry(run: Any) -> None:
    """Prefect's own `flow-run retry`, in this process."""
    from prefect.cli.flow_run import retry as command

    with pytest.raises(SystemExit) as ended:
        asyncio.run(command(str(run.id)))
    assert not ended.value.code


def execute_here(run: Any) -> None:
    """What that command has a process of its own do."""
    from prefect.flow_engine import run_flow

    run = look(run)
    run_flow(batch_inference, flow_run=run, parameters=run.parameters, return_type="state")


def scheduled_run(spec: Any) -> Any:
    """A flow run of a deployment, meant for a time long past, marked late by the server."""
    from prefect.client.orchestration import get_client
    from prefect.states import Late

    with get_client(sync_client=True) as client:
        deployment = client.create_deployment(
            client.create_flow(batch_inference),
            name="nightly",
            entrypoint="flows.batch_inference.batch_inference",
        )
        parameters = {"spec": spec.model_dump(mode="json", by_alias=True)}
        late: Any = Late(scheduled_time=MEANT)
        return client.create_flow_run_from_deployment(deployment, parameters=parameters, state=late)


def look(run: Any) -> Any:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        return client.read_flow_run(run.id)


def test_late_retried_and_crashed_runs_keep_their_time(tmp_path: Path) -> None:
    from prefect.client.orchestration import get_client
    from prefect.states import AwaitingRetry, Crashed

    spec = daily_spec(tmp_path, scheduled={"timezone": "Europe/Berlin", "offset": "-1d"})
    run = scheduled_run(spec)
    prefect("flow-run", "execute", str(run.id))
    failed = look(run).state
    assert failed.name == "Failed"
    assert "in/2026-03-04' does not exist" in failed.message
    put(tmp_path, "2026-03-04")
    retry(run)
    again = look(run)
    assert again.next_scheduled_start_time > MEANT, "it is to start now"
    assert again.expected_start_time == MEANT, "it is still about the same time"
    execute_here(run)
    assert look(run).state.name == "Completed"
    assert ids_in(spec, tmp_path / "out" / "2026-03-04") == list(range(400, 410))
    # What an automation does with a run whose process is gone.
    put(tmp_path, "2026-03-04", "b", 900)
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(run.id, Crashed(), force=True)
        client.set_flow_run_state(run.id, AwaitingRetry(scheduled_time=datetime.now(UTC)))
    execute_here(run)
    assert look(run).state.name == "Completed"
    assert len(ids_in(spec, tmp_path / "out" / "2026-03-04")) == 20
    found = sorted(each.name for each in (tmp_path / "out").iterdir())
    assert found == ["2026-03-04", "2026-03-04.state"]


def test_a_repeat_by_hand_names_the_time_and_the_report_tells_it(tmp_path: Path) -> None:
    put(tmp_path, "2026-03-05")
    report = batch_inference(daily_spec(tmp_path), scheduled_time=MEANT)
    assert report["scheduled_time"] == "2026-03-05T02:00:00+00:00"
    assert report["output"].endswith("out/2026-03-05")
    page = Path(report["report"]).read_text()
    assert "<td>scheduled time</td><td>2026-03-05T02:00:00+00:00</td>" in page
    plain = daily_spec(tmp_path, out="plain").model_copy(update={"source": at_day(tmp_path)})
    assert batch_inference(plain, scheduled_time=MEANT)["scheduled_time"] is None


def at_day(folder: Path) -> Any:
    return daily_spec(folder).source.model_copy(update={"path": str(folder / "in/2026-03-05")})


def test_the_cancellation_hooks_stop_the_jobs_of_that_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Prefect calls them: in a process that has nothing but the flow run."""
    stopped: list[str] = []
    monkeypatch.setattr(
        "flows.cancellation_hooks.stop_jobs",
        lambda spec, _: stopped.append(Path(spec.sink.path).name),
    )
    spec = daily_spec(tmp_path, out=f"{DAY}")
    run = look(scheduled_run(spec))
    stop_its_jobs(None, run, None)
    run.parameters["scheduled_time"] = "2026-03-07T02:00:00Z"
    stop_its_jobs(None, run, None)
    assert stopped == ["2026-03-05", "2026-03-07"]


def test_a_cancelled_backfill_stops_nothing_but_what_it_has_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may be at work on the outputs that it has done, or has yet to come to."""
    stopped: list[str] = []
    monkeypatch.setattr(
        "flows.cancellation_hooks.stop_jobs",
        lambda spec, _: stopped.append(Path(spec.sink.path).name),
    )
    for day in ("2026-01-01", "2026-01-02", "2026-01-03"):
        put(tmp_path, day)
    dies = {"kind": "python", "class": "predictors:Double", "init": {"dies": 205.0}}
    range_of_days = datetime(2026, 1, 1), datetime(2026, 1, 3)
    ended: Any = backfill(daily_spec(tmp_path, model=dies), *range_of_days, return_state=True)
    assert "stopped at 2026-01-02" in ended.message
    run = SimpleNamespace(id=ended.state_details.flow_run_id)
    stop_backfill_jobs(None, look(run), None)
    assert stopped == ["2026-01-02"]


def test_trouble_with_one_period_keeps_no_other_from_being_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[str] = []

    def stop(spec: Any, _: str) -> None:
        stopped.append(Path(spec.sink.path).name)
        raise Unreachable(f"no cluster for {stopped[-1]}")

    monkeypatch.setattr("flows.cancellation_hooks.stop_jobs", stop)
    begun = [SimpleNamespace(name=f"doubling 2026-01-0{day}") for day in (1, 2, 3)]
    monkeypatch.setattr("flows.cancellation_hooks.unfinished_runs_in", lambda _: begun)
    given = {"spec": daily_spec(tmp_path, out=f"{DAY}").model_dump(mode="json", by_alias=True)}
    range_of_days = {"start": "2026-01-01T00:00:00Z", "end": "2026-01-03T00:00:00Z", "every": ""}
    run = SimpleNamespace(id=None, parameters=given | range_of_days)
    with pytest.raises(Unreachable, match="no cluster for 2026-01-03"):
        stop_backfill_jobs(None, run, None)
    assert stopped == ["2026-01-03", "2026-01-02", "2026-01-01"]


def test_what_a_dead_backfill_was_at_is_over_once_the_backfill_goes_on(tmp_path: Path) -> None:
    from prefect.client.orchestration import get_client
    from prefect.flow_engine import run_flow
    from prefect.states import Running, Scheduled

    for day in ("2026-01-01", "2026-01-02", "2026-01-03"):
        put(tmp_path, day)
    once = {"class": "predictors:DiesOnce", "init": {"at": 205.0, "marker": str(tmp_path / "m")}}
    spec = daily_spec(tmp_path, model={"kind": "python", **once})
    given = {"spec": spec, "start": datetime(2026, 1, 1), "end": datetime(2026, 1, 3)}
    with get_client(sync_client=True) as client:
        begun: Any = Scheduled()
        run = client.create_flow_run(backfill, parameters={}, state=begun)
        run_flow(backfill, flow_run=run, parameters=given, return_type="state")
        (dead,) = [each for each in children_of(run) if each.state.name == "Failed"]
        # As it stays where the process was killed in the middle.
        client.set_flow_run_state(dead.id, Running(), force=True)
        run_flow(backfill, flow_run=look(run), parameters=given, return_type="state")
    assert look(run).state.name == "Completed"
    assert sorted((each.name, each.state.name) for each in children_of(run)) == [
        ("doubling 2026-01-01", "Completed"),
        ("doubling 2026-01-02", "Completed"),
        ("doubling 2026-01-02", "Crashed"),
        ("doubling 2026-01-03", "Completed"),
    ]


def test_what_a_backfill_leaves_behind_is_over_though_nobody_starts_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.client.orchestration import get_client
    from prefect.flow_engine import run_flow
    from prefect.states import Cancelling, Crashed, Running, Scheduled

    put(tmp_path, "2026-01-01")
    dies = {"kind": "python", "class": "predictors:Double", "init": {"dies": 105.0}}
    day = datetime(2026, 1, 1)
    given = {"spec": daily_spec(tmp_path, model=dies), "start": day, "end": day}
    with get_client(sync_client=True) as client:
        begun: Any = Scheduled()
        run = client.create_flow_run(backfill, parameters={}, state=begun)

    def leave() -> None:
        """As it stays where the process was killed in the middle."""
        (left,) = children_of(run)
        with get_client(sync_client=True) as client:
            client.set_flow_run_state(left.id, Running(), force=True)

    def bring_up(*given: Any) -> Any:
        try:
            return really_bring_up(*given)
        finally:
            leave()

    monkeypatch.setattr("flows.backfill.bring_up", bring_up)
    ended: Any = run_flow(backfill, flow_run=run, parameters=given, return_type="state")
    assert (ended.name, states_of(run)) == ("Failed", ["Crashed"])
    ends: dict[str, Any] = {"Crashed": Crashed(), "Cancelled": Cancelling()}
    for name, state in ends.items():
        leave()
        end_its_runs(None, look(run), state)
        assert states_of(run) == [name]
    leave()
    clock_is_behind: Any = Crashed(timestamp=MEANT)
    end_its_runs(None, look(run), clock_is_behind)
    assert states_of(run) == ["Crashed"]
    leave()
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(run.id, Running(), force=True)
        end_its_runs(None, look(run), Crashed())
        assert states_of(run) == ["Running"], "what a new start has begun is let be"
        client.set_flow_run_state(run.id, Crashed(), force=True)
    monkeypatch.setattr(lost_runs, "prefect_client", lambda state: get_client(sync_client=True))
    monkeypatch.setattr(lost_runs, "runs_with_a_process", set)
    monkeypatch.setattr(lost_runs, "runs_under_way", lambda client: [(run.id, "it", True)])
    stack: Any = None
    lost_runs.crash_lost_runs(stack, lambda line: None)
    assert states_of(run) == [look(run).state.name] == ["Cancelled"]
    hooks = (backfill.on_failure_hooks, backfill.on_crashed_hooks, backfill.on_cancellation_hooks)
    assert all(end_its_runs in each for each in hooks)


def test_a_deployments_run_loses_nothing_in_a_folder_that_goes_with_it(tmp_path: Path) -> None:
    put(tmp_path, "2026-03-05")
    spec = daily_spec(tmp_path).model_copy(update={"source": at_day(tmp_path)})
    sink = spec.sink.model_copy(update={"path": "another-output"})
    run = scheduled_run(spec.model_copy(update={"sink": sink}))
    execute_here(run)
    failed = look(run).state
    assert failed.name == "Failed"
    assert (
        "sink.path: 'another-output' is relative to a folder that is deleted with" in failed.message
    )


@flow(name="nightly")
def nightly(spec: dict[str, Any]) -> None:
    """A flow of somebody's own."""
    batch_inference(parse_spec(spec))


def test_a_flow_of_ones_own_that_is_late_keeps_its_time(tmp_path: Path) -> None:
    """Prefect has a run that another one calls start at the moment of the call."""
    from prefect.client.orchestration import get_client
    from prefect.flow_engine import run_flow
    from prefect.states import Late

    put(tmp_path, "2026-03-05")
    spec = daily_spec(tmp_path)
    given = {"spec": spec.model_dump(mode="json", by_alias=True)}
    with get_client(sync_client=True) as client:
        late: Any = Late(scheduled_time=MEANT)
        run = client.create_flow_run(nightly, parameters=given, state=late)
    run_flow(nightly, flow_run=run, parameters=given)
    assert ids_in(spec, tmp_path / "out" / "2026-03-05") == list(range(500, 510))
    (called,) = children_of(run)
    assert time_meant_by(called) == MEANT, "so does the hook by which its job is stopped"


def states_of(run: Any) -> list[str]:
    """Of flow runs that one has called."""
    return [each.state.name for each in children_of(run)]


def children_of(run: Any) -> list[Any]:
    """Flow runs that one has called."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId

    of_it = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[run.id]))
    with get_client(sync_client=True) as client:
        return list(client.read_flow_runs(flow_run_filter=of_it))
