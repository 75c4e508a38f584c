"""A snapshot of an Iceberg table, planned and read by pyiceberg."""

import hashlib
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.sources.table_reading.iceberg_missing import keep_missing
from tasks.kinds.sources.table_reading.version import TableFile
from tasks.kinds.tables.iceberg import planned


@dataclass(frozen=True)
class IcebergSnapshot:
    """An Iceberg table at a snapshot; at None it has none yet, and no rows."""

    table: Any
    snapshot_id: int | None
    condition: Any
    """pyiceberg's expression; None for all rows."""

    @property
    def pins(self) -> dict[str, Any]:
        """Its number, and the metadata file that knows it: a worker then needs no catalog."""
        return {"version": self.snapshot_id, "metadata": self.table.metadata_location}

    @cached_property
    def schema(self) -> pa.Schema:
        """Names and types, as the table has them."""
        return self.table.schema().as_arrow()

    @property
    def filter(self) -> Any:
        """The condition, or one that is true of all rows."""
        from pyiceberg.expressions import AlwaysTrue

        return self.condition or AlwaysTrue()

    def files(self) -> list[TableFile]:
        """Files that are not ruled out by their partition or statistics."""
        return [self.file_of(path) for path in sorted(self.tasks)]

    @cached_property
    def tasks(self) -> dict[str, Any]:
        """What pyiceberg has to do for each file, by path.

        Raises:
            InvalidSpec: the filter does not fit the columns, or rows were deleted in a way that
                pyiceberg does not know.
        """
        try:
            scan = self.table.scan(row_filter=self.filter, snapshot_id=self.snapshot_id)
            found = planned(scan, "source.path", self.table.name())
            return {task.file.file_path: task for task in found}
        except TypeError as error:
            problem = f"cannot be compared with the table's columns ({error}): compare columns "
            way_out = "with values of their own type, or choose rows with a filter step"
            raise InvalidSpec.at("source.filter", str(self.condition), problem + way_out) from error

    def file_of(self, path: str) -> TableFile:
        """What is known of a file."""
        task = self.tasks[path]
        identity = str(task.file.file_size_in_bytes)
        deletes = sorted(f"{each.file_path}{each.content_offset}" for each in task.delete_files)
        if deletes:
            identity += f"-{hashlib.sha256(''.join(deletes).encode()).hexdigest()[:16]}"
        is_whole = self.condition is None and not deletes
        rows = task.file.record_count if is_whole else None
        return TableFile(path, identity, task.file.file_size_in_bytes, rows)

    def read(self, path: str, names: list[str]) -> Iterator[pa.RecordBatch]:
        """Rows of a file."""
        from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files

        keep_missing()
        columns, task = self.table.schema().select(*names), [self.tasks[path]]
        arrow = ArrowScan(self.table.metadata, self.table.io, columns, self.filter)
        deletes = _read_all_delete_files(self.table.io, task)
        # Not to_record_batches: pyiceberg 0.12 then holds all rows of the file at once.
        yield from arrow._record_batches_from_scan_tasks_and_deletes(task, deletes)

    def rewrites(self) -> "Iterator[tuple[IcebergSnapshot, IcebergSnapshot]]":
        """The snapshots of compactions, as far back as snapshots are kept."""
        from pyiceberg.table.snapshots import Operation, ancestors_of

        current = self.table.metadata.snapshot_by_id(self.snapshot_id)
        line = list(ancestors_of(current, self.table.metadata))
        for snapshot, parent in reversed(list(pairwise(line))):
            if snapshot.summary and snapshot.summary.operation == Operation.REPLACE:
                yield self.at(parent.snapshot_id), self.at(snapshot.snapshot_id)

    def at(self, snapshot_id: int) -> "IcebergSnapshot":
        """The table at another snapshot."""
        return IcebergSnapshot(self.table, snapshot_id, self.condition)


def as_then(table: Any, snapshot_id: int) -> Any:
    """A table with the columns that it had at a snapshot; else they are those it has by now.

    To pyiceberg the names in a condition are always those of now.
    """
    schema_id = table.metadata.snapshot_by_id(snapshot_id).schema_id
    if schema_id not in table.schemas():  # as in tables of the first format
        return table
    found = copy(table)
    found.metadata = table.metadata.model_copy(update={"current_schema_id": schema_id})
    return found
