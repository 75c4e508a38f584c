"""What makes figures of ours and of a script comparable."""

import os
from collections.abc import Sequence
from pathlib import Path

import fsspec

from tasks.protocol.layout import OutputFolder
from tasks.protocol.records import Record, load_records
from tasks.protocol.storage import FsspecStorage

READ_BYTES = 16 << 20


def read_through(folder: Path) -> None:
    """Read all files once, so that each contender finds as much of them in the page cache.

    What the one before has written has driven others out: trees over 240,000,000 rides took 118 s
    as the first of a round, and 178 as the second.
    """
    os.sync()  # nor is one to wait while what another has written goes to the disk
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while file.read(READ_BYTES):
                    pass


def seconds_ahead(output: Path, run_id: str) -> float:
    """Seconds from when our first rows were prepared to when the model had the first of them.

    Our steady time is counted from the latter, and a script's clock runs while an actor prepares
    its first batch.

    Args:
        output: of a run.
        run_id: the run's.
    """
    run = OutputFolder(str(output)).run(run_id)
    return ahead(load_records(FsspecStorage(fsspec.filesystem("file")), run))


def ahead(records: Sequence[Record]) -> float:
    """The same, of a run's records."""
    spans = [(each.inferred_at[0], prepared(each)) for each in records if each.inferred_at]
    return min(begun for begun, _ in spans) - min(begun - spent for begun, spent in spans)


def prepared(record: Record) -> float:
    """Seconds that preparing a record's rows took."""
    return record.seconds.get("preprocess", 0.0)
