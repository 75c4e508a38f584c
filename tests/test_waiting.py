"""A driver that starts its Ray, or joins one, while the run is planned."""

import io
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from flows.flow_commands import run_flow
from tasks.clusters.driver import driver_environment, launch
from tasks.clusters.waiting import WAITING, driver_in_waiting, taken
from tasks.plan import make_plan
from tasks.ray_job import __main__ as driver
from tasks.ray_job import connection
from tasks.ray_job.job import STORAGE_OPTIONS, Job
from tasks.ray_job.waiting import WAIT
from tasks.run import left_to_do, new_job
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import CODE, spec_of
from tests.flows.conftest import numbers as numbers  # a fixture

OWN = {"kind": "local", "object_store_gb": 0.2}
NO_RAY = json.dumps({"ray": {"address": "nonsense"}}) + "\n"
PATIENCE = 180.0


def job_of(folder: Path, **changes: Any) -> Job:
    planned = make_plan(spec_of(folder, **{"cluster": OWN, **changes}))
    return new_job(planned, left_to_do(planned, tried=False), 1)


def names_below(process: psutil.Process) -> list[str]:
    """Of what a process has started, but for what ends meanwhile."""
    names = list[str]()
    for each in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            names.append(each.name())
    return names


@contextmanager
def seen_to_run_the_job(spec: BatchInferenceSpec) -> Iterator[psutil.Process]:
    """Sees that the driver in waiting runs the job of the block, and that nothing is left of it."""
    with driver_in_waiting(spec):
        (waiting,) = WAITING
        yield psutil.Process(waiting.process.pid)
    (told,) = Path(f"{spec.sink.path}.state").rglob("driver.json")
    assert json.loads(told.read_text())["pid"] == waiting.process.pid
    assert waiting.process.wait(PATIENCE) == 0
    assert not waiting.log.exists()


@pytest.mark.ray
@pytest.mark.usefixtures("short_ray_folder")
def test_nothing_is_left_of_a_driver_that_no_job_came_for(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.clusters.waiting.LEAVE_SECONDS", PATIENCE)  # a slow machine's
    with driver_in_waiting(spec_of(numbers, cluster=OWN)):
        (waiting,) = WAITING
        process, until = psutil.Process(waiting.process.pid), time.monotonic() + PATIENCE
        while not any("raylet" in each for each in names_below(process)):
            assert time.monotonic() < until
            time.sleep(0.1)
        tree = [process, *process.children(recursive=True)]
    _, alive = psutil.wait_procs(tree, timeout=PATIENCE)
    assert not alive
    assert not waiting.log.exists()
    assert not [*Path(os.environ["RAY_TMPDIR"]).glob("ray/session_*")]


@pytest.mark.ray
def test_a_driver_that_no_job_came_for_takes_leave_of_a_ray_that_others_use(
    numbers: Path, ray_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.clusters.waiting.LEAVE_SECONDS", PATIENCE)
    cluster = {"kind": "local", "address": ray_address}
    with driver_in_waiting(spec_of(numbers, cluster=cluster)):
        (waiting,) = WAITING
    assert waiting.process.returncode == 0


def test_a_driver_ends_with_the_process_that_it_waits_for(numbers: Path, tmp_path: Path) -> None:
    environment = driver_environment(spec_of(numbers))
    process = launch([WAIT], tmp_path / "log", env=environment, stdin=subprocess.PIPE)
    process.communicate(NO_RAY, timeout=PATIENCE)
    assert process.returncode == 0


@pytest.mark.parametrize("fault", ["other variables", "it has ended"])
def test_a_driver_that_does_not_suit_is_not_taken(
    fault: str, numbers: Path, tmp_path: Path
) -> None:
    others = {"environment": {"working_dir": str(CODE), "env_vars": {"A": "1"}}}
    changes = others if fault == "other variables" else {}
    with driver_in_waiting(spec_of(numbers, cluster=OWN)):
        (waiting,) = WAITING
        if fault == "it has ended":
            waiting.process.kill()
            waiting.process.wait()
        assert taken(job_of(numbers, **changes), tmp_path / "log") is None
        assert waiting.process.poll() is not None
        assert taken(job_of(numbers), tmp_path / "log") is None, "there was but one"


def test_nothing_breaks_where_a_driver_has_ended_before_it_is_told(
    numbers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end may not be known yet; the job is then lost, and tried again."""
    with driver_in_waiting(spec_of(numbers, cluster=OWN)):
        (waiting,) = WAITING
        waiting.process.kill()
        waiting.process.wait()
        monkeypatch.setattr(waiting.process, "poll", lambda: None)
        assert taken(job_of(numbers), tmp_path / "log") is waiting.process


def test_a_driver_of_which_nobody_could_know_ends_with_the_command(
    numbers: Path, tmp_path: Path
) -> None:
    """Ctrl-C pressed twice, while the storage is slow to take the note that it runs."""
    with driver_in_waiting(spec_of(numbers, cluster=OWN)):
        process = taken(job_of(numbers), tmp_path / "log")
        assert process is not None
        assert process.poll() is None
    assert process.poll() is not None


def test_the_command_has_a_driver_wait_while_the_flow_runs(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[bool]()

    def flow(spec: object) -> dict[str, Any]:
        seen.append(bool(WAITING))
        return {"seconds": {"total": 0.0}}

    monkeypatch.setattr("flows.batch_inference.batch_inference", flow)
    run_flow(spec_of(numbers, cluster=OWN))
    assert seen == [True]
    assert not WAITING


@pytest.mark.parametrize("reason", ["inline", "an address", "RAY_ADDRESS"])
def test_none_waits_where_there_is_no_ray(
    reason: str, numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run says what is wrong with an address at which nobody listens."""
    address = {"kind": "local", "address": "127.0.0.1:9"}
    clusters = {"inline": {"kind": "inline"}, "an address": address}
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:9" if reason == "RAY_ADDRESS" else "")
    with driver_in_waiting(spec_of(numbers, cluster=clusters.get(reason, OWN))):
        assert not WAITING


def test_the_ray_that_is_named_is_joined(numbers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.clusters.waiting.LEAVE_SECONDS", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as head:
        address = f"127.0.0.1:{head.getsockname()[1]}"
        monkeypatch.setattr("tasks.clusters.own_ray.ray_at_hand", lambda: address)
        with driver_in_waiting(spec_of(numbers, cluster=OWN)):
            (waiting,) = WAITING
    assert waiting.surroundings["ray"]["address"] == address
    path = waiting.surroundings["ray"]["runtime_env"]["env_vars"]["PYTHONPATH"]
    assert path == driver_environment(spec_of(numbers))["PYTHONPATH"]


def test_a_driver_is_told_its_job_and_no_secret_stays_with_it(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it starts later would inherit it."""
    job, seen = job_of(numbers), list[str]()
    job.save()

    def run(given: Job) -> None:
        seen.append(given.id)

    told = {"arguments": job.arguments, "environment": {STORAGE_OPTIONS: "{}"}}
    monkeypatch.setattr(sys, "stdin", io.StringIO(NO_RAY + json.dumps(told) + "\n"))
    monkeypatch.setattr(driver, "run", run)
    assert driver.main([WAIT]) == 0
    assert seen == [job.id]
    assert STORAGE_OPTIONS not in os.environ


def test_ray_that_did_not_start_is_tried_again_by_the_job(
    numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = list[dict[str, Any]]()

    def refuse(options: dict[str, Any]) -> None:
        tried.append(options)
        raise ConnectionError("no ports are left")

    monkeypatch.setattr(connection, "connect", refuse)
    job = job_of(numbers)
    job.save()
    told = {"arguments": job.arguments, "environment": job.driver_env}
    monkeypatch.setattr(sys, "stdin", io.StringIO(NO_RAY + json.dumps(told) + "\n"))
    assert driver.main([WAIT]) == 1
    assert len(tried) == 2
    assert "no ports are left" in job.storage.read(job.result_file).decode()
