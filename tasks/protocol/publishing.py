"""Audit, then one conditional commit. The entry is the decision; applying it is idempotent."""

import time
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from tasks.counted import counted
from tasks.errors import InvalidSpec, OutputHeld, RowsMissing, StaleLedger
from tasks.protocol.acceptance import find_gap
from tasks.protocol.applying import bring_up_to_date, catch_up
from tasks.protocol.backoff import waits
from tasks.protocol.ids import as_ids
from tasks.protocol.layout import OutputFolder
from tasks.protocol.ledger import Entry, Ledger, Snapshot
from tasks.protocol.ledger_lines import LedgerFile
from tasks.protocol.publication import Publication, data_files, part_names
from tasks.protocol.redriving import redrive_entry
from tasks.protocol.replacing import left_by_keys, rewritten
from tasks.protocol.rewriting import ANEW, final_rejections, holding, without_inputs
from tasks.protocol.storage import Storage
from tasks.protocol.table import refuse_moved
from tasks.protocol.texts import large

COMMIT_ATTEMPTS = 20
"""In a row, without an entry of anybody's: what is in the way then is no other publisher."""


def publish(storage: Storage, ledger: Ledger, output: OutputFolder, what: Publication) -> int:
    """Commit a run and apply it; return its version. Doing it again changes nothing.

    Raises:
        OutputHeld: another run has published some of the same inputs since this one was planned,
            or predictions of another model.
        RowsMissing: the records do not cover the plan; another attempt does what is left.
        InvalidSpec: a published file is gone of which rows are to be replaced; or, of a table, it
            has been moved to others.
        KeysRepeated: two rows of the run have the same key.
        StaleLedger: the ledger took nobody's entry, or did not answer.
    """
    refuse_gap(what)
    last: Exception | None = None
    left, known, wait = COMMIT_ATTEMPTS, -1, waits()
    while True:
        # Each entry is applied before the next is made: else who is late with an old one would
        # move in files that a newer one has removed.
        seen = bring_up_to_date(storage, ledger, output)
        version = seen.version_of(what.run_key)
        if version is not None:
            return version
        if seen.version > known:  # whoever was faster is done, and one less is in the way
            left, known = COMMIT_ATTEMPTS, seen.version
        if not left:
            raise StaleLedger(
                f"{output.ledger} did not accept the entry in {COMMIT_ATTEMPTS} attempts, nor any "
                f"other; the last error: {last}"
            )
        left -= 1
        what.check(seen)
        try:
            ledger.commit(next_entry(storage, output, seen, what), seen)
        except StaleLedger as error:
            last = error  # looking again tells a lost reply from a lost race
            time.sleep(next(wait))
        except FileNotFoundError as error:
            last = error  # somebody's newer entry may have moved or removed the file
            if ledger.look().version == seen.version:
                problem = (
                    f"lacks a file whose rows are to be replaced: {error}. Restore it from a "
                    f"copy, or {ANEW}"
                )
                raise InvalidSpec.at("sink.path", output.path, problem) from error


def next_entry(storage: Storage, output: OutputFolder, seen: Snapshot, what: Publication) -> Entry:
    """What a run changes in the output as it was seen."""
    if not what.replaces:
        catch_up(storage, output, seen)
    make_entry = redrive_entry if what.plan.redrives else entry_for
    entry = make_entry(storage, output, seen, what)
    if entry.replaces or not seen.files.keys().isdisjoint(entry.removed):
        refuse_moved(output.table, seen)
    return entry


def refuse_gap(what: Publication) -> None:
    """Publish nothing by half.

    Whoever was about to publish has looked, but a writer that was thought dead may have left a
    record since, which counts before later ones.

    Raises:
        RowsMissing: names the first shard that has something left.
    """
    gap = find_gap(what.plan, what.accepted, retry_rejected=False)
    if gap:
        first = what.plan.shards["path"][int(gap.shards[0])].as_py()
        raise RowsMissing(
            f"the records do not cover {counted(len(gap.shards), 'shard')}, the first of {first}: "
            "nothing is published; run again to predict what is missing"
        )


def entry_for(storage: Storage, output: OutputFolder, seen: Snapshot, what: Publication) -> Entry:
    """The entry that publishes a run on top of what is published now."""
    refuse_published(seen, what)
    refuse_other_config(seen, what)
    refuse_other_types(output, seen, what)
    names = part_names(output, seen.next_version)
    files = [*data_files(storage, what, names), *rejected_files(storage, what, names)]
    removed: list[str] = []
    if not what.replaces:
        rewritten, removed = changed_files(storage, output, seen, what, names)
        files += rewritten
    return Entry(
        run_key=what.run_key,
        run_id=what.run.run_id,
        inputs=what.published_shards,
        files=tuple(files),
        removed=tuple(removed),
        replaces=what.replaces,
        details=what.entry_details(seen),
    )


def refuse_published(seen: Snapshot, what: Publication) -> None:
    """Refuse inputs that another run has published since this run was planned.

    Of a complete new version those that it lacks: nobody has asked for these to leave.

    Raises:
        OutputHeld: names the run and the first such input.
    """
    planned = what.plan.pins["ledger_version"]
    if seen.version == planned or what.drops_others:
        return
    since = seen.inputs.filter(pc.greater(seen.inputs["version"], planned))
    are_own = pc.is_in(large(since["path"]), large(what.plan.shards["path"]))
    in_the_way = since.filter(pc.invert(are_own) if what.replaces else are_own)
    if not len(in_the_way):
        return
    first = in_the_way.slice(0, 1).to_pylist()[0]
    left = pc.count_distinct(in_the_way["path"]).as_py() - 1  # a large file is several shards
    more = f" and {counted(left, 'other input')}" if left else ""
    found = f"run {first['run_id']} has published {first['path']}{more} since this run was planned"
    if what.replaces:
        raise OutputHeld(
            f"{found}, which this new version would lack: run again, with a source or a range that "
            "has them, to predict them too"
        )
    raise OutputHeld(f"{found}; run again to predict and publish what is left")


def refuse_other_config(seen: Snapshot, what: Publication) -> None:
    """Refuse to mix predictions, where another config was published since this run was planned.

    Raises:
        OutputHeld: names that run, and the ways out.
    """
    planned = what.plan.pins["ledger_version"]
    for version, entry in seen.entries.items() if not what.replaces else ():
        is_since = version > planned and version >= seen.base
        if is_since and entry.get("config") not in (None, *what.configs):
            raise OutputHeld(
                f"run {entry['run_id']} has published predictions of another model, steps, sink or "
                "code since this run was planned: use another sink.path, or `batch-inference "
                "backfill SPEC` to predict every input again"
            )


def refuse_other_types(output: OutputFolder, seen: Snapshot, what: Publication) -> None:
    """Refuse rows of other types than those published since this run was planned.

    A table may take more columns, and rows without some: of those that both have, the types count.

    Raises:
        RowsMissing: they are to be made anew.
    """
    schema, published = what.details.get("schema"), seen.schema
    if what.replaces or not schema or published is None:
        return
    stored = (bytes.fromhex(schema), published)
    own, theirs = (pa.ipc.read_schema(pa.py_buffer(each)) for each in stored)
    both = {*own.names} & {*theirs.names}
    is_other = any(own.field(name).type != theirs.field(name).type for name in both)
    if is_other or (output.table is None and own.names != theirs.names):
        raise RowsMissing(
            "another run has published rows of other types since this one began: run again to "
            "make its rows in those types"
        )


def rejected_files(
    storage: Storage, what: Publication, names: Iterator[str]
) -> Iterator[LedgerFile]:
    """Quarantine files with one line for each row that stayed rejected."""
    for file in final_rejections(storage, what.run, what.accepted, what.drop_rejections):
        path = f"quarantine/{next(names)}.parquet"
        yield LedgerFile.staged_in(what.run, file, path, line="quarantine")


def changed_files(
    storage: Storage,
    output: OutputFolder,
    seen: Snapshot,
    what: Publication,
    names: Iterator[str],
) -> tuple[list[LedgerFile], list[str]]:
    """Published files with rows of inputs predicted again, or of keys that come again, anew."""
    gone = holding(seen, what.plan)
    left = left_by_keys(output, seen, what, again=bool(gone))
    changed = (
        (file, without_inputs(file, gone.get(file.run_id, as_ids(()))) & left.get(file.path, True))
        for files in (seen.files, seen.quarantine)
        for file in files.where(lambda row: row["run_id"] in gone or row["path"] in left)
    )
    return rewritten(storage, output, what, changed, names)
