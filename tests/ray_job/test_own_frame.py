"""The line of the user's own code in which an error was raised."""

import json
import runpy
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tasks.kinds.columns import to_numpy
from tasks.ray_job.own_frame import is_own, own_frame
from tasks.ray_job.stage_error import MESSAGE_CHARACTERS, reason_of, stage_error

CODE = """
import json

def inner(image):
    return image.shape

def outer(batch):
    return [inner(each) for each in batch]

def parsed(text):
    return json.loads(text)

def wrapped(text):
    try:
        parsed(text)
    except ValueError as error:
        raise KeyError(text) from error

def ended(code):
    raise SystemExit(code)
"""


@pytest.fixture
def code(tmp_path: Path) -> dict[str, Any]:
    """What a file of the user's defines."""
    file = tmp_path / "helper.py"
    file.write_text(CODE)
    return runpy.run_path(str(file))


def raised(code: dict[str, Any], name: str, given: object) -> BaseException:
    with pytest.raises(BaseException) as caught:
        code[name](given)
    return caught.value


@pytest.mark.parametrize(
    ("name", "given", "where"),
    [
        ("outer", [None], "helper.py:5 in inner"),
        ("parsed", "{", "helper.py:11 in parsed"),
        ("wrapped", "{", "helper.py:17 in wrapped"),
    ],
    ids=["own", "of a library", "of two"],
)
def test_the_innermost_line_of_own_code_is_named(
    name: str, given: object, where: str, code: dict[str, Any]
) -> None:
    error = raised(code, name, given)
    # The test called it, and is the user's code to whoever looks.
    assert own_frame(error) == where
    assert reason_of(error) == f"{error} ({where})"


def test_what_we_make_of_an_error_does_not_hide_its_line(code: dict[str, Any]) -> None:
    before = raised(code, "outer", [None])
    after = RuntimeError("it broke")
    after.__cause__ = before
    assert own_frame(after) == "helper.py:5 in inner"
    assert str(stage_error(before)).endswith("has no attribute 'shape' (helper.py:5 in inner)")


def test_code_that_ends_its_process_is_named(code: dict[str, Any]) -> None:
    said = str(stage_error(raised(code, "ended", 3)))
    assert (
        said == "the code ended its process (sys.exit(3)) (helper.py:20 in ended): raise an error"
    )


def test_an_error_of_no_own_code_says_what_it_did() -> None:
    error = ValueError("never raised")
    assert own_frame(error) is None
    assert reason_of(error) == "never raised"
    for file in (json.__file__, pa.__file__, to_numpy.__code__.co_filename, "<string>", "a.pyx"):
        assert not is_own(file)


def test_a_long_message_does_not_push_the_line_out(code: dict[str, Any]) -> None:
    said = reason_of(raised(code, "wrapped", "x" * 3_000))
    assert len(said) == MESSAGE_CHARACTERS
    assert said.endswith("xxx (helper.py:17 in wrapped)")
