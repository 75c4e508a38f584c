"""Jobs of previews whose process was killed: who cancels what is at work stops them, too."""

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tasks.clusters import stopping
from tasks.lease import Holder, save_holder
from tasks.left_previews import left_previews, stop_left_previews
from tasks.plan import make_plan
from tasks.previewing import trial_of
from tasks.ray_job.job import Job
from tasks.run import left_to_do, next_attempt
from tasks.running_jobs import tell_to_stop
from tests.reporting import classify_spec, make_inputs


def job_of_preview(folder: Path, name: str, holder: Holder) -> Job:
    """That of a preview's first attempt, which a process follows or has followed."""
    planned = make_plan(trial_of(classify_spec(folder), 10, name, on_cluster=True))
    job = next_attempt(planned, left_to_do(planned, tried=False)).job
    save_holder(job.storage, job.run.lease, holder)
    return job


def test_only_those_are_stopped_whose_process_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_inputs(tmp_path / "in")
    spec, here = classify_spec(tmp_path), Holder.of(os.getpid())
    assert list(left_previews(spec)) == []
    job_of_preview(tmp_path, "alive", here)
    job = job_of_preview(tmp_path, "killed", replace(here, birth="another"))
    stopped: list[str] = []

    def attach(asked: Job) -> SimpleNamespace:
        return SimpleNamespace(stop=lambda: stopped.append(asked.id))

    monkeypatch.setattr(stopping, "cluster_of", lambda _: SimpleNamespace(attach=attach))
    assert tell_to_stop(spec).stopped == [], "they are no jobs of the output's runs"
    told = stop_left_previews(spec)
    assert [each.id for each in told.stopped] == stopped == [job.id]
    assert Path(job.stopped_file).exists()
