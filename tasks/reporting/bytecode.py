"""Whether processes compile anew what they import, which no setting of a spec changes."""

import sys
from importlib.util import cache_from_source, find_spec
from pathlib import Path

COMPILES_ANEW = (
    "; PYTHONDONTWRITEBYTECODE is set and packages were installed without bytecode, so that each "
    "process compiles what it imports: unset it, or install with uv pip install --compile-bytecode"
)


def compiles_anew(package: str = "prefect") -> bool:
    """Whether this Python may leave no bytecode, and whoever installed a package has left none."""
    found = find_spec(package) if sys.dont_write_bytecode else None
    if found is None or found.origin is None:
        return False
    return not Path(cache_from_source(found.origin)).exists()
