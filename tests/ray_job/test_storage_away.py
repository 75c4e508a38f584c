"""A job of hours does not end since its storage is away when it says how far it is."""

import math
from dataclasses import replace
from pathlib import Path
from threading import current_thread, main_thread
from typing import Any

import pytest

from tasks.errors import StageFailed
from tasks.kinds.models.runtimes.runtime_used import RuntimeUsed
from tasks.protocol.storage import FsspecStorage
from tasks.ray_job.batch_limits import remembered_limit
from tasks.ray_job.deterministic_replay import recorded_ids
from tasks.ray_job.runtimes import StoredRuntimes
from tasks.run import attempts_in
from tests.clusters.small_job import ROWS, small_spec, whole_run
from tests.ray_job.test_own_machine import job_of, spec

INLINE = {"kind": "inline"}


def refuse(monkeypatch: pytest.MonkeyPatch, call: str, name: str, times: float) -> list[str]:
    """Have the storage refuse the job so many calls for files of a name; returns what it refused.

    Who follows the job, in the test's own thread, is not refused.
    """
    given, refused = getattr(FsspecStorage, call), list[str]()

    def ask(storage: FsspecStorage, path: str, *arguments: Any) -> Any:
        is_the_jobs = current_thread() is not main_thread() and path.endswith(f"/{name}")
        if is_the_jobs and len(refused) < times:
            refused.append(path)
            raise ConnectionError("503 Slow Down")
        return given(storage, path, *arguments)

    monkeypatch.setattr(FsspecStorage, call, ask)
    return refused


@pytest.mark.parametrize(("call", "name"), [("write", "progress.json"), ("stat", "stopped")])
def test_no_job_ends_since_its_storage_is_away_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, name: str
) -> None:
    refused = refuse(monkeypatch, call, name, times=3)
    planned = whole_run(small_spec(tmp_path, INLINE, seconds=0.5))
    assert refused
    assert planned.accepted().num_ok == ROWS
    assert len(attempts_in(planned.storage, planned.run)) == 1


def test_what_ended_a_job_is_heard_though_its_storage_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "write", "progress.json", times=math.inf)
    with pytest.raises(StageFailed, match="the device is gone") as caught:
        whole_run(small_spec(tmp_path, INLINE, dies=5.0))
    assert "503" not in str(caught.value)


def test_a_job_that_is_done_ends_well_though_its_storage_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it comes to say that it is."""
    given = FsspecStorage.write

    def write(storage: FsspecStorage, path: str, data: bytes) -> None:
        if path.endswith("/progress.json") and data.startswith(b'{"state": "done"'):
            raise ConnectionError("503 Slow Down")
        given(storage, path, data)

    monkeypatch.setattr(FsspecStorage, "write", write)
    planned = whole_run(small_spec(tmp_path, INLINE))
    assert planned.accepted().num_ok == ROWS


def test_what_a_replica_can_do_without_ends_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is a compiled model given up since nobody could be told of it."""

    def refuse_all(*_: Any) -> None:
        raise ConnectionError("503 Slow Down")

    for call in ("list", "write"):
        monkeypatch.setattr(FsspecStorage, call, refuse_all)
    sink = {"kind": "parquet", "path": str(tmp_path / "out")}
    job = replace(job_of(spec(sink=sink)), pins={"fingerprints": {}})
    assert remembered_limit(job, "cpu").halvings == 0
    assert len(recorded_ids(job)) == 0
    used = RuntimeUsed("openvino", "openvino", "float32", "cpu")
    runtimes = StoredRuntimes(job=job)
    runtimes.tell(used)
    assert runtimes.told == [used]
