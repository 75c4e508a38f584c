"""Inputs that were moved are told of, for their rows would come twice; a trial's that changed."""

import os
import shutil
from pathlib import Path

import pytest

from tasks.plan import make_plan
from tasks.run_options import RunOptions
from tests.reporting import classify_spec, make_inputs, run_spec
from tests.web_server import web_server


def test_inputs_that_were_moved_are_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_inputs(tmp_path / "in")
    run_spec(classify_spec(tmp_path))
    later = {"source": {"kind": "parquet", "path": str(tmp_path / "later")}}
    shutil.move(folder, tmp_path / "later")
    caplog.clear()
    make_plan(classify_spec(tmp_path, **later), save=False)
    (told,) = caplog.messages
    assert told.startswith(f"4 inputs, the first {tmp_path}/later/0.parquet, look new but were")
    assert f"such as {tmp_path}/in/0.parquet: after a move, the output gets their rows" in told
    assert "--replace-output" in told


def test_the_next_days_files_of_the_same_names_are_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = make_inputs(tmp_path / "in")
    run_spec(classify_spec(tmp_path))
    second = make_inputs(tmp_path / "later")
    shutil.copystat(first / "0.parquet", second / "0.parquet")  # as what never changes
    for at in (1, 2, 3):
        os.utime(second / f"{at}.parquet", ns=(at, at))
    both = [str(first), str(second)]
    caplog.clear()
    for path in (str(second), both):
        source = {"kind": "parquet", "path": path}
        make_plan(classify_spec(tmp_path, source=source), save=False)
    assert not caplog.messages


def test_a_copy_beside_what_is_published_is_an_input_of_its_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_inputs(tmp_path / "in")
    run_spec(classify_spec(tmp_path))
    shutil.copytree(folder, folder / "copy")
    caplog.clear()
    planned = make_plan(classify_spec(tmp_path), save=False)
    assert len(planned.plan.shards) == 4
    assert not caplog.messages


def test_inputs_that_nothing_tells_the_versions_of_are_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    make_inputs(tmp_path / "in")
    with web_server(tmp_path / "in") as server:
        server.sends_whole, server.says_size = True, False
        source = {"kind": "parquet", "path": [server.url(f"{at}.parquet") for at in range(4)]}
        spec = classify_spec(tmp_path, source=source)
        run_spec(spec)
        caplog.clear()
        assert make_plan(spec, save=False).nothing_to_do
        (told,) = caplog.messages
        assert told.startswith("4 inputs taken as already published, the first of them ")
        assert "--replace-output" in told
        few, elsewhere = RunOptions(limit=12), {"kind": "parquet", "path": str(tmp_path / "few")}
        trial = classify_spec(tmp_path, source=source, sink=elsewhere)
        run_spec(trial, few)
        caplog.clear()
        assert make_plan(trial, few, save=False).nothing_to_do
        assert not caplog.messages, "of most of them no row is published"
        server.sends_whole = False  # its answers have a time, and the files are new by it
        caplog.clear()
        assert len(make_plan(spec, save=False).plan.shards) == 4
        assert not caplog.messages


def test_a_trials_inputs_that_have_changed_since_are_told_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_inputs(tmp_path / "in")
    trial = RunOptions(limit=12)
    run_spec(classify_spec(tmp_path), trial)
    caplog.clear()
    again = make_plan(classify_spec(tmp_path), trial, save=False)
    assert (again.nothing_to_do, again.inputs_skipped) == (True, 1), "of four one is published"
    os.utime(folder / "3.parquet", ns=(1, 1))  # its rows are after the first twelve
    assert make_plan(classify_spec(tmp_path), trial, save=False).nothing_to_do
    assert not caplog.messages
    os.utime(folder / "0.parquet", ns=(1, 1))
    assert make_plan(classify_spec(tmp_path), trial, save=False).nothing_to_do
    (told,) = caplog.messages
    assert told.startswith("1 input changed or gone since the first rows were published, the fir")
    assert f"{folder}/0.parquet: --replace-output" in told
