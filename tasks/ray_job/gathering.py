"""How many batches make a record, where one thread writes them all."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tasks.kinds.sinks.partitions import MAX_FOLDERS_PER_WRITE, folders_of
from tasks.protocol.batch import RowBatch
from tasks.protocol.records import Record
from tasks.ray_job.adaptive_batching import EMIT_EVERY_SECONDS
from tasks.ray_job.job import Job

SMALL_FILE_ROWS = 1_000
"""Files of fewer rows cost more to open than to read."""
GATHERED_BYTES = 128 << 20
"""Of rows that wait for others to share their folders' files with."""


@dataclass
class Group:
    """Batches that wait to be written together."""

    batches: list[RowBatch] = field(default_factory=list)
    folders: set[str] = field(default_factory=set)
    """Those of their rows, where rows wait for others of their folders."""
    bytes: int = 0
    begun: float = 0.0
    """When the first of them came: before, a model may have been loaded."""

    def has_room_for(self, folders: set[str]) -> bool:
        """Whether a write takes these folders too."""
        return not self.batches or len(self.folders | folders) <= MAX_FOLDERS_PER_WRITE

    def add(self, batch: RowBatch, folders: set[str]) -> None:
        """Another one."""
        self.begun = self.begun if self.batches else time.monotonic()
        self.batches.append(batch)
        self.folders |= folders
        self.bytes += batch.rows.nbytes


class Gathering:
    """Groups of batches: so many, or what half a minute brings.

    Where rows go into so many folders that files are small, groups grow to that half minute, or to
    what may wait in memory. Who names `sink.rows_per_file` has said how many they want.
    """

    def __init__(self, job: Job, per_write: int) -> None:
        sink = job.spec.sink
        self.per_write = per_write
        self.by = [] if sink.rows_per_file or "write" not in job.stages else sink.partition_by
        self.has_small_files = False

    def groups(self, batches: Iterable[RowBatch]) -> Iterator[list[RowBatch]]:
        """What makes a record each."""
        group = Group()
        for batch in batches:
            folders = folders_of(batch.rows, self.by) if self.grows else set()
            if not group.has_room_for(folders):
                yield group.batches
                group = Group()
            group.add(batch, folders)
            if self.is_enough(group):
                yield group.batches
                group = Group()
        if group.batches:
            yield group.batches

    @property
    def grows(self) -> bool:
        """Whether a group waits for more batches than it has to."""
        return bool(self.by) and self.has_small_files

    def is_enough(self, group: Group) -> bool:
        """Whether a group waits for no other batch."""
        if time.monotonic() - group.begun > EMIT_EVERY_SECONDS:
            return True
        if self.grows:
            return group.bytes >= GATHERED_BYTES
        return len(group.batches) >= self.per_write

    def learn(self, record: Record) -> None:
        """See how large the files of a group have become; once small, rows wait from then on."""
        rows = sum(file.rows for file in record.files)
        self.has_small_files |= rows < SMALL_FILE_ROWS * len(record.files)
