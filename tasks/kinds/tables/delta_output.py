"""A Delta table as the place where an output's files are published."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from tasks.errors import StaleTable
from tasks.kinds.hive import folder_values
from tasks.kinds.tables.delta import open_delta
from tasks.kinds.tables.footers import footers, statistics
from tasks.kinds.tables.types import plain_schema
from tasks.protocol.delta_ledger import delta_options, delta_url
from tasks.protocol.ledger import LedgerFile
from tasks.protocol.storage import FsspecStorage
from tasks.protocol.table import TableChange, TableState

APP = "prefect-ray-data"


@dataclass(frozen=True)
class DeltaOutput:
    """The table at an output's path; a transaction id of ours says which entries are in it."""

    place: str
    storage: FsspecStorage
    path: str
    url: str
    storage_options: dict[str, Any]
    partition_by: tuple[str, ...]

    def open(self, version: int | None = None) -> DeltaTable | None:
        """The table, as it is or as it was; None where there is none."""
        try:
            return open_delta(delta_url(self.url), self.storage_options, version)
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

    def look(self, ledger_id: str) -> TableState:
        """Read the log."""
        table = self.open()
        if table is None:
            return TableState(0, frozenset())
        # The log has paths percent-encoded, whatever is in them already.
        paths = pa.table(table.get_add_actions())["path"].to_pylist()
        applied = table.transaction_version(app_id(ledger_id)) or 0
        return TableState(applied, frozenset(map(unquote, paths)), table.version())

    def commit(self, change: TableChange, seen: TableState) -> None:
        """Add and remove files in one transaction on top of what was seen.

        It is conditional because it may not be retried: deltalake then puts exactly the next
        version's log file.
        """
        if seen.version is None and change.schema is None:
            return  # neither a table nor a row to make one for
        try:
            self.commit_on(self.made(change, seen), change)
        except (DeltaError, ConnectionError) as error:
            raise StaleTable(f"{self.place} did not take the transaction: {error}") from error

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
                storage_options=delta_options(self.storage_options),
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
        actions = [*self.added(change), *map(self.removal, change.removed)]
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

    def added(self, change: TableChange) -> Iterator[AddAction]:
        """Files to add, with the statistics of their columns."""
        found = footers(self.storage, [f"{self.path}/{file.path}" for file in change.added])
        for file, footer in zip(change.added, found, strict=True):
            yield AddAction(
                file.path,
                file.size,
                self.partition_values(file),
                int(time.time() * 1000),
                True,
                json.dumps(statistics(footer)),
            )

    def removal(self, file: LedgerFile) -> RemoveAction:
        """A file to remove."""
        return RemoveAction(
            file.path, True, int(time.time() * 1000), file.size, self.partition_values(file)
        )

    def partition_values(self, file: LedgerFile) -> dict[str, str | None]:
        """A file's partition as Delta spells it: text, whole numbers and dates just so."""
        values = folder_values(file.path.rpartition("/")[0])
        words = {"True": "true", "False": "false"}
        return {name: words.get(text or "", text) for name, text in values.items()}


def app_id(ledger_id: str) -> str:
    """Whose transactions they are: of one ledger, so that another one begins anew."""
    return f"{APP}:{ledger_id}"


def delta_schema(schema: pa.Schema) -> Schema:
    """A run's schema as Delta has it."""
    return Schema.from_arrow(plain_schema(schema))
