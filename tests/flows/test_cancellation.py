"""A run that is cancelled in Prefect stops its job, and can be resumed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flows.batch_inference import batch_inference
from flows.cancellation_hooks import stop_its_jobs
from flows.plain_commands import cancel_jobs
from flows.small_ray import end
from tasks.lease import load_holder
from tasks.outputs import output_of
from tasks.protocol.read_back import read_note
from tasks.ray_job.job import Job, stored_job
from tasks.running_jobs import live_jobs
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import parse_spec
from tests.flows.conftest import published, spec_of

pytestmark = [pytest.mark.ray, pytest.mark.prefect, pytest.mark.usefixtures("prefect_server")]

POOL = "cancelling"


def endless_spec(numbers: Path, address: str) -> BatchInferenceSpec:
    """A run that does not end before `go` is there: whatever ends it has stopped it."""
    init = {"file": str(go_of(numbers))}
    model = {"kind": "python", "class": "predictors:Double", "init": init}
    return spec_of(numbers, model=model, cluster={"kind": "local", "address": address})


def signed(job: Job) -> dict[str, Any] | None:
    return read_note(job.storage, job.followed_file)


def go_of(numbers: Path) -> Path:
    return numbers.parent / "go"


def in_large_batches_here(spec: BatchInferenceSpec) -> BatchInferenceSpec:
    """The same run, for this process: Ray has been proven by then, and starts slowly."""
    return spec_of(
        Path(spec.source.paths[0]), model=spec.model.model_dump(by_alias=True), stages={}
    )


def parameters_of(spec: BatchInferenceSpec) -> dict[str, Any]:
    return {"spec": spec.model_dump(mode="json", by_alias=True)}


def wait_for(what: Callable[[], Any], seconds: float = 120.0) -> Any:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if found := what():
            return found
        time.sleep(0.1)
    raise TimeoutError(f"waited {seconds} s in vain")


def records(spec: BatchInferenceSpec) -> list[Path]:
    return list(Path(f"{spec.sink.path}.state/runs").glob("*/records/*.json"))


def environment_of_server() -> dict[str, str]:
    """Ours, with the test's server in it."""
    from prefect.settings import PREFECT_API_URL

    return {**os.environ, "PREFECT_API_URL": PREFECT_API_URL.value() or ""}


@contextmanager
def worker(folder: Path) -> Iterator[None]:
    """A Prefect worker on a process pool."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import WorkPoolCreate

    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name=POOL, type="process"), overwrite=True)
    command = [str(Path(sys.executable).with_name("prefect")), "worker", "start", "--pool", POOL]
    environment = {**environment_of_server(), "PREFECT_WORKER_QUERY_SECONDS": "1"}
    with (folder / "worker.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        yield
    finally:
        end(process)


def deploy_and_run(spec: BatchInferenceSpec) -> Any:
    """A flow run on the worker; its id."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        flow_id = client.create_flow(batch_inference)
        deployment = client.create_deployment(
            flow_id,
            name="cancelled",
            entrypoint="flows.batch_inference.batch_inference",
            work_pool_name=POOL,
        )
        run = client.create_flow_run_from_deployment(deployment, parameters=parameters_of(spec))
    return run.id


def state_of(run_id: Any) -> str:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        state = client.read_flow_run(run_id).state
    return state.type.value if state else ""


def cancel(run_id: Any) -> None:
    """As the button in the UI does."""
    from prefect.client.orchestration import get_client
    from prefect.states import Cancelling

    with get_client(sync_client=True) as client:
        client.set_flow_run_state(run_id, Cancelling())


def test_a_run_cancelled_in_prefect_stops_its_job(numbers: Path, ray_address: str) -> None:
    spec = endless_spec(numbers, ray_address)
    with worker(numbers.parent):
        run_id = deploy_and_run(spec)
        wait_for(lambda: len(records(spec)) >= 2)
        cancelled = time.monotonic()
        cancel(run_id)
        wait_for(lambda: not live_jobs(spec))
        print(f"the job stopped {time.monotonic() - cancelled:.1f} s after it was cancelled")
        wait_for(lambda: state_of(run_id) == "CANCELLED")
    assert not Path(spec.sink.path).exists(), "nothing is published"
    go_of(numbers).touch()
    report = batch_inference(in_large_batches_here(spec))
    assert report["resumed_rows"] > 0
    assert [row["id"] for row in published(spec)] == list(range(1000))


def flow_run_that_follows(job: Job, spec: BatchInferenceSpec) -> SimpleNamespace:
    """What Prefect knows of the flow run that carries out a job's run."""
    holder = load_holder(job.storage, job.run.lease)
    assert holder
    return SimpleNamespace(
        id=holder.flow_runs[0],
        parameters=parameters_of(spec),
        expected_start_time=None,
        parent_task_run_id=None,
    )


def test_who_follows_a_job_that_is_cancelled_elsewhere_starts_no_other(
    numbers: Path, ray_address: str
) -> None:
    """The hook needs nothing but the flow run's parameters: the run's own process is at a halt.

    And the job outlives who has started it.
    """
    raw = endless_spec(numbers, ray_address).model_dump(mode="json", by_alias=True)
    spec = parse_spec({**raw, "retries": {"max_attempts": 3}})
    file = numbers.parent / "spec.json"
    file.write_text(spec.model_dump_json(by_alias=True))
    with subprocess.Popen([sys.executable, "-m", "tests.clusters.small_job", str(file)]) as first:
        ((job, _),) = wait_for(lambda: live_jobs(spec))
        first.kill()
    sign = signed(job)
    command = [str(Path(sys.executable).with_name("batch-inference")), "run", str(file)]
    with subprocess.Popen(command, env=environment_of_server(), stderr=subprocess.PIPE) as run:
        try:
            wait_for(lambda: len(records(spec)) >= 2 and signed(job) != sign)
            run.send_signal(signal.SIGSTOP)
            assert [each.attempt for each, _ in live_jobs(spec)] == [1]
            stop_its_jobs(None, flow_run_that_follows(job, spec), None)
            assert not live_jobs(spec)
            run.send_signal(signal.SIGCONT)
            said = run.communicate(timeout=240)[1].decode()
        finally:
            run.kill()  # else one at a halt is waited for, for ever
    assert run.returncode == 1
    assert "RunStopped: somebody stopped the job; run again to go on where it stopped" in said
    attempts = Path(f"{spec.sink.path}.state/runs").glob("*/attempts/*")
    assert [attempt.name for attempt in attempts] == ["1"]


def test_a_preview_that_was_killed_leaves_no_job_to_who_cancels(
    numbers: Path, ray_address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody goes on with it, and it would hold its devices for half an hour."""
    spec = endless_spec(numbers, ray_address)
    file = numbers.parent / "spec.json"
    file.write_text(spec.model_dump_json(by_alias=True))
    command = [str(Path(sys.executable).with_name("batch-inference")), "preview", str(file)]
    previews = Path(f"{spec.sink.path}.state/previews")
    with subprocess.Popen([*command, "--cluster"], env=environment_of_server()) as preview:
        try:
            (found,) = wait_for(lambda: list(previews.glob("*/runs/*/attempts/1/job.json")))
            job = stored_job(output_of(spec)[0], str(found))
            assert job
            wait_for(lambda: live_jobs(job.spec))
            cancel_jobs(file, None, None)
            assert "no job is at work on" in capsys.readouterr().out, "whose process lives"
        finally:
            preview.kill()
    assert [each.id for each, _ in live_jobs(job.spec)] == [job.id]
    cancel_jobs(file, None, None)
    assert f"stopped job {job.id}, which a preview" in capsys.readouterr().out
    assert not live_jobs(job.spec)
