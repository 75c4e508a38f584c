"""Finds user code by its import path `module:name`, at first without importing it."""

import ast
import hashlib
import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds import columns
from tasks.protocol.batch import ROW

BatchFormat = Literal["numpy", "pandas"]


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


def check_reference(field: str, reference: str) -> None:
    """See that a module defines a name, from its source alone.

    Raises:
        InvalidSpec: no such module, it does not parse, or it does not define the name.
    """
    file = source_file(field, reference)
    name = reference.partition(":")[2].split(".")[0]
    if file.suffix != ".py":
        return
    try:
        tree = ast.parse(file.read_text(), str(file))
    except SyntaxError as error:
        raise InvalidSpec.at(field, reference, f"does not parse: {error}") from error
    names = top_level_names(tree)
    if name not in names and "*" not in names:
        raise InvalidSpec.at(field, reference, f"is not there: {file.name} defines {sorted(names)}")


def top_level_names(tree: ast.Module) -> set[str]:
    """Names a module defines or imports, also inside `if` and `try`."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                names.add(node.name)
            case ast.Name(ctx=ast.Store()):
                names.add(node.id)
            case ast.Import() | ast.ImportFrom():
                names.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
    return names


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


def call(
    function: Callable[[Any], Any], rows: pa.Table, batch_format: BatchFormat, with_row_ids: bool
) -> pa.Table:
    """Call user code with rows in its format; what it returns, as a table."""
    wanted = columns.visible(rows)
    given = rows.select([ROW, *wanted] if with_row_ids else wanted)
    if batch_format == "pandas":
        return columns.from_user(function(columns.to_pandas(given)))
    return columns.from_user(function(columns.to_numpy(given)))
