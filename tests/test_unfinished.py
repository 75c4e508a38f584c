"""Unfinished runs are found without a look at what published ones have left."""

from pathlib import Path

import pytest

from tasks.plan import make_plan
from tasks.protocol.infos import Stat
from tasks.protocol.storage import FsspecStorage
from tasks.run_options import RunOptions
from tests.reporting import classify_spec, make_inputs, run_spec


def test_no_folder_of_a_published_run_is_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_inputs(tmp_path / "in")
    planned, _ = run_spec(classify_spec(tmp_path))
    listed: list[str] = []
    list_all = FsspecStorage.list

    def note(storage: FsspecStorage, folder: str) -> list[Stat]:
        listed.append(folder)
        return list_all(storage, folder)

    monkeypatch.setattr(FsspecStorage, "list", note)
    make_plan(planned.spec, RunOptions(restart=True))
    assert listed, "the plan's own folder is"
    runs = planned.output.runs
    assert not [each for each in listed if each == runs or each.startswith(planned.run.path)]
