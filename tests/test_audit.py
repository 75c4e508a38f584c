"""`make audit` says what it could not ask, and fails where it is told of flaws."""

import shutil
from pathlib import Path

import pytest

from tests.audit import audit


def told(folder: Path, script: str) -> str:
    """A pip-audit that says what a script says."""
    program = folder / "pip-audit"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        (None, 0, "skipped: pip-audit is not installed"),
        ("echo requests.exceptions.ConnectionError >&2; exit 1", 0, "skipped: the source of"),
        ("echo one 1.0 PYSEC-1; exit 1", 1, "PYSEC-1"),
        ("echo No known vulnerabilities found", 0, "No known"),
    ],
)
def test_audit(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    script: str | None,
    code: int,
    said: str,
) -> None:
    program = None if script is None else told(tmp_path, script)
    monkeypatch.setattr(shutil, "which", lambda *_, **__: program)
    assert audit(tmp_path / "constraints.txt") == code
    assert said in capsys.readouterr().out
