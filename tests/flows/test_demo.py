"""The demo's last page: what it says can be copied and followed."""

import sys
from pathlib import Path

import pytest

from flows.demo import run_demo, tell
from flows.demo_data import DemoData
from tasks.errors import InvalidSpec


def test_paths_and_commands_are_said_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / ("long" * 30) / "a[b]"
    data = DemoData(folder, 2, 2, 1, 1.0, 1.0)
    broken = {"source": str(folder / "0/broken.png"), "error_message": "the file is cut off [x]"}
    figures = {
        "published": False,
        "rows": {},
        "inputs_skipped": 3,
        "output": str(data.predictions),
        "accuracy": None,
        "set_aside": [broken],
    }
    monkeypatch.setattr(sys, "argv", [".venv/bin/batch-inference", "demo"])
    tell(data, figures)
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert f".venv/bin/batch-inference run {data.spec}" in lines
    assert f"set aside: {broken['source']}: the file is cut off [x]" in lines
    assert str(data.held_out) in lines
    assert f"nothing to do at {data.predictions}: 3 inputs published before" in lines


def test_a_folder_that_is_none_is_one_message(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidSpec, match=r"FOLDER: .*/file' cannot hold the demo: .*directory"):
        run_demo(tmp_path / "file", as_json=False)
