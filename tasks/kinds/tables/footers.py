"""What Parquet files' footers say of their columns, as tables keep it to skip files."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date, datetime
from typing import Any

import pyarrow.parquet as pq

from tasks.protocol.storage import FsspecStorage

READERS = 16
LONGEST_TEXT = 32
"""Longer bounds are left out: a table's log is read by every reader."""


def footers(storage: FsspecStorage, paths: list[str]) -> list[pq.FileMetaData]:
    """The files' footers, in order."""

    def footer(path: str) -> pq.FileMetaData:
        with storage.open(path) as file:
            return pq.read_metadata(file)

    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(footer, paths))


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
