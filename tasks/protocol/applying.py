"""Makes the output look as the ledger says. Anyone may do it, again and again.

Where the output is a table, its data files are moved in first: to its readers they do not exist
before one transaction names them.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.protocol.layout import OutputFolder
from tasks.protocol.ledger import Ledger, Snapshot
from tasks.protocol.ledger_lines import LedgerFile
from tasks.protocol.read_back import read_back
from tasks.protocol.storage import Storage
from tasks.protocol.table import EMPTIED, Table, TableChange, change_for, commit_to_table

MOVERS = 16
AT_ONCE_FROM = 2
"""Files: each takes three answers of a store."""


def apply(storage: Storage, ledger: Ledger, output: OutputFolder, seen: Snapshot) -> None:
    """Move staged files in, delete what is no longer published, note the version.

    Moving what was moved and deleting what is gone do nothing, so that a crash anywhere in here
    is mended by the next run.
    """
    applied = applied_version(storage, output, seen.id)
    if applied >= seen.version:
        return
    # Else, after a power cut, files might be published that no entry names.
    ledger.settle(range(applied, seen.version + 1))
    both = seen.files, seen.quarantine
    new = [file for files in both for file in files.where(lambda row: row["version"] > applied)]
    together(lambda file: move_in(storage, output, file), new)
    if output.table is None:
        together(storage.delete, sorted(no_longer_published(storage, output, seen, applied)))
        storage.write(output.success, b"")
    else:
        commit_to_table(output.table, seen, applied)
        # Files of rows stay for readers of the table's older versions, until it is vacuumed.
        gone = no_longer_published(storage, output, seen, applied)
        together(storage.delete, sorted(path for path in gone if path.startswith(output.state)))
    # Last, since what is noted here is never looked at again.
    storage.write(output.applied, f"{seen.version} {seen.id}".encode())


def bring_up_to_date(storage: Storage, ledger: Ledger, output: OutputFolder) -> Snapshot:
    """Apply all that is committed, also what another run left half applied; return what is.

    Raises:
        InvalidSpec: a published file is gone, and so is its staged copy; or what is published is
            another kind's; says what to do.
    """
    while True:
        seen = ledger.look()
        refuse_other_kind(output.table, seen, output.path)
        try:
            apply(storage, ledger, output, seen)
        except FileNotFoundError as error:
            # A later entry may have removed the file while we were moving it.
            if ledger.look().version == seen.version:
                problem = (
                    f"lacks what its ledger lists as published: {error}. Restore that file from a "
                    f"copy; or delete {output.path} and {output.state} together and run again, "
                    "which predicts everything at the source again"
                )
                raise InvalidSpec.at("sink.path", output.path, problem) from error
            continue
        return seen


def refuse_other_kind(table: Table | None, ledger: Snapshot, path: str) -> None:
    """Refuse to publish files beside those of a table, or as another one's.

    Files that leave stay for readers of a table's older versions, and its log stays too: whoever
    reads the folder as the one would see rows of the other.

    Args:
        table: that the output is now; None where it is plain files.
        ledger: what is published.
        path: of the output.

    Raises:
        InvalidSpec: says what the output has been.
    """
    kind = table.kind if table else None
    for version, entry in ledger.entries.items():
        was = entry.get("table", kind)  # earlier releases did not note it
        if version >= ledger.base and was != kind:
            there = f"the {was} table" if was else "files"
            problem = (
                f"has been published as {there} until now, and its readers would find rows of "
                "both there: set sink.kind back, or use another path"
            )
            raise InvalidSpec.at("sink.path", path, problem)


def applied_version(storage: Storage, output: OutputFolder, ledger_id: str) -> int:
    """The version of a ledger last applied; 0 before the first.

    What was noted of another one, which was lost, says nothing: this one counts anew.

    Raises:
        InvalidSpec: what was noted is damaged; says what to do.
    """
    # Nothing but this note may say whether a table that others have written anew had a version.
    way_out = "Restore it from a copy"
    if output.table is None:
        way_out += "; or delete it and run again, which puts the published rows in place again"
    try:
        version, whose = read_back(storage, output.applied, noted_in, way_out)
    except FileNotFoundError:
        return 0
    # Earlier releases noted the version alone: it is taken to be of the ledger that is there.
    return version if whose in ("", ledger_id) else 0


def noted_in(content: bytes) -> tuple[int, str]:
    """The version that was last applied, and of which ledger."""
    version, _, whose = content.decode().partition(" ")
    return int(version), whose


def catch_up(storage: Storage, output: OutputFolder, seen: Snapshot) -> None:
    """Commit to a table again what it lacks of entries that were applied, as one of a backup does.

    Before a new entry is decided: what stands against the old ones would stand against it too.

    Raises:
        InvalidSpec: it is not to get them, or the files that it lacks are gone.
        StaleTable: others kept committing, or the table's storage did not answer.
    """
    if output.table is not None and seen.version:
        commit_to_table(
            output.table, seen, seen.version, lambda change: refuse_gone(storage, output, change)
        )


def refuse_unmendable(storage: Storage, output: OutputFolder, seen: Snapshot) -> None:
    """Refuse a table that could not be caught up with, while nothing is predicted yet.

    Raises:
        InvalidSpec: it is not to get what it lacks, or the files that it lacks are gone.
    """
    if output.table is None or not seen.version:
        return
    change = change_for(output.table, output.table.look(seen.id), seen, seen.version)
    if change is not None:
        refuse_gone(storage, output, change)


def refuse_gone(storage: Storage, output: OutputFolder, change: TableChange) -> None:
    """Refuse to name files to a table again that lie in its folder no more.

    Raises:
        InvalidSpec: names the first one, and the ways out.
    """
    added = [file.target(output) for file in change.added]
    gone = [path for path in added if storage.stat(path) is None]
    if gone:
        problem = (
            f"lacks {counted(len(added), 'file')} of this output in its table, as after restoring "
            f"a backup, and {len(gone)} of them are no longer in its folder, the first {gone[0]}: "
            f"restore them from a copy, or {EMPTIED}"
        )
        raise InvalidSpec.at("sink.path", output.path, problem)


def move_in(storage: Storage, output: OutputFolder, file: LedgerFile) -> None:
    """Move one file to where it is published.

    Raises:
        FileNotFoundError: it is neither staged nor published: somebody deleted it.
    """
    target = file.target(output)
    storage.move(file.source(output), target)
    if storage.stat(target) is None:
        raise FileNotFoundError(f"{target} is gone, and so is its staged copy")


def no_longer_published(
    storage: Storage, output: OutputFolder, seen: Snapshot, applied: int
) -> set[str]:
    """Files that versions after `applied` removed.

    Where one of these replaced all, those too that earlier ones removed and that lie there all the
    same: who was slow to apply an older version may have moved them in afterwards, and died.
    """
    live = {*seen.files, *seen.quarantine}
    gone = {file.target(output) for file in seen.dead_since(applied) if file.path not in live}
    if seen.base > applied:
        folders = [output.quarantine] if output.table else [output.path, output.quarantine]
        there = {stat.path for folder in folders for stat in storage.list(folder)}
        dead = {file.target(output) for file in seen.dead_since(0) if file.path not in live}
        gone |= dead & there
    return gone


def together(function: Callable, items: Iterable) -> None:
    """Call a function for each item, many at a time."""
    items = list(items)
    if len(items) < AT_ONCE_FROM:
        for item in items:
            function(item)
        return
    with ThreadPoolExecutor(MOVERS) as pool:
        list(pool.map(function, items))
