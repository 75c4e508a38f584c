"""A Ray of the job's own under limits of processes and files in which it would hang."""

import os
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_NOFILE, RLIMIT_NPROC

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks import machine, own_process
from tasks.clusters.waiting import WAITING, driver_in_waiting
from tasks.errors import InvalidSpec, Unreachable
from tasks.kinds.clusters import LocalCluster
from tasks.own_process import refuse_low_limits
from tasks.plan import make_plan
from tasks.run import left_to_do, next_attempt
from tests.clusters.small_job import begin, small_spec
from tests.flows.conftest import spec_of


@pytest.mark.parametrize(
    ("limited", "said"),
    [
        (RLIMIT_NPROC, "`ulimit -u` leaves 100, but starting Ray for this job needs at least 256"),
        (RLIMIT_NOFILE, "`ulimit -n` leaves 100, but starting Ray for this job needs at least 128"),
        (None, "pids.max of the control group leaves 90, but starting Ray"),
    ],
)
def test_it_is_refused_as_it_is_about_to_start(
    limited: int | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not before: a run whose Ray has started already has taken of the limit itself."""
    unlimited = (RLIM_INFINITY, RLIM_INFINITY)
    limits = {limited: (100, 100)}
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(own_process, "getrlimit", lambda each: limits.get(each, unlimited))
    monkeypatch.setattr(machine, "CGROUP", tmp_path)
    if limited is None:
        (tmp_path / "pids.max").write_text("120\n")
        (tmp_path / "pids.current").write_text("30\n")
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1], "x": [1.0]}), folder / "0.parquet")
    spec = spec_of(folder, cluster={"kind": "local"})
    with driver_in_waiting(spec):
        assert WAITING == []
        with pytest.raises(InvalidSpec, match=said):
            begin(spec)
    refuse_low_limits(LocalCluster(address="127.0.0.1:6379"))  # which somebody else has started
    refuse_low_limits(spec_of(folder).cluster)


def test_room_for_its_files_that_is_gone_by_then_may_be_there_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray would wait half a minute for a file that nobody could write, in each attempt."""
    spec = small_spec(tmp_path, {"kind": "local"})
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    planned = make_plan(spec)
    attempt = next_attempt(planned, left_to_do(planned, tried=False))
    monkeypatch.setattr(own_process, "RAYS_FILES", 1 << 60)
    with pytest.raises(Unreachable, match=r"^RAY_TMPDIR: .* MiB left, and Ray keeps its logs"):
        attempt.cluster.start(attempt.job)
    assert not attempt.cluster.was_started(attempt.job)
