"""Finds the modules of user code, at first without importing them; imports them."""

import hashlib
import importlib
import importlib.util
import os
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from tasks.errors import InvalidSpec

DIGESTS: dict[str, str] = {}
"""Of modules, as this process has last seen their source."""
IMPORTED: dict[str, str | None] = {}
"""Of modules, as this process had seen their source when it imported them."""


def put_first(folder: str) -> None:
    """Have modules looked for in a folder before all others, such as another spec's."""
    sys.path[:] = [folder, *(each for each in sys.path if each != folder)]


def source_file(field: str, reference: str) -> Path:
    """The file that defines a module, found without importing it.

    Raises:
        InvalidSpec: the reference is malformed, or there is no such module.
    """
    module, colon, name = reference.partition(":")
    if not (colon and module and name):
        raise InvalidSpec.at(field, reference, 'must read "module:name"')
    refuse_namesake(field, reference)
    try:
        spec = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        problem = (
            f"names no module {module!r} on the Python path; environment.working_dir is added to it"
        )
        raise InvalidSpec.at(field, reference, problem)
    return Path(spec.origin)


def refuse_namesake(field: str, reference: str) -> None:
    """See that this process has imported no other module of that name, as for another spec.

    Raises:
        InvalidSpec: it has, and would run that one's code.
    """
    top = reference.partition(":")[0].partition(".")[0]
    held = getattr(sys.modules.get(top), "__file__", None)
    found = PathFinder.find_spec(top)
    if held and found and found.origin and not is_same_file(held, found.origin):
        problem = (
            f"lies in {found.origin}, and this process has imported {held} under that name: give "
            "the module another name, or start another process"
        )
        raise InvalidSpec.at(field, reference, problem)


def is_same_file(one: str, other: str) -> bool:
    """Whether two paths are of one file."""
    return os.path.realpath(one) == os.path.realpath(other)


def load(field: str, reference: str) -> Any:
    """Import what a reference names.

    Raises:
        InvalidSpec: it is not there, or is there as it was before its source was changed.
    """
    source_file(field, reference)
    module, _, name = reference.partition(":")
    is_new, seen = module not in sys.modules, DIGESTS.get(module)
    found: Any = importlib.import_module(module)
    then = IMPORTED[module] = seen if is_new else IMPORTED.get(module) or seen
    if then != seen:
        problem = (
            "has changed since this process imported it, and would run as it was: start another "
            "process, or a notebook's kernel anew"
        )
        raise InvalidSpec.at(field, reference, problem)
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        raise InvalidSpec.at(field, reference, f"is not there: {error}") from error
    return found


def digest(field: str, reference: str) -> str:
    """Digest of the module's source, and of its package's where it lies in one."""
    file = source_file(field, reference)
    module = reference.partition(":")[0]
    spec = importlib.util.find_spec(module.partition(".")[0])
    folders = list(spec.submodule_search_locations or []) if spec else []
    files = sorted(path for each in folders for path in Path(each).rglob("*.py")) or [file]
    content = hashlib.sha256()
    for path in files:
        content.update(path.name.encode() + b"\0" + path.read_bytes())
    DIGESTS[module] = content.hexdigest()[:16]
    return DIGESTS[module]
