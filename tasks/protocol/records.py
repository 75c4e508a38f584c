"""Records: a write task stores its files, then one record that names them.

Data without a record does not exist. Nothing is overwritten. A record is taken whole or skipped
whole, whoever wrote it and whenever.
"""

import json
import sys
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any
from zlib import crc32

import numpy as np

from tasks.protocol.batch import RowBatch
from tasks.protocol.ids import IdRuns, Ids, as_ids, distinct
from tasks.protocol.layout import RunFolder
from tasks.protocol.read_back import decoded, read_back
from tasks.protocol.shard_ends import EndRuns
from tasks.protocol.storage import Storage, paths_in

READERS = 32
AT_ONCE_FROM = 2
"""Records: each takes a store's answer, also where a night has a few of them."""
READ_AHEAD = 1024
RECORD_ANEW = (
    "Restore it from a copy; or, if its run is not published, delete it and run again, which "
    "predicts its rows again"
)
"""What to do where a record is damaged."""


@dataclass(frozen=True)
class Part:
    """Bytes to stage: some of a batch's rows, encoded."""

    data: bytes
    suffix: str
    ids: Ids
    partition: str = ""
    """Hive folders below the output, e.g. `day=2026-01-31/`."""


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A data file that a record names; `ids` are its rows, in order."""

    name: str
    ids: IdRuns
    size: int
    partition: str = ""
    crc: int | None = None
    """CRC-32 of its content; None where an earlier release has written it."""

    @property
    def rows(self) -> int:
        """Rows in the file."""
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Record:
    """What one write task made durable."""

    name: str
    plan: str
    schema: str
    files: tuple[StagedFile, ...] = ()
    quarantine: StagedFile | None = None
    ok: IdRuns = IdRuns()
    filtered: IdRuns = IdRuns()
    ends: EndRuns = EndRuns()
    together: IdRuns | None = None
    """Both `ok` and `filtered`, ascending, where that takes far less time to read than they do."""
    seconds: dict[str, float] = field(default_factory=dict)
    inferred_at: tuple[float, float] | None = None
    attempt: int = 0
    """Whose job made it; no matter what it covers, and 0 where nobody has said so."""

    @property
    def settled(self) -> tuple[IdRuns, ...]:
        """Rows that need no second look: they came through, or a step left them out."""
        return (self.ok, self.filtered) if self.together is None else (self.together,)

    @property
    def rejected(self) -> IdRuns:
        """Rows set aside."""
        return self.quarantine.ids if self.quarantine else IdRuns()

    @property
    def staged(self) -> tuple[StagedFile, ...]:
        """All of its files."""
        return (*self.files, self.quarantine) if self.quarantine else self.files


@dataclass(frozen=True)
class Encoded:
    """A batch ready to be stored: data files, perhaps a quarantine file, the schema's digest."""

    parts: list[Part]
    quarantine: Part | None
    schema: str


def store(
    storage: Storage,
    run: RunFolder,
    plan: str,
    batch: RowBatch,
    encode: Callable[[RowBatch], Encoded],
    attempt: int = 0,
) -> Record:
    """Store a batch: files first, then the record that makes them exist."""
    started = time.monotonic()
    encoded = encode(batch)
    files = tuple(stage(storage, run, part) for part in encoded.parts)
    quarantine = stage(storage, run, encoded.quarantine) if encoded.quarantine else None
    ok = unique_in_order(batch.ids)
    seconds = {**batch.seconds, "write": time.monotonic() - started}
    record = Record(
        # Names sort by time, so that what came first is as a rule what is taken.
        name=f"{time.time_ns():020d}-{uuid.uuid4().hex[:12]}",
        plan=plan,
        schema=encoded.schema,
        files=files,
        quarantine=quarantine,
        ok=IdRuns.of(ok),
        filtered=batch.filtered,
        ends=EndRuns.of(batch.ends),
        together=filled_up(ok, batch.filtered),
        seconds=seconds,
        inferred_at=batch.inferred_at,
        attempt=attempt,
    )
    storage.write(f"{run.records}/{record.name}.json", to_json(record))
    return record


def stage(storage: Storage, run: RunFolder, part: Part) -> StagedFile:
    """Store one file under a random name."""
    name = f"{uuid.uuid4().hex}{part.suffix}"
    storage.write(f"{run.staging}/{name}", part.data)
    data = part.data
    return StagedFile(name, IdRuns.of(part.ids), len(data), part.partition, crc32(data))


def unique_in_order(ids: Ids) -> Ids:
    """Each id once, where it first stands."""
    if np.all(ids[1:] > ids[:-1]):
        return ids  # as nearly always
    if np.all(ids[1:] >= ids[:-1]):
        return distinct(ids)  # children side by side; far quicker than to look for first places
    _, first = np.unique(ids, return_index=True)
    return ids[np.sort(first)]


def filled_up(ok: Ids, filtered: IdRuns) -> IdRuns | None:
    """Rows that came through and those that a filter took, if they fill each other's gaps."""
    if not filtered.packed:
        return None
    both = IdRuns.of(np.sort(np.append(ok, filtered.ids()), kind="stable"))
    return None if both.packed else both


def load_records(
    storage: Storage, run: RunFolder, known: dict[str, Record] | None = None
) -> list[Record]:
    """All records of a run, in the order in which they are considered.

    Args:
        storage: of the output.
        run: its folder.
        known: those that were read before, by path; gets the others. None is ever written over.

    Raises:
        InvalidSpec: one is damaged.
    """
    known = {} if known is None else known
    paths = paths_in(storage, run.records, ".json")
    left = [path for path in paths if path not in known]
    if len(left) < AT_ONCE_FROM:
        known.update((path, read_back(storage, path, from_json, RECORD_ANEW)) for path in left)
        return [known[path] for path in paths]
    with ThreadPoolExecutor(READERS) as pool:
        for at in range(0, len(left), READ_AHEAD):
            chunk = left[at : at + READ_AHEAD]
            for path, data in zip(chunk, pool.map(storage.read, chunk), strict=True):
                known[path] = decoded(path, data, from_json, RECORD_ANEW)
    return [known[path] for path in paths]


def with_files(storage: Storage, run: RunFolder, records: list[Record]) -> list[Record]:
    """Records all of whose files are staged, each as long as it was written, in the same order."""
    sizes = {stat.path.rpartition("/")[2]: stat.size for stat in storage.list(run.staging)}
    return [
        each for each in records if all(sizes.get(file.name) == file.size for file in each.staged)
    ]


def to_json(record: Record) -> bytes:
    """A record as stored."""
    return json.dumps(
        {
            "name": record.name,
            "plan": record.plan,
            "schema": record.schema,
            "files": [file_to_dict(file) for file in record.files],
            "quarantine": file_to_dict(record.quarantine) if record.quarantine else None,
            "ok": record.ok.plain,
            "filtered": record.filtered.plain,
            "ends": record.ends.as_json(),
            "together": record.together.plain if record.together else None,
            "seconds": {stage: round(spent, 6) for stage, spent in record.seconds.items()},
            "inferred_at": record.inferred_at,
            "attempt": record.attempt,
        },
        separators=(",", ":"),
    ).encode()


def from_json(data: bytes) -> Record:
    """A record read back."""
    raw = json.loads(data)
    span = raw["inferred_at"]
    return Record(
        name=raw["name"],
        plan=sys.intern(raw["plan"]),
        schema=sys.intern(raw["schema"]),
        files=tuple(file_from_dict(file) for file in raw["files"]),
        quarantine=file_from_dict(raw["quarantine"]) if raw["quarantine"] else None,
        ok=runs_of(raw["ok"]),
        filtered=runs_of(raw["filtered"]),
        ends=EndRuns.of_json(raw["ends"]),
        together=runs_of(raw["together"]) if raw.get("together") else None,
        seconds={sys.intern(stage): spent for stage, spent in raw["seconds"].items()},
        inferred_at=(span[0], span[1]) if span else None,
        attempt=raw.get("attempt", 0),
    )


def file_to_dict(file: StagedFile) -> dict[str, object]:
    """A staged file as JSON."""
    return {
        "name": file.name,
        "ids": file.ids.plain,
        "size": file.size,
        "partition": file.partition,
        "crc": file.crc,
    }


def file_from_dict(raw: dict[str, Any]) -> StagedFile:
    """A staged file from JSON; what a later release says beside is its own."""
    known = {each.name: raw[each.name] for each in fields(StagedFile) if each.name in raw}
    return StagedFile(**{**known, "ids": runs_of(raw["ids"])})


def runs_of(raw: Any) -> IdRuns:
    """Ids from what JSON knows."""
    return kept_once(IdRuns.of_plain(raw))


@lru_cache(maxsize=8)
def kept_once(ids: IdRuns) -> IdRuns:
    """Ids in memory once, where a record names the rows of its only file as its own."""
    return ids


def all_ids(runs: Iterable[IdRuns]) -> Ids:
    """Several sequences as one array."""
    arrays = [each.ids() for each in runs]
    return np.concatenate(arrays) if arrays else as_ids(())
