"""Imports of large libraries, in a fifth less time."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import without looking for garbage: of what is imported next to nothing is.

    Python would look again and again, the more often the more there is.
    """
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()
