"""What this user may not read or write, told with the field that names it and the way out."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from tasks.errors import Unreachable, shown
from tasks.kinds.first_line import first_line
from tasks.kinds.places import folder_of
from tasks.spec import BatchInferenceSpec
from tasks.spec_reading.paths import places

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
        way_out = "allow this user, or the credentials in the environment, to read what it names"
        return Unreachable(
            f"this user has no access to something the spec names: {said}; {way_out}"
        )
    field = field_of(spec, path)
    way_out = "give this user access, or run as a user who has it"
    if field == "source.path" and spec.source.holds == "file":
        way_out += ", or leave it out with source.exclude"
    if not os.path.isabs(path):  # of a store: its paths begin with the bucket's name
        way_out = "check the credentials in the environment, or give them access"
    place = f"{field}: {shown(path)}" if field else shown(path)
    return Unreachable(f"{place} cannot be accessed by this user ({said}): {way_out}")


def field_of(spec: BatchInferenceSpec, path: str) -> str | None:
    """The field whose path leads to a file; the one that leads there farthest."""
    leading = {
        len(place): field
        for field, url in [*places(spec), *places_beside(spec)]
        for place in spellings(folder_of(url))
        if f"{path}/".startswith(f"{place}/")
    }
    return leading[max(leading)] if leading else None


def places_beside(spec: BatchInferenceSpec) -> Iterator[tuple[str, str]]:
    """What is read beside the places that a spec names as such, and by which field."""
    yield "environment.working_dir", spec.environment.working_dir
    yield "sink.path", f"{spec.sink.path}.state"
    if name := getattr(spec.model, "name_or_path", None):
        yield "model.name_or_path", name


def spellings(url: str) -> set[str]:
    """A path as it is written and as its links lead, without scheme."""
    plain = os.path.expanduser(SCHEME.sub("", url)).rstrip("/")
    written = plain if SCHEME.match(url) and not url.startswith("file:") else os.path.abspath(plain)
    return {written, os.path.realpath(written)} if os.path.isabs(written) else {written}
