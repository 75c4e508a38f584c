"""What of a user's folder is sent to a cluster: code, and little else."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from tasks.outputs import place_of_materialized
from tasks.protocol.layout import OutputFolder
from tasks.ray_job.job import Job

STATE = ".state"
NOT_SHIPPED = [
    "tests/",
    "__pycache__/",
    "*.pyc",
    ".git/",
    ".venv/",
    "venv/",
    "node_modules/",
    ".mypy_cache/",
    ".ruff_cache/",
    ".pytest_cache/",
    ".ipynb_checkpoints/",
    f"*{STATE}/",
]
"""Of any package, as gitignore patterns."""


def data_below(folder: Path, job: Job) -> list[str]:
    """Inputs and outputs that lie beside the code and are no part of it, as gitignore patterns.

    Those of other runs too: of many nights they would be more than a cluster takes.
    """
    # As they are named: what a link in the folder leads to would else be taken along.
    home, spec = os.path.abspath(folder), job.spec
    own = [literal(path) for path in (spec.sink.path, place_of_materialized(spec))]
    urls = [*spec.source.paths, *job.timed_inputs, *own]
    named = [os.path.abspath(path) for path in map(on_disk, urls) if path]
    others = [literal(path) for path in outputs_in(home, named)]
    inside = [os.path.relpath(path, home) for path in dict.fromkeys([*named, *others])]
    return [f"/{path}" for path in inside if path != "." and not path.startswith("..")]


def on_disk(url: str) -> str | None:
    """The path of what lies on a disk of this machine; None for what does not."""
    scheme, is_url, path = url.rpartition("://")
    if not is_url:
        return url
    return path if scheme in ("file", "local") else None


def literal(path: str) -> str:
    """A path as a gitignore pattern of itself alone."""
    return re.sub(r"([\\*?\[\]])", r"\\\1", path)


def outputs_in(home: str, known: list[str]) -> Iterator[str]:
    """Folders that runs of ours have published into, told by the ledgers beside them.

    Args:
        home: where to look.
        known: folders of data, in which there may be much to look at and none to be found.
    """
    seen = set[str]()
    passed_over = {pattern.rstrip("/") for pattern in NOT_SHIPPED}
    for place, folders, _ in os.walk(home, followlinks=True):
        there = os.path.realpath(place)
        is_passed = there in seen or (place in known and place != home)
        names = set[str]() if is_passed else {*folders} - passed_over
        seen.add(there)  # of links in a circle each is followed once
        own = {name for name in names if f"{name}{STATE}" in names and is_output(place, name)}
        yield from (os.path.join(place, name) for name in sorted(own))
        folders[:] = sorted(name for name in names - own if not name.endswith(STATE))


def is_output(place: str, name: str) -> bool:
    """Whether the ledger of a folder lies beside it."""
    return os.path.isdir(OutputFolder(os.path.join(place, name)).ledger)
