"""Calls of a storage that have to be made side by side."""

from collections.abc import Callable
from threading import Barrier
from typing import Any

import pytest

from tasks.protocol.storage import FsspecStorage


def in_pairs(monkeypatch: pytest.MonkeyPatch, name: str, wanted: Callable[[str], bool]) -> set[str]:
    """Has the first call on each such path wait for another one: one by one they would never end.

    Args:
        monkeypatch: takes it back.
        name: of the storage's method.
        wanted: which paths; there must be an even number of them.

    Returns:
        The paths that were called on.
    """
    both, call, asked = Barrier(2, timeout=30), getattr(FsspecStorage, name), set[str]()

    def waiting(storage: FsspecStorage, path: str, *more: Any) -> Any:
        if wanted(path) and path not in asked:
            asked.add(path)
            both.wait()
        return call(storage, path, *more)

    monkeypatch.setattr(FsspecStorage, name, waiting)
    return asked
