"""Rows set aside by published runs: where they are, and the entry that settles them.

A redrive has a plan of its own. Its shards name the run that set their rows aside, so that what
it settles leaves the quarantine in the same commit that brings it in.
"""

import uuid
from collections.abc import Iterable, Iterator
from zlib import crc32

import numpy as np

from tasks.counted import counted
from tasks.errors import OutputHeld
from tasks.protocol.ids import Mask, RowsByRun, are_in, as_ids
from tasks.protocol.layout import OutputFolder
from tasks.protocol.ledger import Entry, Snapshot
from tasks.protocol.ledger_lines import LedgerFile
from tasks.protocol.publication import Publication, data_files, part_names
from tasks.protocol.records import StagedFile
from tasks.protocol.replacing import left_by_keys, rewritten
from tasks.protocol.rewriting import final_rejections
from tasks.protocol.storage import Storage


def redrive_entry(
    storage: Storage, output: OutputFolder, seen: Snapshot, what: Publication
) -> Entry:
    """The entry of a redrive: what works now comes in, and all that it did leaves the quarantine.

    Rows that were set aside again go back there, with what was said of them before.

    Raises:
        OutputHeld: somebody else has settled some of the rows since this run was planned.
    """
    done = what.plan.rows_aside
    refuse_settled(seen, done)
    names = part_names(output, seen.next_version)
    files = [*data_files(storage, what, names), *still_rejected(storage, what, names)]
    settled = less_rows(seen.quarantine.values(), done)
    left = left_by_keys(output, seen, what)
    replaced = [(seen.files[path], keep) for path, keep in left.items()]
    anew, removed = rewritten(storage, output, what, [*settled, *replaced], names)
    return Entry(
        run_key=what.run_key,
        run_id=what.run.run_id,
        inputs=what.published_shards,
        redrives=True,
        files=(*files, *anew),
        removed=tuple(removed),
        details=what.entry_details(seen),
    )


def less_rows(files: Iterable[LedgerFile], done: RowsByRun) -> list[tuple[LedgerFile, Mask]]:
    """Files with which of their rows stay when some go; of a run there may be thousands of each."""
    none = as_ids(())
    return [(file, ~are_in(done.get(file.run_id, none), file.ids.ids())) for file in files]


def refuse_settled(seen: Snapshot, done: RowsByRun) -> None:
    """Refuse rows that are no longer set aside.

    Raises:
        OutputHeld: says how many, and of which run.
    """
    aside = seen.rows_aside
    for run_id, ids in done.items():
        gone = ids[~np.isin(ids, aside.get(run_id, ()))]
        if len(gone):
            raise OutputHeld(
                "another redrive, or a run that predicted their input again, has settled "
                f"{counted(len(gone), 'row')} that run {run_id} had set aside, after this run was "
                "planned; run again to do the rest"
            )


def still_rejected(
    storage: Storage, what: Publication, names: Iterator[str]
) -> Iterator[LedgerFile]:
    """Quarantine files of the rows that were set aside again, with what was said before."""
    for file in final_rejections(storage, what.run, what.accepted, what.drop_rejections):
        content = storage.read(f"{what.run.staging}/{file.name}")
        content = what.amend_rejections(content, file.ids.ids())
        name, crc = f"{uuid.uuid4().hex}.parquet", crc32(content)
        amended = StagedFile(name, file.ids, len(content), crc=crc)
        storage.write(f"{what.run.staging}/{amended.name}", content)
        path = f"quarantine/{next(names)}.parquet"
        yield LedgerFile.staged_in(what.run, amended, path, line="quarantine")
