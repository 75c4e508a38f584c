"""Packages that only some kinds need: optional extras of this project."""

import importlib.util
from typing import Any

from tasks.errors import InvalidSpec


def require(field: str, value: Any, module: str, extra: str) -> None:
    """See that a package is installed, without importing it.

    Args:
        field: of the spec, that asks for it.
        value: of that field.
        module: to be imported, as in `onnxruntime`.
        extra: of this project, that brings it.

    Raises:
        InvalidSpec: it is not; says how to install it.
    """
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        found = None
    if found is None:
        problem = (
            f"needs the package {module}: pip install 'prefect-ray-data[{extra}]', here and on "
            "every node"
        )
        raise InvalidSpec.at(field, value, problem)
