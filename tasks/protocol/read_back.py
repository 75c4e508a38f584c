"""Files of ours read back, which a disk may have damaged since, or somebody have written over."""

import json
import logging
from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.protocol.client_errors import plain
from tasks.protocol.storage import Storage

logger = logging.getLogger(__name__)

T = TypeVar("T")
NOT_AS_WRITTEN = (
    *(ValueError, LookupError, TypeError, AttributeError, OSError),
    pa.ArrowException,
)
"""What decoders raise of content that is not ours."""
OF_PUBLISHED = (
    "Restore it from a copy, or run with --replace-output, which predicts everything again"
)
"""What to do where a file of a published run is damaged, which tells of its rows."""
PLAN_ANEW = (
    "Restore it from a copy; or delete it and run again, which plans again and keeps what is "
    "recorded if inputs and spec are unchanged"
)
"""What to do where the plan of a run that is not published is damaged."""


def read_back(storage: Storage, path: str, decode: Callable[[bytes], T], way_out: str) -> T:
    """What a file of ours says.

    Args:
        storage: where it lies.
        path: of it.
        decode: makes that of its content.
        way_out: what to do where it is damaged.

    Raises:
        FileNotFoundError: it is gone.
        InvalidSpec: it is damaged; says how, and what to do.
    """
    return decoded(path, storage.read(path), decode, way_out)


def decoded(path: str, content: bytes, decode: Callable[[bytes], T], way_out: str) -> T:
    """The same of content that was read already."""
    try:
        return decode(content)
    except NOT_AS_WRITTEN as error:
        raise damaged(path, content, error, way_out) from error


def damaged(path: str, content: bytes, error: Exception, way_out: str) -> InvalidSpec:
    """Says that a file is not as it was written, and what to do."""
    said = f"it has no {error}" if isinstance(error, KeyError) else plain(error)
    said = said if content else "it is empty"
    problem = f"is not as it was written ({said}): it is damaged or was changed. "
    return InvalidSpec.at("sink.path", path, problem + way_out)


def json_object(content: bytes) -> dict[str, Any]:
    """What a JSON file of ours says.

    Raises:
        ValueError: it is none.
    """
    found = json.loads(content)
    if not isinstance(found, dict):
        raise ValueError(f"it should be a JSON object, not {type(found).__name__}")
    return found


def read_note(storage: Storage, path: str) -> dict[str, Any] | None:
    """What a JSON file says on which no row hangs; None where there is none.

    One that is damaged is as good as none, which is logged: what is known without it goes on.
    """
    try:
        return json_object(storage.read(path))
    except FileNotFoundError:
        return None
    except ValueError as error:
        logger.warning("%s is damaged and skipped: %s", path, error)
        return None
