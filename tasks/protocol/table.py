"""A table that has an output's files for its data files: one transaction for each entry applied.

The ledger says which files are published, the table's own log says it to the table's readers. As
with the ledger, a table is looked at and then committed to if nobody has since: whether an entry
is in it already, after a crash or a lost reply, is found out by looking.
"""

import time
from collections.abc import Callable, Set
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import pyarrow as pa

from tasks.counted import counted
from tasks.errors import InvalidSpec, StaleTable, Unreachable
from tasks.protocol.backoff import waits
from tasks.protocol.ledger import Snapshot
from tasks.protocol.ledger_lines import LedgerFile, file_of

COMMIT_ATTEMPTS = 30
VERSIONS_LOOKED_BACK = 100
"""How far a table's history is gone through for a version to go back to."""
MOVED = (
    "somebody has compacted, updated or deleted rows, or filled a column added to a Lance "
    "dataset (dropping it is enough). Replacing rows of a changed input or a repeated key would "
    "now duplicate them or lose what others filled in"
)
UNMARKED = (
    "somebody has rewritten or restored it, and the list of the runs in it is gone. Publishing "
    "the rows of these files again may duplicate them, and not publishing may lose them"
)
"""What speaks against a change to a table that has lost files of ours."""
EMPTIED = (
    "delete all of the table's rows and run again with --replace-output, and with --restart too if "
    "a run is unfinished"
)
"""The last way out."""


@dataclass(frozen=True)
class TableState:
    """The table as it stood when looked at."""

    applied: int
    """The last version of our ledger that is in it; 0 before the first."""
    files: frozenset[str]
    """Its data files below the output's folder, and the whole path of those elsewhere."""
    version: int | str | None = None
    """As the table counts or names it; None where there is no table yet."""
    append_only: bool = False
    """Whether it lets nobody remove rows."""
    is_cut: bool = False
    """Whether its log was cleaned up, so that a later version may be in it than `applied`."""

    @property
    def may_have_more(self) -> bool:
        """Whether a later version may be in it; also where others have written it anew."""
        return self.is_cut or not self.applied


@dataclass(frozen=True)
class TableChange:
    """What one transaction does."""

    ledger_id: str
    version: int
    """Of the ledger; the transaction bears both."""
    run_id: str
    schema: pa.Schema | None
    """Of the files added; None where no run has written a row yet."""
    added: tuple[LedgerFile, ...]
    removed: tuple[LedgerFile, ...]


class Table(Protocol):
    """Commit if nobody has committed since I looked."""

    @property
    def kind(self) -> str:
        """Whose log it keeps, as the spec names it."""

    @property
    def place(self) -> str:
        """Where it lies, as the spec names it."""

    def look(self, ledger_id: str) -> TableState:
        """Read the table's log."""

    def commit(self, change: TableChange, seen: TableState) -> None:
        """Add and remove data files in one transaction; makes the table where there is none.

        Raises:
            StaleTable: somebody has committed since, or the reply was lost; look again.
        """

    def way_back(self, files: Set[str]) -> str | None:
        """The call that brings back its last version with all of these files, if it can be had."""


def commit_to_table(
    table: Table,
    ledger: Snapshot,
    noted: int,
    check: Callable[[TableChange], None] = lambda change: None,
) -> None:
    """Commit to the table what the ledger says and it has not yet; again, nothing happens.

    Foreign writers' commits in between stay: ours is made anew on top of them.

    Args:
        table: to commit to.
        ledger: what is published.
        noted: the last version that is known to have been in the table.
        check: raises where a change is not to be committed.

    Raises:
        InvalidSpec: files to be removed are no longer in the table, as after a compaction; or
            nothing tells whether the rows of files that were in it are in others now.
        StaleTable: others kept committing, or the table's storage did not answer.
    """
    last: Exception | None = None
    for seconds in islice(waits(), COMMIT_ATTEMPTS):
        try:
            return commit_once(table, ledger, noted, check)
        except FileNotFoundError:
            raise  # a file of ours is gone, and stays so
        except (StaleTable, Unreachable, OSError) as error:
            last = error  # looking again tells a lost reply from a lost race
            time.sleep(seconds)
    raise StaleTable(
        f"the table {table.place} did not accept version {ledger.version} of its ledger in "
        f"{COMMIT_ATTEMPTS} attempts; the last error: {last}"
    )


def commit_once(
    table: Table, ledger: Snapshot, noted: int, check: Callable[[TableChange], None]
) -> None:
    """Commit what the ledger says and the table has not yet, on top of how it is now.

    Raises:
        InvalidSpec: the table is not to get that, see `change_for`.
        StaleTable: it did not take the transaction, or the reply was lost.
        Unreachable: it does not answer.
        OSError: the same.
    """
    found = table.look(ledger.id)
    change = change_for(table, found, ledger, noted)
    if change is not None:
        check(change)
        table.commit(change, found)


def change_for(table: Table, found: TableState, ledger: Snapshot, noted: int) -> TableChange | None:
    """What the ledger says and the table, as it was found, has not yet; None where it has all.

    Raises:
        InvalidSpec: files to be removed are no longer in the table; or nothing tells whether the
            rows of files that were in it are in others now.
    """
    last = last_applied(found, ledger, noted)
    if last >= ledger.version:
        return None
    change = change_since(last, found, ledger)
    if change.removed:
        refuse_rewritten(table, found, ledger.paths_at(last))
    named = {row["path"] for row in ledger.changes.get("file", [])}
    if last < noted and found.may_have_more and found.files - named:
        refuse_rewritten(table, found, ledger.paths_at(noted), UNMARKED)
    return change


def last_applied(found: TableState, ledger: Snapshot, noted: int) -> int:
    """The last version that is in the table: what its log says, or one whose file is there.

    A log that was cleaned up may name an earlier one than the last, and a version that only
    removed rows has no file there, as none has whose rows others have moved. It is known from what
    was noted when it was applied, unless the table was brought back since to what it had been
    before: then it has the files that it had.
    """
    files = ledger.changes.get("file", [])
    ours = {row["path"]: row["version"] for row in files if row["path"] in found.files}
    last = max([found.applied, *ours.values()])
    if noted <= last or ours.keys() == ledger.paths_at(noted):
        return max(noted, last)
    is_as_before = ledger.paths_at(last) <= ours.keys()
    return noted if found.may_have_more and not is_as_before else last


def change_since(last: int, found: TableState, ledger: Snapshot) -> TableChange:
    """What is published now and was not at a version, and the other way round."""
    before = {row["path"]: row for row in ledger.published_at(last)}
    after = ledger.files
    there = before.keys() | found.files  # a table never gets a file twice, whatever its log says
    told = [entry["schema"] for entry in ledger.entries.values() if entry.get("schema")]
    schema = ledger.schema or (bytes.fromhex(told[-1]) if told else None)
    return TableChange(
        ledger_id=ledger.id,
        version=ledger.version,
        run_id=ledger.entries[ledger.version]["run_id"],
        schema=pa.ipc.read_schema(pa.py_buffer(schema)) if schema else None,
        added=tuple(file for path, file in after.items() if path not in there),
        removed=tuple(file_of(row) for path, row in before.items() if path not in after),
    )


def refuse_moved(table: Table | None, ledger: Snapshot) -> None:
    """Refuse to replace rows of a table that are no longer where the ledger says.

    Raises:
        InvalidSpec: says which files are gone, and the ways out; or that none may be removed.
    """
    if table is None:
        return
    found = table.look(ledger.id)
    if found.append_only and ledger.files:
        problem = "is an append-only table, but some of its rows must be replaced: allow removals"
        raise InvalidSpec.at("sink.path", table.place, problem)
    refuse_rewritten(table, found, ledger.files.keys())
    # Of a table that was brought back to an older version, that one's files are to be taken out.
    change_for(table, found, ledger, ledger.version)


def taken_out(table: Table | None, ledger: Snapshot) -> set[str]:
    """Published files that are in the table no more: somebody has deleted all of their rows.

    What lies of them still is for readers of older versions, until a vacuum: no row comes back.
    """
    if table is None:
        return set()
    found = table.look(ledger.id)
    applied = ledger.paths_at(last_applied(found, ledger, ledger.version))
    return (applied & ledger.files.keys()) - found.files


def refuse_rewritten(
    table: Table, found: TableState, files: Set[str], so_what: str = MOVED
) -> None:
    """Refuse to replace rows that somebody may have put into files of other names.

    A compaction, an update or a delete does that. To look for the rows there, by their keys, is no
    way: of two rows of a key nobody can say which is ours and which is of others, whose rows stay,
    nor from which input one came. What is gone together with every file that is not ours has left
    nothing behind, so that an emptied table can be filled again. Where others have put values
    beside ours, rows that stay would be written anew without them.

    Raises:
        InvalidSpec: says which files are gone, and the ways out.
    """
    gone = sorted(files - found.files)
    if gone and found.files - files:
        problem = (
            f"is a table that has lost {counted(len(gone), 'file')} of this output, the first "
            f"{gone[0]}, and has others: {so_what}. {ways_out(table, files)}"
        )
        raise InvalidSpec.at("sink.path", table.place, problem)


def ways_out(table: Table, files: Set[str]) -> str:
    """What to do where some of these files are no longer in the table."""
    call = table.way_back(files)
    if call is None:
        return f"No version with all of them remains: {EMPTIED}"
    return f"Restore it with {call}, which undoes all later changes by others; or {EMPTIED}"
