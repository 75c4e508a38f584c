"""What Parquet files' footers say of their columns, as tables keep it to skip files."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from typing import Any, TypeVar

import pyarrow.parquet as pq

Found = TypeVar("Found")
READERS = 16
LONGEST_TEXT = 32
"""Longer bounds are left out: a table's log is read by every reader."""


def once(known: dict[str, Found], paths: list[str], read: Callable[[str], Found]) -> list[Found]:
    """What is read of each file, in order; of those that are known nothing is read.

    Data files never change. So a commit that others were faster than is made again without
    reading, which would take long enough for them to be faster again.
    """
    new = [path for path in paths if path not in known]
    with ThreadPoolExecutor(READERS) as pool:
        for path, found in zip(new, pool.map(read, new), strict=True):
            known[path] = found
    return [known[path] for path in paths]


def statistics(footer: pq.FileMetaData) -> dict[str, Any]:
    """Rows, and of each column that is no list or struct: how many are missing, and the bounds."""
    found: dict[str, Any] = {"numRecords": footer.num_rows}
    bounds: dict[str, dict[str, Any]] = {"minValues": {}, "maxValues": {}, "nullCount": {}}
    for at in range(footer.num_columns):
        column = footer.schema.column(at)
        if column.max_repetition_level or column.path != column.name:
            continue  # within a list or a struct
        groups = map(footer.row_group, range(footer.num_row_groups))
        own = [group.column(at).statistics for group in groups]
        if not all(each is not None and each.has_null_count for each in own):
            continue
        bounds["nullCount"][column.name] = sum(each.null_count for each in own)
        some = [each for each in own if each.has_min_max]
        if some and len(some) == sum(each.num_values > 0 for each in own):
            try:
                low, high = min(each.min for each in some), max(each.max for each in some)
            except (OverflowError, ValueError):  # times before or after all that Python knows
                continue
            if is_bound(low) and is_bound(high):
                bounds["minValues"][column.name] = spelled(low)
                bounds["maxValues"][column.name] = spelled(high)
    return {**found, **bounds}


def is_bound(value: Any) -> bool:
    """Whether a value is short, and spelled alike by every reader."""
    if isinstance(value, str):
        return len(value) <= LONGEST_TEXT
    if isinstance(value, float):
        return abs(value) < float("inf")
    return isinstance(value, (int, date)) and not isinstance(value, bool)


def spelled(value: Any) -> Any:
    """A bound as JSON has it."""
    if isinstance(value, datetime):
        end = "Z" if value.tzinfo else ""
        return value.replace(tzinfo=None).isoformat(timespec="microseconds") + end
    return value.isoformat() if isinstance(value, date) else value
