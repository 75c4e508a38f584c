"""An output's state, to be damaged file by file."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.plan import make_plan
from tasks.protocol.delta_ledger import KEPT
from tasks.published import published_rows
from tasks.spec import BatchInferenceSpec
from tests.reporting import classify_spec, make_inputs, run_attempt, run_spec

CONTENTS: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut short": lambda content: content[: len(content) // 2],
    "another object": lambda content: b"{}",
    "a list": lambda content: b"[1]",
    "no text": lambda content: b"\xff" * len(content),
}
"""What may lie there instead of what was written."""


@dataclass(frozen=True)
class State:
    """An output that can be put back as it was."""

    spec: BatchInferenceSpec
    run: Path
    """Folder of the run whose files are damaged."""
    kept: Path

    @property
    def folder(self) -> Path:
        """All of it lies here."""
        return Path(self.spec.sink.path).parent

    def restore(self) -> None:
        """Put it back."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.kept, self.folder)
        KEPT.clear()  # as in the next night's process

    def damage(self, pattern: str, how: str) -> Path:
        """Put the state back, and damage the first file of its run of such a name."""
        self.restore()
        file = min(self.run.glob(pattern))
        file.write_bytes(CONTENTS[how](file.read_bytes()))
        return file

    def ids(self) -> list[int]:
        """Of all published rows."""
        KEPT.clear()
        found: list[int] = published_rows(self.spec)["id"].to_pylist()
        return sorted(found)


def published(folder: Path) -> State:
    """One whose run is published, and has set two rows aside."""
    made = folder / "made"
    made.mkdir()
    make_inputs(made / "in", files=3)
    spec = classify_spec(made, {"bad": [3, 120]})
    planned, _ = run_spec(spec)
    return State(spec, Path(planned.run.path), kept(made))


def unfinished(folder: Path) -> State:
    """The same with a second run, which is killed before it has recorded all of its rows."""
    state = published(folder)
    pq.write_table(pa.table({"id": range(1000, 1100)}), state.folder / "in" / "later.parquet")
    planned = make_plan(state.spec)
    run_attempt(planned)
    max(Path(planned.run.records).iterdir()).unlink()
    return State(state.spec, Path(planned.run.path), kept(state.folder))


def kept(made: Path) -> Path:
    """A copy."""
    copy = made.parent / "kept"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(made, copy)
    return copy
