"""Inputs that were moved are told of, for their rows would come twice into the output."""

import os
import shutil
from pathlib import Path

import pytest

from tasks.plan import make_plan
from tests.reporting import classify_spec, make_inputs, run_spec


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
    assert told.startswith(f"4 inputs to do as if never published, the first {tmp_path}/later/0.p")
    assert f"as {tmp_path}/in/0.parquet: rows of inputs that were moved come twice" in told
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
