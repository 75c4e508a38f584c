"""The batches of a preview, and what they tell of a run's, which are larger."""

import math
from statistics import median

from tasks.protocol.records import Record
from tasks.spec import BatchInferenceSpec

OWN_SECONDS = 0.05
"""A batch may take so long by itself, as to write a file to a store, however few rows it has."""


def rows_in(record: Record) -> int:
    """Rows that went through the stages."""
    return len(record.ok) + len(record.filtered) + len(record.rejected)


def steady(records: tuple[Record, ...]) -> tuple[Record, ...]:
    """Batches with rows, less the first of several: in it start-up shows, as opening of files."""
    full = tuple(each for each in records if rows_in(each))
    return full[1:] or full


def seconds_per_row(records: tuple[Record, ...], stage: str) -> float:
    """A stage's busy seconds for each row."""
    busy = math.fsum(record.seconds.get(stage, 0.0) for record in records)
    return busy / sum(rows_in(record) for record in records)


def are_too_quick(
    spec: BatchInferenceSpec, records: tuple[Record, ...], seconds: list[float]
) -> bool:
    """Whether most of what batches took may be what each takes by itself, which a run does rarely.

    Args:
        spec: what the run would do.
        records: of the batches.
        seconds: that each of them took.
    """
    return median(seconds) < OWN_SECONDS and max(map(rows_in, records)) < spec.rows_per_batch
