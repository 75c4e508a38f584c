"""What a newcomer is told to type first."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect_server")
def test_the_first_run_goes_as_the_readme_prints_it(tmp_path: Path) -> None:
    from prefect.settings import PREFECT_API_URL

    page = (ROOT / "README.md").read_text()
    section = page.partition("## Your first run\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```\w*\n(?:# ([\w.]+): [^\n]*\n)?(.*?)```", section, re.DOTALL)
    for name, content in blocks[:-1]:
        (tmp_path / name).write_text(content)
    _, commands = blocks[-1]
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": programs, "PREFECT_API_URL": PREFECT_API_URL.value() or ""}
    done = subprocess.run(
        ["bash", "-e", "-c", commands],
        cwd=tmp_path,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "inputs: 1 to do" in done.stderr
    rows = [{"x": 1, "doubled": 2}, {"x": 2, "doubled": 4}]
    assert done.stdout.splitlines()[-1] == str(rows), done.stdout
