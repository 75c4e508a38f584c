"""What this user may not read or write, told with the field that names it and the way out."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from tasks.errors import Unreachable, shown
from tasks.kinds.first_line import first_line
from tasks.kinds.places import folder_of
from tasks.spec import BatchInferenceSpec

SCHEME = re.compile(r"^\w+://")


@contextmanager
def access_told(spec: BatchInferenceSpec) -> Iterator[None]:
    """A block that reads what a spec names, whichever part of it does.

    Args:
        spec: names it.

    Raises:
        Unreachable: this user may not; names the field and the path.
    """
    try:
        yield
    except PermissionError as error:
        raise refused(spec, error) from error


def refused(spec: BatchInferenceSpec, error: PermissionError) -> Unreachable:
    """What to tell of what a disk or a store has refused."""
    path = error.filename
    said = error.strerror or first_line(error)
    if not isinstance(path, str):
        way_out = (
            "see that this user, or the credentials in the environment, may read what it names"
        )
        return Unreachable(f"the spec names what is closed to this user: {said}; {way_out}")
    field = field_of(spec, path)
    way_out = "grant it, or run as a user who may"
    if not os.path.isabs(path):  # of a store: its paths begin with the bucket's name
        way_out = "see the credentials in the environment, or grant them that"
    place = f"{field}: {shown(path)}" if field else shown(path)
    return Unreachable(f"{place} is closed to this user ({said}): {way_out}")


def field_of(spec: BatchInferenceSpec, path: str) -> str | None:
    """The field whose path leads to a file; the one that leads there farthest."""
    leading = {
        len(place): field
        for field, url in places(spec)
        for place in spellings(url)
        if f"{path}/".startswith(f"{place}/")
    }
    return leading[max(leading)] if leading else None


def places(spec: BatchInferenceSpec) -> Iterator[tuple[str, str]]:
    """Fields of a spec that name files or folders, and where they lead."""
    yield "environment.working_dir", spec.environment.working_dir
    yield "sink.path", spec.sink.path
    yield "sink.path", f"{spec.sink.path}.state"
    for name in ("path", "name_or_path"):
        if url := getattr(spec.model, name, None):
            yield f"model.{name}", str(url)
    for url in spec.source.paths:
        yield "source.path", folder_of(url)


def spellings(url: str) -> set[str]:
    """A path as it is written and as its links lead, without scheme."""
    plain = os.path.expanduser(SCHEME.sub("", url)).rstrip("/")
    written = plain if SCHEME.match(url) and not url.startswith("file:") else os.path.abspath(plain)
    return {written, os.path.realpath(written)} if os.path.isabs(written) else {written}
