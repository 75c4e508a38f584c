"""A Delta table as the place where an output's files are published."""

import json
import os
import time
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from tasks.errors import StaleTable
from tasks.kinds.hive import folder_values
from tasks.kinds.tables.delta import open_delta
from tasks.kinds.tables.footers import once, statistics
from tasks.kinds.tables.types import plain_schema
from tasks.protocol.client_errors import plain
from tasks.protocol.delta_log import settle
from tasks.protocol.delta_options import OF_STORES, delta_options, delta_url
from tasks.protocol.ledger_lines import LedgerFile
from tasks.protocol.storage import FsspecStorage
from tasks.protocol.table import VERSIONS_LOOKED_BACK, TableChange, TableState

APP = "prefect-ray-data"
WRITTEN_FEATURES = {
    "appendOnly",
    "changeDataFeed",
    "checkConstraints",
    "columnMapping",
    "deletionVectors",
    "generatedColumns",
    "invariants",
    "timestampNtz",
    "v2Checkpoint",
}
"""With these deltalake 1.6.6 commits, and no more is asked of files than to be added or removed.

Others it refuses, all but variants, once the ledger has decided. To be listed is not to be in use:
whether columns are mapped, or values have rules, is looked for apart.
"""
TABLE_FEATURES_VERSION = 7
"""Writer version from which on a table lists its features."""
LEGACY_FEATURES = {6: {"identityColumns"}}
"""What an earlier version stands for and is not written."""
CONSTRAINT = "delta.constraints."
RULES = {"delta.invariants", "delta.generationExpression"}
"""Of columns; like constraints they are kept by deltalake only where it writes rows itself."""


@dataclass(frozen=True)
class DeltaOutput:
    """The table at an output's path; a transaction id of ours says which entries are in it."""

    kind: ClassVar[str] = "delta"
    place: str
    storage: FsspecStorage
    path: str
    url: str
    storage_options: dict[str, Any]
    partition_by: tuple[str, ...]
    known: dict[str, str] = field(default_factory=dict, init=False, compare=False, repr=False)
    """Statistics of data files, by path: each is opened once, however often is committed."""

    def open(self, version: int | None = None) -> DeltaTable | None:
        """The table, as it is or as it was; None where there is none."""
        try:
            return open_delta(self.url, self.storage_options, version)
        except FileNotFoundError:
            return None

    def schema(self) -> pa.Schema | None:
        """The table's columns; None where there is no table."""
        table = self.open()
        return None if table is None else pa.schema(table.schema())

    def partition_columns(self) -> list[str] | None:
        """Columns that part it; None where there is no table."""
        table = self.open()
        return None if table is None else list(table.metadata().partition_columns)

    def obstacle(self) -> str | None:
        """Why files of ours cannot be the table's; None where they can, or there is none."""
        table = self.open()
        if table is None:
            return None
        if configuration_of(table).get("delta.columnMapping.mode", "none") != "none":
            return "uses other column names in its files (delta.columnMapping)"
        if unknown := sorted(features_of(table) - WRITTEN_FEATURES):
            return f"uses {', '.join(unknown)} of Delta, which cannot be written here"
        if rules := rules_of(table):
            return f"has rules for values that cannot be enforced here, {rules}"
        return None

    def look(self, ledger_id: str) -> TableState:
        """Read the log."""
        table = self.open()
        if table is None:
            return TableState(0, frozenset())
        applied = table.transaction_version(app_id(ledger_id)) or 0
        self.settle(table.version())
        append_only = configuration_of(table).get("delta.appendOnly") == "true"
        return TableState(applied, self.files(table), table.version(), append_only)

    def files(self, table: DeltaTable) -> frozenset[str]:
        """The table's data files."""
        # The log has paths percent-encoded, whatever is in them already.
        paths = map(unquote, pa.table(table.get_add_actions())["path"].to_pylist())
        marked = self.marked_files(table)
        # To remove such a file by its path would leave it there: it is another file by now.
        return frozenset(
            f"{path} with a deletion vector" if path in marked else path for path in paths
        )

    def way_back(self, files: Set[str]) -> str | None:
        """The call that restores the last version with these files; None once they are vacuumed."""
        table = self.open()
        newest = table.version() if table else 0
        there = self.files(table) if table else frozenset()
        if not all(self.storage.stat(f"{self.path}/{file}") for file in files - there):
            return None
        for version in range(newest - 1, max(0, newest - VERSIONS_LOOKED_BACK), -1):
            try:
                table = self.open(version)
            except LookupError:
                return None  # its log was cleaned away
            if table and files <= self.files(table):
                return f"DeltaTable({self.place!r}).restore({version})"
        return None

    def marked_files(self, table: DeltaTable) -> set[str]:
        """Files of which others have marked rows as deleted."""
        if "deletionVectors" not in (table.protocol().reader_features or []):
            return set()
        found = map(unquote, pa.table(table.deletion_vectors())["filepath"].to_pylist())
        # deltalake has followed the links.
        home = os.path.realpath(self.path) if self.storage.is_local else self.path
        return {path.partition(f"{home}/")[2] for path in found}

    def commit(self, change: TableChange, seen: TableState) -> None:
        """Add and remove files in one transaction on top of what was seen.

        It is conditional because it may not be retried: deltalake then puts exactly the next
        version's log file.
        """
        if seen.version is None and change.schema is None:
            return  # neither a table nor a row to make one for
        try:
            table = self.made(change, seen)
            version = table.version() + 1
            self.commit_on(table, change)
            self.settle(version)
        except DeltaError as error:
            raise StaleTable(
                f"{self.place} did not take the transaction: {plain(error)}"
            ) from error

    def settle(self, version: int) -> None:
        """See that no power cut takes back what is noted as applied; ours may be two versions."""
        if self.storage.is_local:
            settle(self.path, (version - 1, version))

    def made(self, change: TableChange, seen: TableState) -> DeltaTable:
        """The table as it was seen, with columns for all that is added."""
        once = CommitProperties(max_commit_retries=0)
        if seen.version is None:
            assert change.schema is not None
            DeltaTable.create(
                delta_url(self.url),
                delta_schema(change.schema),
                mode="error",
                partition_by=list(self.partition_by),
                configuration={} if self.storage.is_local else OF_STORES,
                storage_options=delta_options(self.url, self.storage_options),
                commit_properties=once,
            )
        table = self.open(int(seen.version or 0))
        assert table is not None
        names = {each.name for each in table.schema().fields}
        wanted = delta_schema(change.schema).fields if change.added and change.schema else []
        missing = [each for each in wanted if each.name not in names]
        if missing:
            # To readers of rows they are empty columns, until the transaction that fills them.
            table.alter.add_columns(missing, commit_properties=once)
        return table

    def commit_on(self, table: DeltaTable, change: TableChange) -> None:
        """Commit to the table as it was opened."""
        flags = {each.name for each in pa.schema(table.schema()) if each.type == pa.bool_()}
        removed = [self.removal(file, flags) for file in change.removed]
        actions = [*self.added(change, flags), *removed]
        table.create_write_transaction(
            actions,
            "append",
            table.schema(),
            partition_by=list(self.partition_by),
            commit_properties=CommitProperties(
                app_transactions=[Transaction(app_id(change.ledger_id), change.version)],
                custom_metadata={"run_id": change.run_id, "ledger_version": change.version},
                max_commit_retries=0,
            ),
        )

    def added(self, change: TableChange, flags: set[str]) -> Iterator[AddAction]:
        """Files to add, with the statistics of their columns; `flags` are true or false."""
        found = once(self.known, [file.path for file in change.added], self.statistics)
        for file, stats in zip(change.added, found, strict=True):
            yield AddAction(
                file.path,
                file.size,
                partition_values(file, flags),
                int(time.time() * 1000),
                True,
                stats,
            )

    def statistics(self, path: str) -> str:
        """What a file's footer says of its columns."""
        with self.storage.open(f"{self.path}/{path}") as file:
            return json.dumps(statistics(pq.read_metadata(file)))

    def removal(self, file: LedgerFile, flags: set[str]) -> RemoveAction:
        """A file to remove."""
        return RemoveAction(
            file.path, True, int(time.time() * 1000), file.size, partition_values(file, flags)
        )


def partition_values(file: LedgerFile, flags: set[str]) -> dict[str, str | None]:
    """A file's partition as Delta spells it: text, whole numbers and dates just so."""
    values = folder_values(file.path.rpartition("/")[0])
    return {name: text and text.lower() if name in flags else text for name, text in values.items()}


def configuration_of(table: DeltaTable) -> dict[str, str]:
    """A table's properties."""
    return dict(table.metadata().configuration)


def features_of(table: DeltaTable) -> set[str]:
    """What a table asks of its writers; of versions that list nothing, what is not written."""
    protocol = table.protocol()
    version = protocol.min_writer_version
    if version > TABLE_FEATURES_VERSION:
        return {f"writer version {version}"}
    return set(protocol.writer_features or LEGACY_FEATURES.get(version, ()))


def rules_of(table: DeltaTable) -> list[str]:
    """Constraints of a table, and its columns that have rules of their own."""
    named = [each for each in configuration_of(table) if each.startswith(CONSTRAINT)]
    columns = [each.name for each in table.schema().fields if RULES & each.metadata.keys()]
    return [*(each.removeprefix(CONSTRAINT) for each in named), *columns]


def app_id(ledger_id: str) -> str:
    """Whose transactions they are: of one ledger, so that another one begins anew."""
    return f"{APP}:{ledger_id}"


def delta_schema(schema: pa.Schema) -> Schema:
    """A run's schema as Delta has it."""
    return Schema.from_arrow(plain_schema(schema))
