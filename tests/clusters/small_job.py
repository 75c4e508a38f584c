"""A small job, and one attempt on it, followed to its end without Prefect."""

import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.attempt import Attempt
from tasks.clusters.choose import release
from tasks.plan import PlannedRun, make_plan
from tasks.ray_job.result import failure
from tasks.run import left_to_do, next_attempt
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import spec_of

ROWS = 200
FOLLOW_SECONDS = 300.0


def small_spec(folder: Path, cluster: dict[str, Any], **model: Any) -> BatchInferenceSpec:
    """Two Parquet files of 100 rows, doubled; `model` goes to the class that doubles."""
    source = folder / "numbers"
    source.mkdir(exist_ok=True)
    for number in range(2):
        ids = list(range(number * 100, number * 100 + 100))
        table = pa.table({"id": ids, "x": [float(each) for each in ids]})
        pq.write_table(table, source / f"{number}.parquet")
    return spec_of(
        source,
        model={"kind": "python", "class": "predictors:Double", "init": model},
        cluster=cluster,
        # As small as can be: a machine's two cores have other work too.
        stages={
            "read": {"rows_per_batch": 50, "num_cpus": 0.2, "max_workers": 1},
            "preprocess": {"num_cpus": 0.2, "max_workers": 1},
        },
        resources={"num_gpus": 0, "num_cpus": 0.2, "max_replicas": 1, "batch_size": 50},
        errors={"max_rejected_fraction": 0.5},
    )


def begin(spec: BatchInferenceSpec) -> tuple[PlannedRun, Attempt]:
    """Plan a run and start an attempt on it, or attach to the one that is at work."""
    planned = make_plan(spec)
    attempt = next_attempt(planned, left_to_do(planned, tried=False))
    attempt.ensure_started()
    return planned, attempt


def follow(attempt: Attempt) -> dict[str, Any]:
    """Look at an attempt, as the stage tasks do, until it has a result.

    Raises:
        BatchInferenceError: what the job failed with.
    """
    until = time.monotonic() + FOLLOW_SECONDS
    while (look := attempt.look()).result is None:
        assert time.monotonic() < until, look.progress
        time.sleep(0.2)
    if error := failure(look.result):
        raise error
    assert look.progress
    stages: dict[str, Any] = look.progress["stages"]
    return stages


def whole_run(spec: BatchInferenceSpec) -> PlannedRun:
    """A run of one attempt that ends, in whichever way, as the flow does."""
    planned = make_plan(spec)
    attempt = next_attempt(planned, left_to_do(planned, tried=False))
    try:
        attempt.ensure_started()
        follow(attempt)
    finally:
        attempt.stop()
        assert release(spec.cluster, planned.run.run_id) is None
    return planned


if __name__ == "__main__":
    whole_run(BatchInferenceSpec.model_validate_json(Path(sys.argv[1]).read_text()))
