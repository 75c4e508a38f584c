"""Stages files anew without some of their rows; the old files stay until an entry removes them."""

import uuid
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt

from tasks.protocol.acceptance import Accepted
from tasks.protocol.ids import IdRuns, as_ids, shard_of
from tasks.protocol.layout import OutputFolder, RunFolder
from tasks.protocol.ledger import LedgerFile
from tasks.protocol.records import StagedFile
from tasks.protocol.storage import Storage

Mask = npt.NDArray[np.bool_]
DropRows = Callable[[bytes, Mask], bytes]
"""A file's content and which rows to keep of it, to the content without the others."""


def final_rejections(
    storage: Storage, run: RunFolder, accepted: Accepted, drop: DropRows
) -> Iterator[StagedFile]:
    """Quarantine files that hold each finally rejected row once, with its latest reason."""
    left = set(accepted.rejected.tolist())
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
            yield stage_kept(storage, run, content, file.ids, keep, drop, file.name)


def without_inputs(
    storage: Storage,
    output: OutputFolder,
    run: RunFolder,
    file: LedgerFile,
    shards: Iterable[int],
    drop: DropRows,
) -> StagedFile | None:
    """A published file without the rows of some shards; None where it has none of them."""
    keep = ~np.isin(shard_of(file.ids.ids()), as_ids(shards))
    if keep.all():
        return None
    if not keep.any():
        return StagedFile("", IdRuns(), 0)
    return stage_kept(
        storage, run, read_published(storage, output, file), file.ids, keep, drop, file.path
    )


def read_published(storage: Storage, output: OutputFolder, file: LedgerFile) -> bytes:
    """A published file's content, from staging where the entry is not applied yet."""
    try:
        return storage.read(file.target(output))
    except FileNotFoundError:
        return storage.read(file.source(output))


def stage_kept(
    storage: Storage,
    run: RunFolder,
    content: bytes,
    ids: IdRuns,
    keep: Mask,
    drop: DropRows,
    name: str,
) -> StagedFile:
    """Stage what is kept under a new random name with the old suffix."""
    data = drop(content, keep)
    suffix = name[name.rindex(".") :]
    staged = StagedFile(f"{uuid.uuid4().hex}{suffix}", IdRuns.of(ids.ids()[keep]), len(data))
    storage.write(f"{run.staging}/{staged.name}", data)
    return staged
