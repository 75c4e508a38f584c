"""The output schema, pinned by who writes first; whoever knows a type that he did not adds it."""

import posixpath
import time
import uuid
from dataclasses import dataclass
from hashlib import sha256

import pyarrow as pa

from tasks.kinds.gates.gate import check_columns
from tasks.protocol.layout import RunFolder
from tasks.protocol.records import Record
from tasks.protocol.storage import Storage
from tasks.ray_job.job import Job
from tasks.ray_job.untyped import is_untyped, still_untyped, with_types

PUBLISHED = f"{0:020d}-published.arrow"
"""Of what is published: comes before all others, and no run changes it."""
LAST_CHANGE = 1_000_000
"""Place of the first change to what was pinned; later ones come before it."""


@dataclass(frozen=True)
class Pinned:
    """A schema, and the file that holds it."""

    path: str
    schema: pa.Schema

    @property
    def place(self) -> int:
        """Among what was pinned: the lowest counts."""
        return int(posixpath.basename(self.path).partition("-")[0])

    @property
    def may_change(self) -> bool:
        """Whether there are types that it does not know, and may be told."""
        return self.place > 0 and any(map(is_untyped, self.schema))


KNOWN: dict[str, Pinned] = {}
"""What is pinned in the folder of a run, until another job of this process begins."""


def schema_for(job: Job, rows: pa.Table) -> pa.Schema:
    """The run's output schema; pinned by these rows where there is none yet.

    Two writers may pin at once. Then the first by name counts, and a record written under the
    other does not count. Nor do those that were written before somebody knew a column's type: the
    next attempt makes them anew.

    Raises:
        InvalidSpec, SchemaMismatch: as the sink's `schema_for`; or a gate's column is missing.
    """
    known = read_pinned(job)
    if known is None:
        known = pin(job, job.spec.sink.schema_for(rows.schema), time.time_ns())
    while known.may_change and (better := with_types(known.schema, rows)):
        better = still_untyped(job.spec.sink.schema_for(better), better)
        known = pin(job, better, min(known.place, LAST_CHANGE + 1) - 1)
    return known.schema


def pin(job: Job, schema: pa.Schema, place: int) -> Pinned:
    """Pin a schema, and see what is pinned now, perhaps by somebody else.

    Args:
        job: whose output it is.
        schema: to pin.
        place: the lowest counts.
    """
    check_columns(job.spec.gates, schema)  # before hours are spent on rows
    name = f"{place:020d}-{uuid.uuid4().hex[:12]}.arrow"
    job.storage.write(f"{job.run.schemas}/{name}", schema.serialize().to_pybytes())
    found = read_pinned(job)
    assert found is not None
    return found


def read_pinned(job: Job) -> Pinned | None:
    """What is pinned; remembered, where it cannot change once it is read."""
    folder = job.run.schemas
    known = KNOWN.get(folder)
    if known is None or known.may_change:
        found = find_pinned(job.storage, job.run)
        if found is not None and (known is None or found != known.path):
            known = KNOWN[folder] = Pinned(found, read_schema(job.storage, found))
    return known


def of_pinned_schema(storage: Storage, run: RunFolder, records: list[Record]) -> list[Record]:
    """Records less those written under another schema than the one pinned.

    The first record will not do as the measure: where it lost the race to pin, every later one
    would be skipped, and the run would never end.
    """
    schema = pinned(storage, run)
    own = digest(schema) if schema else ""
    return [record for record in records if not record.files or record.schema == own]


def pinned(storage: Storage, run: RunFolder) -> pa.Schema | None:
    """The schema that is pinned; None where there is none yet."""
    found = find_pinned(storage, run)
    return read_schema(storage, found) if found else None


def find_pinned(storage: Storage, run: RunFolder) -> str | None:
    """The file of the schema that is pinned."""
    found = storage.list(run.schemas)
    return found[0].path if found else None


def read_schema(storage: Storage, path: str) -> pa.Schema:
    """A stored schema."""
    return pa.ipc.read_schema(pa.py_buffer(storage.read(path)))


def digest(schema: pa.Schema) -> str:
    """A schema in 16 characters, with its metadata, in which equal ones may differ."""
    return sha256(schema.serialize().to_pybytes()).hexdigest()[:16]
