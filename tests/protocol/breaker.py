"""Puts something broken where the protocol has something whole."""

import sys
from collections.abc import Callable
from typing import Any

import pytest


class Breaker:
    """Undoes all of it when the test ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch

    def function(self, whole: Callable, broken: Callable) -> None:
        """Replace a function wherever it was imported."""
        for name, module in list(sys.modules.items()):
            ours = name.startswith(("tasks.protocol", "tests.simulation"))
            if ours and getattr(module, whole.__name__, None) is whole:
                self.monkeypatch.setattr(module, whole.__name__, broken)

    def attribute(self, owner: Any, name: str, broken: Any) -> None:
        self.monkeypatch.setattr(owner, name, broken)
