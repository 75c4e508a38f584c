"""A job of hours does not end since its storage is away when it says how far it is."""

import time
from pathlib import Path
from typing import Any

import pytest

from tasks.errors import StageFailed
from tasks.protocol.storage import FsspecStorage
from tasks.run import attempts_in
from tests.clusters.small_job import ROWS, small_spec, whole_run

LONG = 60.0
INLINE = {"kind": "inline"}


def refuse(monkeypatch: pytest.MonkeyPatch, call: str, name: str, seconds: float) -> list[str]:
    """Have the storage refuse a call for files of a name, for so long; returns what it refused."""
    given, refused = getattr(FsspecStorage, call), list[str]()
    until = time.monotonic() + seconds

    def ask(storage: FsspecStorage, path: str, *arguments: Any) -> Any:
        if path.endswith(f"/{name}") and time.monotonic() < until:
            refused.append(path)
            raise ConnectionError("503 Slow Down")
        return given(storage, path, *arguments)

    monkeypatch.setattr(FsspecStorage, call, ask)
    return refused


@pytest.mark.parametrize(("call", "name"), [("write", "progress.json"), ("stat", "stopped")])
def test_no_job_ends_since_its_storage_is_away_for_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, name: str
) -> None:
    refused = refuse(monkeypatch, call, name, seconds=1.0)
    planned = whole_run(small_spec(tmp_path, INLINE, seconds=0.5))
    assert refused
    assert len(planned.accepted().ok) == ROWS
    assert len(attempts_in(planned.storage, planned.run)) == 1


def test_what_ended_a_job_is_heard_though_its_storage_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "write", "progress.json", seconds=LONG)
    with pytest.raises(StageFailed, match="the device is gone") as caught:
        whole_run(small_spec(tmp_path, INLINE, dies=5.0))
    assert "503" not in str(caught.value)
