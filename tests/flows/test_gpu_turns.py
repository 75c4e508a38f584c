"""Runs that overlap on a cluster: never more GPUs than its limit, the oldest job first."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.errors import InvalidSpec, Unreachable
from tasks.planning.preflight import check_spec
from tasks.spec import BatchInferenceSpec
from tests.flows.conftest import published
from tests.flows.jobs_cluster import (
    JobsCluster,
    await_rows,
    await_that,
    halting,
    jobs_spec,
    orchestrator,
    read_json,
    run_folder,
)

pytestmark = [pytest.mark.cluster, pytest.mark.ray, pytest.mark.prefect, pytest.mark.chaos]
FOLLOWS_WITHIN_SECONDS = 25.0
"""Less than any silence that somebody waits for elsewhere."""
LOOK_EVERY_SECONDS = 1.5
LONGER_THAN_A_LOOK_SECONDS = 3.0
SHARING_SECONDS = 6.0
"""Some looks of jobs at what they hold."""


def greedy(
    folder: Path, cluster: JobsCluster, max_gpus: int | None = 1, **changes: Any
) -> BatchInferenceSpec:
    """A run that would take both of the cluster's GPUs, of which jobs may hold one."""
    numbers = folder / "numbers"
    numbers.mkdir(parents=True)
    for number in range(2):
        ids = list(range(number * 100, number * 100 + 100))
        table = pa.table({"id": ids, "x": [float(each) for each in ids]})
        pq.write_table(table, numbers / f"{number}.parquet")
    resources = {"num_gpus": 1, "max_replicas": 2}
    defaults = {"resources": resources, "model": halting(folder / "go", batches=1)}
    return jobs_spec(numbers, {**cluster.by_block, "max_gpus": max_gpus}, **{**defaults, **changes})


@contextmanager
def gpus_in_use(cluster: JobsCluster) -> Iterator[list[float]]:
    """GPUs that somebody holds, asked of the cluster until the block ends."""
    seen: list[float] = []
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(LOOK_EVERY_SECONDS):
            with suppress(Unreachable):  # a busy head may miss a look
                seen.append(cluster.gpus_in_use())

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def is_queued(spec: BatchInferenceSpec) -> bool:
    """Whether the run's job waits for its turn."""
    progress = read_json(run_folder(spec) / "attempts/1/progress.json")
    return bool(progress and progress["state"] == "queued")


def test_runs_that_overlap_never_hold_more_than_the_limit(
    tmp_path: Path, jobs_cluster: JobsCluster
) -> None:
    """Not even where an orchestrator is killed: the next one follows its job."""
    first = greedy(tmp_path / "first", jobs_cluster)
    second = greedy(tmp_path / "second", jobs_cluster)
    (tmp_path / "second/go").touch()
    with gpus_in_use(jobs_cluster) as seen, orchestrator(first, jobs_cluster) as one:
        await_that(lambda: max(seen, default=0) > 0, "the first holds no GPU")
        with orchestrator(second, jobs_cluster) as two:
            await_that(lambda: is_queued(second), "the second does not wait")
            run = await_rows(first)
            one.kill()
            time.sleep(LONGER_THAN_A_LOOK_SECONDS)
            assert is_queued(second), "the GPU is the job's, whoever follows it"
            mark = sign_of_follower(run)
            with orchestrator(first, jobs_cluster) as again:
                await_that(lambda: holder(run) == again.process.pid, "no plan")
                follows = await_that(lambda: sign_of_follower(run) != mark, "nobody follows")
                print(f"\nthe next run follows {follows:.1f} s after its plan")
                (tmp_path / "first/go").touch()
                report = again.report()
            assert follows < FOLLOWS_WITHIN_SECONDS
            run_id = report["run_id"]
            assert jobs_cluster.jobs(run_id) == {f"{run_id}-1": "SUCCEEDED"}
            assert (report["attempts"], report["redone_rows"]) == (1, 0)
            assert report["resumed_rows"] > 0
            code, report = two.end()
    assert (code, report["attempts"]) == (0, 1), two.errors.read_text()
    for spec in (first, second):
        rows = [(row["id"], row["doubled"]) for row in published(spec)]
        assert rows == [(each, 2.0 * each) for each in range(200)]
    assert max(seen) == 1.0, f"{max(seen)} GPUs were in use"
    print(f"GPUs in use: at most {max(seen):g} of 2 in {len(seen)} looks")


def holder(run: Path) -> int:
    """Pid of the process that has planned the run last."""
    return int(read_json(run / "lease.json")["pid"])


def sign_of_follower(run: Path) -> Any:
    """What whoever follows the first attempt has left there last."""
    return read_json(run / "attempts/1/followed.json")


def test_runs_that_share_a_cluster_each_say_what_they_hold(
    tmp_path: Path, jobs_cluster: JobsCluster
) -> None:
    """Ray lets neither have a GPU of a node that both want a share of; each has had one before."""
    one = {"num_gpus": 1, "num_cpus": 0.5, "max_replicas": 1}
    specs = [greedy(tmp_path / name, jobs_cluster, None, resources=one) for name in "ab"]
    with orchestrator(specs[0], jobs_cluster) as a, orchestrator(specs[1], jobs_cluster) as b:
        runs = [await_rows(spec) for spec in specs]
        shares, least = list[float](), list[float]()
        for run in runs:
            (at, had), (later, held) = told_of(run, 0.0), told_of(run, SHARING_SECONDS)
            shares.append((held - had) / (later - at))
            least.append(had + (later - at) / 2)
        for name in "ab":
            (tmp_path / name / "go").touch()
        reports = [a.report(), b.report()]
    print(f"GPUs held by each, as they say: {shares}")
    assert min(shares) > 0.5
    for report, seconds in zip(reports, least, strict=True):
        assert report["held"]["gpu_hours"] * 3600 > seconds


def told_of(run: Path, seconds: float) -> tuple[float, float]:
    """What a run's first attempt next says after so many seconds: when, and of GPUs so far."""
    file = run / "attempts/1/progress.json"
    since = read_json(file)["at"] + seconds
    await_that(lambda: read_json(file)["at"] >= since, "it says nothing any more")
    said = read_json(file)
    return said["at"], float(said["held"]["gpu_hours"]) * 3600


def test_what_could_never_have_its_turn_is_refused(
    tmp_path: Path, jobs_cluster: JobsCluster
) -> None:
    resources = {"num_gpus": 1, "min_replicas": 2, "max_replicas": 2}
    spec = greedy(tmp_path, jobs_cluster, resources=resources)
    with pytest.raises(InvalidSpec, match=r"resources\.min_replicas: 2 .* may hold 1 together"):
        check_spec(spec)
