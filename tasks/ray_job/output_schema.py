"""The output schema, pinned by who writes first and widened by whoever has more to say."""

import posixpath
import time
import uuid
from dataclasses import dataclass, field, replace
from hashlib import sha256
from textwrap import shorten

import pyarrow as pa

from tasks.errors import SchemaMismatch
from tasks.kinds.gates.gate import check_columns
from tasks.protocol.layout import RunFolder
from tasks.protocol.read_back import read_back
from tasks.protocol.records import Record
from tasks.protocol.storage import Storage, paths_in
from tasks.ray_job.casting import cast
from tasks.ray_job.job import Job
from tasks.ray_job.new_columns import extends, with_new
from tasks.ray_job.untyped import is_untyped, still_untyped, with_types
from tasks.ray_job.widening import widened

LAST_CHANGE = 1_000_000
"""Place of the first change to what was pinned; later ones come before it."""
PUBLISHED_PLACE = 1_000
"""Of what is published: comes before all others, and no run changes it but by new columns."""
LOOK_SECONDS = 30.0
"""After so long it is looked whether others have changed what is pinned."""
LACKING_SECONDS = 1.0
"""The same where it lacks a type, which another batch may well have told."""
SCHEMA_ANEW = (
    "Restore it from a copy; or, unless it belongs to published rows, delete it and run again, "
    "which predicts the rows written with it again"
)
"""What to do where a stored schema is damaged."""
MOST_SHOWN = 100
"""Letters of a type."""
MOST_CHANGES = 20
"""Of types in one run: more come of names that are data, and each has rows made anew."""


@dataclass(frozen=True)
class Pinned:
    """A schema, and the file that holds it."""

    path: str
    schema: pa.Schema
    read: float = field(default_factory=time.monotonic)

    @property
    def place(self) -> int:
        """Among what was pinned: the lowest counts."""
        return int(posixpath.basename(self.path).partition("-")[0])

    @property
    def may_change(self) -> bool:
        """Whether its types may: those of what is published stay as they are."""
        return self.place > PUBLISHED_PLACE

    @property
    def first_change(self) -> int:
        """Place of the first change to it."""
        return LAST_CHANGE if self.may_change else PUBLISHED_PLACE - 1

    @property
    def next_place(self) -> int:
        """Of one more change."""
        return min(self.place - 1, self.first_change)

    @property
    def was_changed_too_often(self) -> bool:
        """Whether no more changes are made."""
        return self.next_place <= self.first_change - MOST_CHANGES

    @property
    def is_new(self) -> bool:
        """Whether to rely on it without another look."""
        lacks_any = any(map(is_untyped, self.schema))
        seconds = LACKING_SECONDS if lacks_any else LOOK_SECONDS
        return time.monotonic() - self.read < seconds


KNOWN: dict[str, Pinned] = {}
"""What is pinned in the folder of a run, until another job of this process begins."""


def schema_for(job: Job, rows: pa.Table) -> pa.Schema:
    """The run's output schema; pinned by these rows where there is none yet.

    Two writers may pin at once. Then the first by name counts, and a record written under the
    other does not count. Nor do those that were written before somebody knew a column's type, or
    had values that it did not take: the next attempt makes them anew.

    Raises:
        InvalidSpec: as the sink's `schema_for`; or a gate's column is missing.
        SchemaMismatch: the same; or rows have changed their types too often.
    """
    known = read_pinned(job)
    if known is None:
        known = pin(job, job.spec.sink.schema_for(rows.schema), time.time_ns())
    while better := grown(job, known, rows):
        KNOWN.pop(job.run.schemas, None)
        latest = read_pinned(job) or known
        if latest.path != known.path:
            known = latest  # others have changed it meanwhile
            continue
        if known.was_changed_too_often:
            raise SchemaMismatch(
                f"rows have changed the output's types or columns {MOST_CHANGES} times, most "
                f"recently {changes(known.schema, better) or 'by a new column'}: if names of "
                "fields or columns are data, return a list of key and value, or JSON as text"
            )
        tell_change(known.schema, better)
        known = pin(job, better, known.next_place)
    return known.schema


def grown(job: Job, known: Pinned, rows: pa.Table) -> pa.Schema | None:
    """The schema that also takes these rows; None where it does, or none would.

    Raises:
        InvalidSpec, SchemaMismatch: as the sink's `schema_for`.
    """
    better = schema = known.schema
    if known.may_change:
        better = with_types(better, rows) or better
        better = widened(better, rows) or better
    if job.spec.sink.takes_new_columns:
        better = with_new(better, rows.schema)
    if better is schema:
        return None
    found = still_untyped(job.spec.sink.schema_for(better), better)
    if not known.may_change:
        found = pa.schema([*schema, *[*found][len(schema) :]])
    if found.equals(schema, check_metadata=True):
        return None
    cast(job, rows, found)  # before what is written ceases to count
    return found


def tell_change(schema: pa.Schema, better: pa.Schema) -> None:
    """Say in the job's log which columns are new, and why rows are predicted once more."""
    if new := ", ".join(f"{e.name} {short(e.type)}" for e in [*better][len(schema) :]):
        print(f"rows bring new columns: {new}", flush=True)
    if told := changes(schema, better):
        print(f"later rows showed {told}: earlier ones are made again", flush=True)


def changes(schema: pa.Schema, better: pa.Schema) -> str:
    """Columns whose types differ; of long ones the beginnings."""
    return ", ".join(
        f"{each.name} {short(before.type)} -> {short(each.type)}"
        for before, each in zip(schema, better, strict=False)
        if before.type != each.type
    )


def short(kind: pa.DataType) -> str:
    """A type, or its beginning."""
    return shorten(str(kind), MOST_SHOWN, placeholder=" ...")


def pin(job: Job, schema: pa.Schema, place: int) -> Pinned:
    """Pin a schema, and see what is pinned now, perhaps by somebody else.

    Args:
        job: whose output it is.
        schema: to pin.
        place: the lowest counts.
    """
    # Before hours are spent on rows: a name that the first of them lack is rather misspelt.
    may_come = place <= LAST_CHANGE and job.spec.sink.takes_new_columns
    check_columns(job.spec.gates, schema, may_come=may_come)
    own = Pinned(f"{job.run.schemas}/{place:020d}-{uuid.uuid4().hex[:12]}.arrow", schema)
    job.storage.write(own.path, schema.serialize().to_pybytes())
    KNOWN.pop(job.run.schemas, None)
    found = read_pinned(job)
    if found is None or found.place > place:  # a listing may lag behind; then our own counts
        found = KNOWN[job.run.schemas] = own
    return found


def read_pinned(job: Job) -> Pinned | None:
    """What is pinned; remembered for a while, or for good where it cannot change."""
    folder = job.run.schemas
    known = KNOWN.get(folder)
    may_change = known and (known.may_change or job.spec.sink.takes_new_columns)
    if known is None or (may_change and not known.is_new):
        path = find_pinned(job.storage, job.run)
        if path is not None:
            schema = (
                known.schema if known and known.path == path else read_schema(job.storage, path)
            )
            known = KNOWN[folder] = Pinned(path, schema)
    return known


def of_pinned_schema(
    storage: Storage, run: RunFolder, records: list[Record], *, takes_new_columns: bool
) -> list[Record]:
    """Records less those written under another schema than the one pinned.

    The first record will not do as the measure: where it lost the race to pin, every later one
    would be skipped, and the run would never end. Where the output takes new columns, one that
    lacks those which came later counts, as of the schema with them: its rows have nothing there.
    """
    there = paths_in(storage, run.schemas, ".arrow")
    schemas = [read_schema(storage, path) for path in (there if takes_new_columns else there[:1])]
    own = digest(schemas[0]) if schemas else ""
    fit = {digest(each) for each in schemas if extends(schemas[0], each)} or {own}
    return [
        record if record.schema == own or not record.files else replace(record, schema=own)
        for record in records
        if not record.files or record.schema in fit
    ]


def pinned(storage: Storage, run: RunFolder) -> pa.Schema | None:
    """The schema that is pinned; None where there is none yet."""
    found = find_pinned(storage, run)
    return read_schema(storage, found) if found else None


def find_pinned(storage: Storage, run: RunFolder) -> str | None:
    """The file of the schema that is pinned."""
    found = paths_in(storage, run.schemas, ".arrow")
    return found[0] if found else None


def read_schema(storage: Storage, path: str) -> pa.Schema:
    """A stored schema.

    Raises:
        InvalidSpec: it is damaged.
    """
    return read_back(
        storage, path, lambda content: pa.ipc.read_schema(pa.py_buffer(content)), SCHEMA_ANEW
    )


def digest(schema: pa.Schema) -> str:
    """A schema in 16 characters, with its metadata, in which equal ones may differ."""
    return sha256(schema.serialize().to_pybytes()).hexdigest()[:16]
