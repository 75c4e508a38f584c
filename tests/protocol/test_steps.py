"""Every named step, with every fault, for every sink of files: a rerun mends it."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import fsspec
import pytest

from tasks.errors import StaleLedger
from tasks.kinds.sinks.csv import CsvSink
from tasks.kinds.sinks.jsonl import JsonlSink
from tasks.kinds.sinks.parquet import ParquetSink
from tasks.kinds.sinks.sink import Sink
from tasks.protocol.storage import FsspecStorage
from tests.protocol.steps import FAULTS, STEPS, Fault, Killed, Process
from tests.simulation.storage import Calm, PlainLedger

SINKS: dict[str, type[Sink]] = {"parquet": ParquetSink, "jsonl": JsonlSink, "csv": CsvSink}
FIRST = {"a": "v1", "b": "v1", "c": "v1"}
SECOND = {"a": "v1", "b": "v2", "c": "v1", "d": "v1"}
"""Rows of `b` are replaced, so that files are removed and parts of them written anew."""


class Story:
    """Two runs on an output, with a fault in one of them."""

    def __init__(self, kind: str, path: Path) -> None:
        self.sink = SINKS[kind].model_validate({"kind": kind, "path": str(path)})
        self.storage = FsspecStorage(fsspec.filesystem("file"))
        self.ledger = PlainLedger(Calm())

    def process(self, fault: Fault | None = None) -> Process:
        return Process(self.storage, self.ledger, self.sink, fault or Fault())

    def tell(self, fault: Fault) -> None:
        for inputs in (FIRST, SECOND):
            with suppress(Killed, OSError, StaleLedger):
                self.process(fault).run(inputs)
            self.process().run(inputs)

    def ends(self) -> tuple[Any, Any]:
        return self.process().published(), self.process().set_aside()

    def holds(self) -> tuple[Any, int]:
        """All objects, and how many entries there are."""
        place = self.sink.path
        stats = [*self.storage.list(place), *self.storage.list(f"{place}.state")]
        return stats, self.ledger.snapshot.version


@pytest.mark.parametrize("kind", SINKS)
def test_an_undisturbed_run_takes_every_step(kind: str, tmp_path: Path) -> None:
    fault, story = Fault(), Story(kind, tmp_path / "out")
    story.tell(fault)
    assert fault.taken.keys() >= STEPS.keys()
    rows = [(path, name, row) for path, name in SECOND.items() for row in (0, 2)]
    assert story.ends() == (rows, [(path, 1) for path in SECOND])


@pytest.mark.parametrize("kind", SINKS)
@pytest.mark.parametrize("how", FAULTS)
def test_a_fault_at_any_step_is_mended(kind: str, how: str, tmp_path: Path) -> None:
    calm, whole = Fault(), Story(kind, tmp_path / "whole")
    whole.tell(calm)
    for step in STEPS:
        for number in {1, calm.taken[step]}:
            story = Story(kind, tmp_path / f"{step}-{number}")
            fault = Fault(step, number, how)
            story.tell(fault)
            assert fault.has_struck
            assert story.ends() == whole.ends(), f"{how} {step} {number}"
            before = story.holds()
            story.process().run(SECOND)
            assert story.holds() == before, f"{how} {step} {number}: a rerun changed something"
