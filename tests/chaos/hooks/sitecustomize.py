"""Python runs this at start where the folder is on its path: changes how records are stored.

`CHAOS_SLOW` makes it take so many seconds. `CHAOS_SUICIDES` names a folder and how often: a worker
that stores a record kills itself, at random just before (its data files exist, the record does
not) or just after (the record exists, and Ray believes that the task failed).
"""

import importlib.abc
import importlib.machinery
import os
import random
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

SLOW = "CHAOS_SLOW"
SUICIDES = "CHAOS_SUICIDES"
TARGET = "tasks.protocol.storage"
CHANCE = 0.1


class DeadlyStorage(importlib.abc.MetaPathFinder):
    """Finds one module as Python would, and changes a method of it when it is loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's own spec, with a loader that goes on where its own ends."""
        if fullname != TARGET:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        assert spec
        assert spec.loader
        load = spec.loader.exec_module

        def load_and_change(module: ModuleType) -> None:
            load(module)
            make_deadly(module.FsspecStorage)

        spec.loader.exec_module = load_and_change  # type: ignore[method-assign]
        return spec


def make_deadly(storage: Any) -> None:
    """Let a write of a record kill its process now and then."""
    write = storage.write

    def write_or_die(self: Any, path: str, data: bytes) -> None:
        is_record = "/records/" in path
        if is_record:
            time.sleep(float(os.environ.get(SLOW, 0)))
        if is_record and dies("before"):
            os.kill(os.getpid(), signal.SIGKILL)
        write(self, path, data)
        if is_record and dies("after"):
            os.kill(os.getpid(), signal.SIGKILL)

    storage.write = write_or_die


def dies(moment: str) -> bool:
    """Whether this is one of the deaths there may be; each is taken by one process."""
    folder, _, times = os.environ.get(SUICIDES, ":0").rpartition(":")
    if random.random() > CHANCE:
        return False
    for number in range(int(times)):
        try:
            (Path(folder) / f"{moment}-{number}").touch(exist_ok=False)
        except FileExistsError:
            continue
        return True
    return False


if SUICIDES in os.environ or SLOW in os.environ:
    sys.meta_path.insert(0, DeadlyStorage())
