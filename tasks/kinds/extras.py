"""Packages that only some kinds need: optional extras of this project."""

import importlib.util
from typing import Any

from tasks.errors import InvalidSpec

EVERYWHERE = "here and on every node"


def require(field: str, value: Any, module: str, extra: str, where: str = EVERYWHERE) -> None:
    """See that a package is installed, without importing it.

    Args:
        field: of the spec, that asks for it.
        value: of that field.
        module: to be imported, as in `onnxruntime`.
        extra: of this project, that brings it.
        where: it has to be.

    Raises:
        InvalidSpec: it is not; says how to install it.
    """
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:
        found = None
    if found is None:
        problem = f"needs the package {module}: pip install 'prefect-ray-data[{extra}]', {where}"
        raise InvalidSpec.at(field, value, problem)
