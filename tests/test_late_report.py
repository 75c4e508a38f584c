"""A run that is killed between its commit and its report has a report all the same."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tasks.late_report import report_late
from tasks.lease import Holder, save_holder
from tasks.plan import PlannedRun, make_plan
from tasks.publish import publish_planned
from tasks.run_options import RunOptions
from tests.reporting import classify_spec, make_inputs, run_attempt, run_spec


@pytest.fixture
def published(tmp_path: Path) -> PlannedRun:
    """A run that is published, and of which nobody has said so."""
    make_inputs(tmp_path / "in")
    planned = make_plan(classify_spec(tmp_path, {"bad": [7]}))
    planned.hold()
    run_attempt(planned)
    publish_planned(planned)
    return planned


def manifest_of(planned: PlannedRun) -> Path:
    return Path(planned.output.manifest(planned.run.run_id))


def test_whoever_comes_next_makes_up_for_it(published: PlannedRun, tmp_path: Path) -> None:
    again = make_plan(published.spec)
    assert again.nothing_to_do
    said = report_late(again)
    assert said
    assert said.startswith(f"version 1 was published by run {published.run.run_id}, whose process")
    found = json.loads(manifest_of(published).read_text())
    assert (found["published"], found["version"], found["attempts"]) == (True, 1, 1)
    assert found["inputs"] == 4
    assert (found["rows"]["read"], found["rows"]["rejected"]) == (200, 1)
    assert len(found["files"]) == 4
    assert 0 < found["seconds"]["steady"] < found["seconds"]["total"]
    assert Path(published.run.page).exists()
    assert report_late(again) is None, "it is there now"

    own = tmp_path / "other"
    own.mkdir()
    make_inputs(own / "in")
    run_spec(classify_spec(own))
    reported = make_plan(classify_spec(own))
    assert report_late(reported) is None, "its own run has reported it"


def test_nobody_reports_what_a_living_process_is_about_to(published: PlannedRun) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as beside:
        save_holder(published.storage, published.run.lease, Holder.of(beside.pid))
        again = make_plan(published.spec)
        assert report_late(again) is None
        assert not manifest_of(published).exists()
        beside.kill()
    assert report_late(again)
    assert manifest_of(published).exists()


def test_a_redrive_is_reported_as_one(published: PlannedRun) -> None:
    report_late(make_plan(published.spec))
    mended = classify_spec(Path(published.output.path).parent)
    redriven = make_plan(mended, RunOptions(redrive=True))
    run_attempt(redriven)
    publish_planned(redriven)
    assert report_late(make_plan(published.spec))
    found = json.loads(manifest_of(redriven).read_text())
    assert (found["version"], found["inputs_skipped"]) == (2, 0)


def test_a_run_that_an_earlier_release_began_has_one_too(published: PlannedRun) -> None:
    """Its header names no scheduled time."""
    header = json.loads(published.storage.read(published.run.header))
    del header["scheduled_time"]
    published.storage.write(published.run.header, json.dumps(header).encode())
    assert report_late(make_plan(published.spec))
    assert manifest_of(published).exists()


def test_what_goes_wrong_stops_no_run(
    published: PlannedRun, caplog: pytest.LogCaptureFixture
) -> None:
    again = make_plan(published.spec)
    Path(published.run.header).write_text('{"of": "another release"}')
    assert report_late(again) is None
    assert "the missing report of the last published run cannot be written" in caplog.text
