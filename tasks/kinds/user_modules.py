"""Finds the modules of user code, at first without importing them; imports them."""

import hashlib
import importlib
import importlib.util
from pathlib import Path
from typing import Any

from tasks.errors import InvalidSpec


def source_file(field: str, reference: str) -> Path:
    """The file that defines a module, found without importing it.

    Raises:
        InvalidSpec: the reference is malformed, or there is no such module.
    """
    module, colon, name = reference.partition(":")
    if not (colon and module and name):
        raise InvalidSpec.at(field, reference, 'must read "module:name"')
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


def load(field: str, reference: str) -> Any:
    """Import what a reference names.

    Raises:
        InvalidSpec: it is not there.
    """
    source_file(field, reference)
    module, _, name = reference.partition(":")
    found: Any = importlib.import_module(module)
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        raise InvalidSpec.at(field, reference, f"is not there: {error}") from error
    return found


def digest(field: str, reference: str) -> str:
    """Digest of the module's source, and of its package's where it lies in one."""
    file = source_file(field, reference)
    top = reference.partition(":")[0].split(".")[0]
    spec = importlib.util.find_spec(top)
    folders = list(spec.submodule_search_locations or []) if spec else []
    files = sorted(path for each in folders for path in Path(each).rglob("*.py")) or [file]
    content = hashlib.sha256()
    for path in files:
        content.update(path.name.encode() + b"\0" + path.read_bytes())
    return content.hexdigest()[:16]
