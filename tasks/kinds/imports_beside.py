"""What a user's modules import of the folder that they lie in, told by their source alone."""

import ast
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from tasks.kinds.python_source import parsed

OURS = {"tasks", "flows"}
INSTALLED = {"site-packages", "dist-packages"}
"""Names of folders of installed packages."""


def imported_from(folder: Path, files: list[Path], own: str) -> set[Path]:
    """Modules of a folder that these files import, those that they import, and so on.

    None of a folder of installed packages: these have versions.

    Args:
        folder: where they are looked for.
        files: a module, or all of a package's: what they import of each other is among them.
        own: that module's or package's name.
    """
    if folder.name in INSTALLED:
        return set()
    there = names_in(folder) - OURS
    others = frozenset(there - {own})
    left = [each for each in files if mentions(each.read_bytes(), others)]
    known, asked = set(files), set[tuple[Path, str]]()
    while left:
        names = set(imports(left.pop(), folder, there)) - asked
        asked |= names
        found = {path for start, name in names for path in defining(start, name)} - known
        left += found
        known |= found
    return known - set(files)


def names_in(folder: Path) -> set[str]:
    """Names that can be imported from a folder; it may hold a million files of other kinds."""
    with os.scandir(folder) as entries:
        modules = [each.name for each in entries if each.name.endswith(".py") or each.is_dir()]
    return {name.partition(".")[0] for name in modules}


@lru_cache(maxsize=4096)
def mentions(content: bytes, names: frozenset[str]) -> bool:
    """Whether a source has one of these words, as it has where it imports a module of that name.

    A tenth of what parsing it takes; a repository has thousands of modules.
    """
    return not names.isdisjoint(re.findall(r"\w+", content.decode(errors="ignore")))


def imports(file: Path, folder: Path, there: set[str]) -> Iterator[tuple[Path, str]]:
    """Names of modules, or of what may be one, that a file imports, and where they begin.

    Of those that begin in the folder, only what is there.
    """
    for level, name in names_imported(file.read_bytes()):
        if level or name.split(".")[0] in there:
            yield (file.parents[level - 1] if level else folder), name


@lru_cache(maxsize=4096)
def names_imported(content: bytes) -> list[tuple[int, str]]:
    """What a module imports, and from how many folders up, by its source.

    Args:
        content: the source; what is none, as a compiled module, imports nothing here.
    """
    try:
        tree = parsed(content)
    except (SyntaxError, ValueError):
        return []
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(0, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            inside = f"{node.module}." if node.module else ""
            found += [(node.level, f"{inside}{alias.name}") for alias in node.names]
    return found


def defining(folder: Path, name: str) -> Iterator[Path]:
    """Files below a folder that Python runs to import a name: packages on the way, a module."""
    for part in name.split("."):
        yield from filter(Path.is_file, (folder / f"{part}.py", folder / part / "__init__.py"))
        folder = folder / part
