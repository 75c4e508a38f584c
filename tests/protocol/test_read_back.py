"""Files of ours that are damaged are named, whatever it is that their decoder raises."""

import json

import pyarrow as pa
import pytest

from tasks.errors import InvalidSpec
from tasks.protocol.read_back import decoded, json_object


def raises(error: Exception) -> object:
    raise error


@pytest.mark.parametrize(
    "error",
    [
        pa.ArrowNotImplementedError("Unrecognized type:53"),  # no ValueError, as its others are
        pa.ArrowInvalid("not a schema"),
        KeyError("path"),
        json.JSONDecodeError("Expecting value", "", 0),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    ],
)
def test_a_file_that_cannot_be_decoded_is_named(error: Exception) -> None:
    with pytest.raises(InvalidSpec, match=r"'runs/1/run\.json' is not as it .* Restore it$"):
        decoded("runs/1/run.json", b"x", lambda _: raises(error), "Restore it")


def test_no_other_error_passes_for_damage() -> None:
    with pytest.raises(ZeroDivisionError):
        decoded("a", b"x", lambda _: raises(ZeroDivisionError()), "Restore it")


@pytest.mark.parametrize("content", [b"", b"[]", b"null", b"{", b"\xff"])
def test_what_is_no_json_object_is_damaged(content: bytes) -> None:
    with pytest.raises(InvalidSpec, match="is not as it was written"):
        decoded("a", content, json_object, "Restore it")
