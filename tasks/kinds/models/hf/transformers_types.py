"""Which types of models the installed transformers has, found without importing it."""

import ast
import importlib.util
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from tasks.kinds.python_source import parsed

TYPES, TYPES_FILES = "CONFIG_MAPPING_NAMES", ("auto_mappings.py", "configuration_auto.py")
"""Where transformers lists the types of models that it has."""
FINDERS, FINDERS_FILE = "MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES", "modeling_auto.py"
"""And those of which it has a class that finds answers in texts."""


@cache
def types_here() -> frozenset[str]:
    """Types of models that the installed transformers has; empty where that cannot be told.

    It is not imported for that, which would take seconds.
    """
    models = folder_of_models()
    if models is None:
        return frozenset()
    listed = listed_types(models / "auto")
    # A type with a folder is there, wherever a newer transformers may list it: who is refused by
    # mistake has no way out.
    return frozenset(listed | {each.name for each in models.iterdir()}) if listed else frozenset()


@cache
def types_of_finders() -> frozenset[str]:
    """Types of models that find answers in texts; empty where that cannot be told."""
    models = folder_of_models()
    return frozenset(listed_keys(models / "auto", FINDERS, [FINDERS_FILE]) if models else ())


def folder_of_models() -> Path | None:
    """Where transformers has its models; None where it is not installed."""
    package = importlib.util.find_spec("transformers")
    found = package is not None and package.origin
    return Path(found).with_name("models") if found else None


def listed_types(folder: Path) -> set[str]:
    """Types of models that transformers lists; empty where the lists are not as we know them."""
    return listed_keys(folder, TYPES, TYPES_FILES)


def listed_keys(folder: Path, name: str, files: Sequence[str]) -> set[str]:
    """Keys of a dict that has BERT; empty where files are not as we know them.

    Args:
        folder: of the files.
        name: of the dict.
        files: that put something into it.
    """
    try:
        trees = [parsed((folder / each).read_text("utf-8")) for each in files]
    except (OSError, SyntaxError, ValueError):
        return set()
    found = {each for tree in trees for each in keys_of(tree, name)}
    return found if "bert" in found else set()


def keys_of(tree: ast.Module, name: str) -> Iterator[str]:
    """Keys of what a file of transformers puts into a dict."""
    for statement in tree.body:
        nodes = list(ast.walk(statement))
        if any(isinstance(each, ast.Name) and each.id == name for each in nodes):
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
