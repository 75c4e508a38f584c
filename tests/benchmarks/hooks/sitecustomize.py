"""Python runs this at start where the folder is on its path: notes when parts of a run begin.

`STARTUP_MARKS` names a file; each process appends lines of time, its own CPU seconds, pid, mark.
"""

import importlib.abc
import importlib.machinery
import os
import sys
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

MARKED = {
    "flows.batch_inference": ["carry_out"],
    "flows.own_server": ["start_own_server"],
    "tasks.run": ["next_attempt"],
    "tasks.ray_job.connection": ["connect"],
    "tasks.ray_job.cluster": ["configure"],
    "tasks.ray_job.pipeline": ["run_pipeline"],
    "tasks.ray_job.stage_functions": ["infer_stage"],
}
"""Functions by module; a mark says that one was called, and one that it has returned."""
OF_INTEREST = {"prefect", "ray.data"}
"""Modules whose import is a mark as well."""


def mark(text: str) -> None:
    """Note a moment of this process."""
    line = f"{time.time():.3f} {time.process_time():.3f} {os.getpid()} {text}\n"
    with open(os.environ["STARTUP_MARKS"], "a") as file:
        file.write(line)


class Marks(importlib.abc.MetaPathFinder):
    """Finds a module as Python would, and puts marks into it when it is loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The module's own spec, with a loader that goes on where its own ends."""
        if fullname not in MARKED and fullname not in OF_INTEREST:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_mark(module: ModuleType) -> None:
            mark(f"import {fullname} begins")
            load(module)
            mark(f"import {fullname} ends")
            for name in MARKED.get(fullname, []):
                if hasattr(module, name):
                    setattr(module, name, marked(name, getattr(module, name)))

        spec.loader.exec_module = load_and_mark  # type: ignore[method-assign]
        return spec


def marked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, with marks before and after."""

    def call(*args: Any, **options: Any) -> Any:
        mark(f"{name} begins")
        try:
            return function(*args, **options)
        finally:
            mark(f"{name} ends")

    return call


if "STARTUP_MARKS" in os.environ:
    mark("process begins")
    sys.meta_path.insert(0, Marks())
