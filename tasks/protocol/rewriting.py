"""Stages files anew without some of their rows; the old files stay until an entry removes them."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.protocol.acceptance import Accepted
from tasks.protocol.ids import IdRuns, Ids, Mask, are_in, shard_of
from tasks.protocol.layout import OutputFolder, RunFolder
from tasks.protocol.ledger import Snapshot
from tasks.protocol.ledger_lines import LedgerFile
from tasks.protocol.plan_file import Plan
from tasks.protocol.read_back import decoded
from tasks.protocol.records import StagedFile
from tasks.protocol.storage import Storage
from tasks.protocol.texts import large

DropRows = Callable[[bytes, Mask], bytes]
"""A file's content and which rows to keep of it, to the content without the others."""
AmendRows = Callable[[bytes, Ids], bytes]
"""A file's content and its rows' ids, to the content with more about each row."""


ANEW = (
    "run with --replace-output --restart, which discards what this run has predicted and "
    "predicts every input again"
)
"""The way out of a run that cannot be published beside what is."""


def as_they_are(content: bytes, ids: Ids) -> bytes:
    """Add nothing."""
    return content


def final_rejections(
    storage: Storage, run: RunFolder, accepted: Accepted, drop: DropRows
) -> Iterator[StagedFile]:
    """Quarantine files that hold each finally rejected row once, with its latest reason."""
    left = set(accepted.rejected.ids().tolist())
    for record in reversed(accepted.records):
        file = record.quarantine
        if file is None:
            continue
        keep = np.array([row in left for row in file.ids.ids().tolist()], dtype=bool)
        left -= set(file.ids.ids().tolist())
        if keep.all():
            yield file
        elif keep.any():
            content = storage.read(f"{run.staging}/{file.name}")
            yield stage_kept(storage, run, drop(content, keep), file.ids, keep, file.name)


def shards_by_run(holders: pa.Table) -> dict[str, Ids]:
    """Numbers of shards by the run whose plan they are of; sorted.

    Args:
        holders: lines with `run_id` and `shard`, in any order.
    """
    if not len(holders):
        return {}
    runs = holders["run_id"].combine_chunks().dictionary_encode()
    numbers, shards = runs.indices.to_numpy(), holders["shard"].to_numpy()
    order = np.lexsort((shards, numbers))
    each, first = np.unique(numbers[order], return_index=True)
    parts = np.split(shards[order], first[1:])
    names = runs.dictionary.to_pylist()
    return {names[number]: part for number, part in zip(each.tolist(), parts, strict=True)}


def holding(seen: Snapshot, plan: Plan) -> dict[str, Ids]:
    """Published shards with rows of a plan's inputs: their numbers, sorted, by their run."""
    holders = seen.holders
    return shards_by_run(
        holders.filter(pc.is_in(large(holders["path"]), large(plan.shards["path"])))
    )


def without_inputs(file: LedgerFile, shards: Ids) -> Mask:
    """Which rows of a published file stay when those of some shards, in order, go."""
    return ~are_in(shards, shard_of(file.ids.ids()))


def only_kept(
    storage: Storage,
    output: OutputFolder,
    run: RunFolder,
    file: LedgerFile,
    keep: Mask,
    drop: DropRows,
) -> StagedFile | None:
    """A published file with some of its rows; None where these are all, empty where none is."""
    if keep.all():
        return None
    if not keep.any():
        return StagedFile("", IdRuns(), 0)
    content = read_published(storage, output, file)
    way_out = f"Restore it from a copy, or {ANEW}"
    data = decoded(file.target(output), content, lambda each: drop(each, keep), way_out)
    return stage_kept(storage, run, data, file.ids, keep, file.path)


def republished(run: RunFolder, old: LedgerFile, kept: StagedFile, name: str) -> LedgerFile:
    """What is kept of a published file: in its folder, under a new name, of the same run."""
    folder, slash, last = old.path.rpartition("/")
    path = f"{folder}{slash}{name}{last[last.index('.') :]}"
    return LedgerFile.staged_in(run, kept, path, old.line, old.run_id)


def read_published(storage: Storage, output: OutputFolder, file: LedgerFile) -> bytes:
    """A published file's content, from staging where the entry is not applied yet.

    Raises:
        FileNotFoundError: it is in neither place; names the one where it was published.
        InvalidSpec: it is not what was published: which of its rows is which, nobody knows then.
    """
    path = file.target(output)
    try:
        content = storage.read(path)
    except FileNotFoundError as error:
        with suppress(FileNotFoundError):
            return storage.read(file.source(output))
        raise error
    if len(content) != file.size or file.crc not in (None, crc32(content)):
        raise changed(path, len(content), file)
    return content


def changed(path: str, size: int | None, file: LedgerFile, way_out: str = ANEW) -> InvalidSpec:
    """Says that a published file of which some rows are to stay is not as it was published.

    Args:
        path: where it lies.
        size: its bytes; None where it is gone.
        file: as it was published.
        way_out: what to do but to put it back.
    """
    what = "is gone"
    if size is not None:
        has = f"has {counted(size, 'byte')} but was published with {file.size:,}"
        if size == file.size:
            has = "does not have the content it was published with"
        what = f"{has}: it was rewritten by something else, so its rows cannot be identified"
    return InvalidSpec.at("sink.path", path, f"{what}. Restore it from a copy, or {way_out}")


def stage_kept(
    storage: Storage,
    run: RunFolder,
    data: bytes,
    ids: IdRuns,
    keep: Mask,
    name: str,
) -> StagedFile:
    """Stage what is kept under a new random name with the old suffix."""
    suffix = name[name.rindex(".") :]
    name, left = f"{uuid.uuid4().hex}{suffix}", IdRuns.of(ids.ids()[keep])
    staged = StagedFile(name, left, len(data), crc=crc32(data))
    storage.write(f"{run.staging}/{staged.name}", data)
    return staged
