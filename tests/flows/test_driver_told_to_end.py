"""A job whose driver somebody else ends: its error says so, and another attempt goes on."""

import json
import time
from pathlib import Path

import psutil
import pytest

from tasks.clusters.local import Local
from tasks.errors import JobLost
from tasks.plan import make_plan
from tasks.ray_job.result import failure
from tasks.run import left_to_do, new_job
from tests.flows.conftest import spec_of

PATIENCE = 180.0


@pytest.mark.ray
def test_what_ends_a_driver_is_no_code_of_the_users(numbers: Path, ray_address: str) -> None:
    """As where somebody stops the job in Ray's dashboard: it was said that code calls sys.exit."""
    init = {"file": str(numbers.parent / "never")}  # which it waits for after two batches
    model = {"kind": "python", "class": "predictors:Double", "init": init}
    spec = spec_of(numbers, cluster={"kind": "local", "address": ray_address}, model=model)
    planned = make_plan(spec)
    job = new_job(planned, left_to_do(planned, tried=False), 1)
    running = Local().start(job)
    until = time.monotonic() + PATIENCE
    while not planned.storage.list(planned.run.records):
        assert running.is_alive(), running.log()
        assert time.monotonic() < until
        time.sleep(0.1)
    driver = psutil.Process(running.holder.pid)
    driver.terminate()
    psutil.wait_procs([driver], timeout=PATIENCE)
    error = failure(json.loads(job.storage.read(job.result_file)))
    assert isinstance(error, JobLost)
    assert error.can_retry
    assert str(error).startswith("the job's driver was told to end, as by Ray's dashboard")
