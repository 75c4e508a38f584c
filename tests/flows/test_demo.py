"""The demo's last page: what it says can be copied and followed."""

import re
import sys
from pathlib import Path

import pytest

from flows.demo import run_demo, tell
from flows.demo_data import DemoData
from tasks.errors import InvalidSpec
from tasks.kinds.clusters import InlineCluster
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import load_spec


def test_paths_and_commands_are_said_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / ("long" * 30) / "a[b]"
    data = DemoData(folder, 2, 2, 1, 1.0, 1.0)
    figures = {
        "published": False,
        "rows": {},
        "inputs_skipped": 3,
        "output": str(data.predictions),
        "accuracy": None,
        "set_aside": [],
    }
    monkeypatch.setattr(sys, "argv", [".venv/bin/batch-inference", "demo"])
    tell(data, figures)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert f".venv/bin/batch-inference run {data.spec}" in lines
    assert str(data.held_out) in lines
    assert f"nothing to do at {data.predictions}: 3 inputs published before" in lines


def test_the_whole_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On `inline`; on Ray `make demo` runs it."""

    def inline(path: Path) -> BatchInferenceSpec:
        return load_spec(path).model_copy(update={"cluster": InlineCluster(kind="inline")})

    monkeypatch.setattr("flows.demo.load_spec", inline)
    run_demo(tmp_path / "demo", as_json=False)
    told = capsys.readouterr().out
    assert re.search(r"^written +797$", told, re.MULTILINE)
    assert re.search(r"^set aside +5$", told, re.MULTILINE)
    assert "5 x " in told
    assert "accuracy on images the model has never seen: 9" in told
    run_demo(tmp_path / "demo", as_json=False)
    assert "nothing to do at" in capsys.readouterr().out


def test_a_folder_that_is_none_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidSpec, match=r"FOLDER: .*/file' is a file; give a folder"):
        run_demo(tmp_path / "file", as_json=False)
