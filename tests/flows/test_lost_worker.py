"""Flow runs whose worker dies, and leaves their processes behind."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import State
from prefect.flow_engine import run_flow
from prefect.settings import PREFECT_API_URL
from prefect.states import (
    AwaitingRetry,
    Cancelling,
    Crashed,
    Failed,
    Pending,
    Running,
    Suspended,
)

from flows.batch_inference import batch_inference
from flows.lost_worker import HOOKS, STARTED_FOR
from flows.planning import is_ending, plan
from tasks.errors import OutputHeld
from tasks.run_options import RunOptions
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import published, spec_of
from tests.flows.jobs_cluster import PATIENCE_SECONDS, await_that

pytestmark = [pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

ENGINE = """
import runpy, flows.cancellation
flows.cancellation.LOOK_EVERY_SECONDS = 0.2
flows.cancellation.WORKER_SECONDS = 1.0
runpy.run_module("prefect.engine", run_name="__main__")
"""


@pytest.fixture
def spec(numbers: Path) -> BatchInferenceSpec:
    """A run that waits in the middle for a file."""
    waits = {"kind": "python", "class": "predictors:Double", "init": {"file": f"{numbers}.go_on"}}
    return spec_of(numbers, model=waits)


@pytest.fixture
def begun(spec: BatchInferenceSpec) -> Iterator[tuple[UUID, "subprocess.Popen[bytes]"]]:
    """A flow run that waits in the middle, and its process, which a worker has begun."""
    with get_client(sync_client=True) as client:
        flow = client.create_flow(batch_inference)
        where = "flows.batch_inference.batch_inference"
        deployment = client.create_deployment(flow, "left", entrypoint=where)
        given = {"spec": spec.as_json()}
        run = client.create_flow_run_from_deployment(deployment, parameters=given).id
        client.set_flow_run_state(run, Pending())
    by_worker = {STARTED_FOR: str(run), HOOKS: "false"}
    process = subprocess.Popen(
        [sys.executable, "-c", ENGINE],
        env={**os.environ, **by_worker, "PREFECT_API_URL": PREFECT_API_URL.value() or ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    state = Path(f"{spec.sink.path}.state")
    await_that(lambda: any(state.glob("runs/*/attempts/*/progress.json")), "it does not begin")
    yield run, process
    process.kill()
    process.wait()
    assert process.stdout
    process.stdout.close()


@pytest.fixture
def left_behind(
    begun: tuple[UUID, "subprocess.Popen[bytes]"],
) -> tuple[UUID, "subprocess.Popen[bytes]"]:
    """The same, once its worker is gone."""
    assert begun[1].stdout
    begun[1].stdout.close()
    return begun


def end_of(run: UUID, process: "subprocess.Popen[bytes]") -> tuple[str, str | None]:
    process.wait(PATIENCE_SECONDS)
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(run).state
    assert state
    return state.name or "", state.message


@contextmanager
def going_on_once(told: str, numbers: Path, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The run in the middle goes on once this process has said such words, in the block."""
    over = Event()

    def go_on() -> None:
        await_that(lambda: told in caplog.text or over.is_set(), "it does not wait")
        Path(f"{numbers}.go_on").touch()

    meanwhile = Thread(target=go_on)
    meanwhile.start()
    try:
        yield
    finally:
        over.set()
        meanwhile.join()
    assert told in caplog.text


def test_a_run_goes_on_and_is_done(
    left_behind: tuple[UUID, "subprocess.Popen[bytes]"], spec: BatchInferenceSpec, numbers: Path
) -> None:
    """Prefect's console would end it at the next line, which nobody reads."""
    Path(f"{numbers}.go_on").touch()
    assert end_of(*left_behind)[0] == "Completed"
    assert len(published(spec)) == 1000


@pytest.mark.parametrize("which", ["left_behind", "begun"])
def test_a_run_that_is_cancelled_then_stops_and_says_so(
    which: str, spec: BatchInferenceSpec, numbers: Path, request: pytest.FixtureRequest
) -> None:
    """No worker would end it, nor say that it has ended: it is gone, or hears of nothing any more.

    The latter as once Prefect's server has been away.
    """
    run, process = request.getfixturevalue(which)
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(run, Cancelling())
    state = Path(f"{spec.sink.path}.state")
    await_that(lambda: any(state.glob("runs/*/attempts/*/stopped")), "nobody stops it")
    Path(f"{numbers}.go_on").touch()
    assert end_of(run, process) == ("Cancelled", "stopped, and can be resumed")
    assert not Path(spec.sink.path).exists()


def test_a_run_that_is_begun_once_more_meanwhile_waits_for_its_other_process(
    left_behind: tuple[UUID, "subprocess.Popen[bytes]"],
    spec: BatchInferenceSpec,
    numbers: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As where a worker says twice that a process was killed: the second word is of the next."""
    run, process = left_behind
    monkeypatch.setattr("flows.planning.LOOK_EVERY_SECONDS", 0.1)
    again: list[Any] = [Crashed(), AwaitingRetry(), Pending()]
    with get_client(sync_client=True) as client:
        for state in again:
            client.set_flow_run_state(run, state, force=True)
        begun = client.read_flow_run(run)
    with going_on_once("was started twice and waits", numbers, caplog):
        ended: Any = run_flow(
            batch_inference, flow_run=begun, parameters={"spec": spec}, return_type="state"
        )
    assert (ended.name, ended.message) == ("Completed", None)
    assert end_of(run, process)[0] == "Completed"
    assert len(published(spec)) == 1000


@pytest.mark.parametrize("ended", [Cancelling, Crashed, Suspended])
def test_the_next_run_waits_for_one_that_is_to_end(
    begun: tuple[UUID, "subprocess.Popen[bytes]"],
    spec: BatchInferenceSpec,
    numbers: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    ended: Callable[[], Any],
) -> None:
    """Prefect begins it as soon as somebody has said that, below a limit of one run at a time."""
    run, process = begun
    monkeypatch.setattr("flows.planning.LOOK_EVERY_SECONDS", 0.1)
    beside = next_run(spec)
    assert "is held by run" in (beside.message or ""), "the first is at work"
    with get_client(sync_client=True) as client:
        client.set_flow_run_state(run, ended(), force=True)

    with going_on_once("that is ending, or that has followed", numbers, caplog):
        after = next_run(spec)
    assert (after.name, after.message) == ("Completed", None)
    process.wait(PATIENCE_SECONDS)
    assert len(published(spec)) == 1000


def test_nobody_waits_for_a_run_that_is_over_while_its_caller_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Their process holds its output as long as it lives, and may come to wait for who waits."""
    monkeypatch.setattr("flows.planning.is_deployment_run", lambda: True)
    with get_client(sync_client=True) as client:
        caller = client.create_flow_run(batch_inference, state=Running()).id
        failed = client.create_flow_run(batch_inference, state=Failed()).id
        flow_runs = (str(failed), str(caller))
        assert not is_ending(flow_runs)
        client.set_flow_run_state(caller, Cancelling(), force=True)
        assert is_ending(flow_runs), "it ends with its caller"


def test_one_that_is_to_end_and_hangs_is_told_of_in_the_end(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All nights would wait for it, and nobody would hear of that."""
    looks: list[float] = []
    ends, hangs = (OutputHeld("it is held by another run") for _ in range(2))
    ends.is_over, hangs.is_over = (lambda: len(looks) == 2), (lambda: len(looks) > 100)

    def make_plan(*_: Any) -> Any:
        raise hangs if len(looks) == 2 else ends

    monkeypatch.setattr("flows.planning.make_plan", make_plan)
    monkeypatch.setattr("flows.planning.is_ending", lambda _: True)
    monkeypatch.setattr("flows.planning.ENDS_SECONDS", 25.0)
    clock = SimpleNamespace(monotonic=lambda: sum(looks), sleep=looks.append)
    monkeypatch.setattr("flows.planning.time", clock)

    @flow
    def night() -> Any:
        return plan(spec_of(numbers), RunOptions())

    with pytest.raises(OutputHeld):
        night()
    assert looks == [10.0] * 3


def next_run(spec: BatchInferenceSpec) -> State:
    """How another run of a deployment ends, in this process."""
    given = {"spec": spec.as_json()}
    with get_client(sync_client=True) as client:
        deployment = client.create_deployment(client.create_flow(batch_inference), "next")
        run = client.create_flow_run_from_deployment(deployment, parameters=given)
    ended: Any = run_flow(batch_inference, flow_run=run, parameters=given, return_type="state")
    return cast("State", ended)


def test_whoever_has_waited_for_that_waits_for_the_next_run_too(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be said to have failed, once its other process has done all."""
    own, others = (OutputHeld("it is held by another run") for _ in range(2))
    own.flow_runs, others.flow_runs = ("before", "caller"), ("another",)
    own.is_over = others.is_over = lambda: True
    found: list[Any] = [own, others, "planned", others, own]

    def make_plan(*_: Any) -> Any:
        first = found.pop(0)
        if isinstance(first, OutputHeld):
            raise first
        return first

    monkeypatch.setattr("flows.planning.make_plan", make_plan)
    options = RunOptions(flow_runs=("this", "caller"))

    @flow
    def begun_twice(replace_output: bool = False) -> Any:
        return plan(spec_of(numbers), replace(options, replace_output=replace_output))

    assert begun_twice() == "planned"
    with pytest.raises(OutputHeld, match=r"^it is held"):
        begun_twice()
    # It would replace what the other one has.
    with pytest.raises(OutputHeld, match="in another process too, as where it was begun twice"):
        begun_twice(replace_output=True)
    assert not found


WRITES = """
import os, sys, time
from rich.console import Console
from flows import lost_worker
lost_worker.outlive_worker()
console = Console(width=200)
for _ in range(2_000):
    console.print("x" * 150)
open(sys.argv[1], "w").close()
"""
WATCHES = """
import sys
from flows import lost_worker
lost_worker.LOOK_EVERY_SECONDS = 0.1
lost_worker.outlive_worker()
open(sys.argv[1] + ".begun", "w").close()
assert lost_worker.WORKER_IS_LOST.wait(30)
open(sys.argv[1], "w").close()
"""


def test_a_line_that_waits_for_its_reader_ends_no_run(tmp_path: Path) -> None:
    """As one that was stopped for want of memory before it was ended."""
    env = {**os.environ, STARTED_FOR: "run"}
    done = tmp_path / "done"
    process = subprocess.Popen(
        [sys.executable, "-c", WRITES, str(done)], env=env, stdout=subprocess.PIPE
    )
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(3)  # the pipe is full
    assert process.stdout
    process.stdout.close()
    assert process.wait(PATIENCE_SECONDS) == 0
    assert done.exists()


def test_a_worker_that_reads_nothing_is_missed_too(tmp_path: Path) -> None:
    """As where its work pool says stream_output: false."""
    worker = (
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', *sys.argv[1:]], stdout=subprocess.DEVNULL,"
        " stderr=subprocess.DEVNULL)\n"
        "time.sleep(60)"
    )
    done = tmp_path / "done"
    process = subprocess.Popen(
        [sys.executable, "-c", worker, WATCHES, str(done)], env={**os.environ, STARTED_FOR: "run"}
    )
    await_that(tmp_path.joinpath("done.begun").exists, "it does not begin")
    assert not done.exists()
    process.kill()
    process.wait()
    await_that(done.exists, "it does not see that its worker is gone")
