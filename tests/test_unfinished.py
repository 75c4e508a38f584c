"""Runs that are not published: how they are found, given up, and left to who is at work."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tasks.errors import OutputHeld
from tasks.lease import SILENT_SECONDS, Holder, save_holder
from tasks.plan import make_plan
from tasks.protocol.infos import Stat
from tasks.protocol.storage import FsspecStorage
from tasks.run import left_to_do, new_job
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


def test_a_job_of_a_run_that_is_given_up_is_told_to_stop(tmp_path: Path) -> None:
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path))
    gap = left_to_do(planned, tried=False)
    ended, left = new_job(planned, gap, 1), new_job(planned, gap, 2)
    planned.storage.write(ended.result_file, b"{}")
    make_plan(planned.spec, RunOptions(restart=True))
    assert not Path(ended.stopped_file).exists()
    assert Path(left.stopped_file).exists()


def test_a_run_in_another_process_is_not_gone_on_with_here(tmp_path: Path) -> None:
    """Of a cluster its job would be followed; a process keeps its own."""
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path))
    elsewhere = replace(Holder.of(os.getpid()), host="elsewhere")
    save_holder(planned.storage, planned.run.lease, elsewhere)
    with pytest.raises(OutputHeld, match=r"at work in process \d+ on elsewhere"):
        make_plan(planned.spec)
    silent = replace(elsewhere, at=time.time() - SILENT_SECONDS - 5)
    save_holder(planned.storage, planned.run.lease, silent)
    assert make_plan(planned.spec).run == planned.run
