"""`.ci/again` decides what lands: a few tests may fail once, by chance, and nothing else may."""

import subprocess
import sys
from pathlib import Path

import pytest

AGAIN = Path(__file__).parents[1] / ".ci/again"
FAILS_ONCE = """
def test_a():
    from pathlib import Path
    has_failed = Path("has_failed")
    assert has_failed.exists() or has_failed.touch()
"""
FAILS = "def test_b(): assert False"
STOPS = "def test_c():\n    import pytest\n    pytest.exit('with other tests left')"


def exit_code(folder: Path, *files: str) -> int:
    """Of pytest over files with these contents, with a second try."""
    for number, content in enumerate(files):
        (folder / f"test_{number}.py").write_text(content)
    # Without settings: those of a folder above would do.
    command = [
        str(AGAIN),
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        "/dev/null",
        "--rootdir",
        ".",
    ]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    print(ended.stdout)
    return ended.returncode


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("files", "code"),
    [
        ([FAILS_ONCE], 0),
        ([FAILS_ONCE, FAILS], 1),
        ([FAILS_ONCE, STOPS], 2),
        (["def test_d(): pass"], 0),
        (["no Python"], 2),
        ([], 5),
    ],
    ids=["once", "another always", "then it stops", "none", "no tests there", "nothing there"],
)
def test_only_what_fails_twice_fails(tmp_path: Path, files: list[str], code: int) -> None:
    assert exit_code(tmp_path, *files) == code


@pytest.mark.timeout(60)
def test_many_have_no_second_try(tmp_path: Path) -> None:
    many = [FAILS_ONCE.replace("has_failed", f"has_failed_{number}") for number in range(4)]
    assert exit_code(tmp_path, *many) == 1
    assert exit_code(tmp_path, *many) == 0, "each of them fails once"
