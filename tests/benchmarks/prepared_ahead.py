"""What our workers had done before the model's first row, from which our steady time is counted.

A script's clock runs while an actor prepares its first batch; without this ours would not.
"""

from collections.abc import Sequence
from pathlib import Path

import fsspec

from tasks.protocol.layout import OutputFolder
from tasks.protocol.records import Record, load_records
from tasks.protocol.storage import FsspecStorage


def seconds_ahead(output: Path, run_id: str) -> float:
    """Seconds from when the first rows were prepared to when the model had the first of them.

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
