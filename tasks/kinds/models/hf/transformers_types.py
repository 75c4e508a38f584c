"""Which types of models the installed transformers has, found without importing it."""

import ast
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tasks.kinds.python_source import parsed

TYPES, TYPES_FILES = "CONFIG_MAPPING_NAMES", ("auto_mappings.py", "configuration_auto.py")
"""Where transformers lists the types of models that it has."""


@cache
def types_here() -> frozenset[str]:
    """Types of models that the installed transformers has; empty where that cannot be told.

    It is not imported for that, which would take seconds.
    """
    package = importlib.util.find_spec("transformers")
    if package is None or package.origin is None:
        return frozenset()
    models = Path(package.origin).with_name("models")
    listed = listed_types(models / "auto")
    # A type with a folder is there, wherever a newer transformers may list it: who is refused by
    # mistake has no way out.
    return frozenset(listed | {each.name for each in models.iterdir()}) if listed else frozenset()


def listed_types(folder: Path) -> set[str]:
    """Types of models that transformers lists; empty where the lists are not as we know them."""
    try:
        trees = [parsed((folder / each).read_text("utf-8")) for each in TYPES_FILES]
    except (OSError, SyntaxError, ValueError):
        return set()
    found = {each for tree in trees for each in keys_of_types(tree)}
    return found if "bert" in found else set()


def keys_of_types(tree: ast.Module) -> Iterator[str]:
    """Keys of what a file of transformers puts into its types."""
    for statement in tree.body:
        nodes = list(ast.walk(statement))
        if any(isinstance(each, ast.Name) and each.id == TYPES for each in nodes):
            keys = (key for node in nodes for key in keys_in(node))
            yield from (str(key.value) for key in keys if isinstance(key, ast.Constant))


def keys_in(node: ast.AST) -> list[ast.expr | None]:
    """Keys that a part of Python code gives: of a dict, or of a pair that will be one's."""
    match node:
        case ast.Dict(keys=keys):
            return keys
        case ast.Tuple(elts=[key, _]):
            return [key]
    return []
