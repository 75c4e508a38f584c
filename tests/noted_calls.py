"""Which paths a storage is asked for."""

from typing import Any

import pytest

from tasks.protocol.storage import FsspecStorage


def noted_calls(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[str]:
    """Gets the paths that a storage's methods of these names are called with, from here on."""
    asked = list[str]()
    for name in names:
        call = getattr(FsspecStorage, name)

        def noting(storage: FsspecStorage, path: str, *more: Any, call: Any = call) -> Any:
            asked.append(path)
            return call(storage, path, *more)

        monkeypatch.setattr(FsspecStorage, name, noting)
    return asked
