"""Finds what nobody needs any more at an output, and removes it on request."""

from collections.abc import Iterator
from itertools import chain

from tasks.lease import holder_of
from tasks.ledgers import ledger_of
from tasks.outputs import output_of
from tasks.planning.output_as_found import refuse_older, refuse_unknown
from tasks.protocol.cleanup import Folders, Orphan
from tasks.protocol.layout import RunFolder
from tasks.protocol.local_files import is_half_written
from tasks.run_folder import read_header
from tasks.spec import BatchInferenceSpec


def find_orphans(spec: BatchInferenceSpec) -> list[Orphan]:
    """All that can be removed at a spec's output, in the order in which it may be.

    Rows that runs keep for one another (`stages.preprocess`) are no orphans: the next spec with
    the same steps takes them.

    Raises:
        InvalidSpec: the ledger is lost or an old one, by which a published run would be given up.
    """
    storage, output = output_of(spec)
    ledger = ledger_of(spec)
    seen = ledger.look()
    if seen.version == 0:
        refuse_unknown(storage, output, ledger)
    refuse_older(storage, output, ledger, seen)
    folders = Folders(storage, output, seen)
    there = set(folders.below(output.runs))
    below = (path.removeprefix(f"{output.runs}/").partition("/") for path in there)
    runs = sorted({run_id for run_id, is_folder, _ in below if is_folder})  # and no .DS_Store
    left = [orphans_of(folders, output.run(run_id), there) for run_id in runs]
    return list(chain(folders.half_written(), folders.removed(), *left, previews(folders)))


def orphans_of(folders: Folders, run: RunFolder, paths: set[str]) -> Iterator[Orphan]:
    """What is left of a run, by whether it is published, can be resumed, or was given up."""
    if run.run_id in folders.seen.run_ids:
        return folders.unpublished(run)
    if holder_of(folders.storage, run):
        return iter(())
    header = read_header(folders.storage, run) if run.header in paths else None
    # Its key has the ledger version in it: what builds on an older one is planned anew.
    is_behind = header is not None and header["ledger_version"] != folders.seen.version
    if is_behind or run.abandoned in paths:
        return folders.given_up(run) if folders.is_asleep(run) else iter(())
    return folders.unrecorded(run)


def previews(folders: Folders) -> Iterator[Orphan]:
    """What previews that were killed have left; others remove all of it themselves."""
    for path, lying in folders.old(folders.output.previews).items():
        if not is_half_written(path):
            yield folders.orphan(path, lying, "left over by a preview")


def remove(spec: BatchInferenceSpec, orphans: list[Orphan]) -> None:
    """Delete orphans, in the order in which they were found.

    Raises:
        OSError: the storage failed; what is left is found again.
    """
    storage, _ = output_of(spec)
    for orphan in orphans:
        storage.delete(orphan.path)
