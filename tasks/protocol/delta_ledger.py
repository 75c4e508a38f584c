"""The ledger as a Delta table, written through deltalake."""

from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from tasks.errors import StaleLedger
from tasks.protocol.ledger import LINE_SCHEMA, Entry, Snapshot

APP = "prefect-ray-data"


class DeltaLedger:
    """One commit of the table is one entry: its version is the Delta version.

    A commit is conditional because it may not be retried: deltalake then puts exactly the next
    version's log file, which a local disk or S3's conditional put grants to one writer only.
    """

    def __init__(self, url: str, storage_options: dict[str, Any] | None = None) -> None:
        self.url = url
        self.options = delta_options(storage_options or {})

    def look(self) -> Snapshot:
        """Read the table."""
        try:
            table = DeltaTable(self.url, storage_options=self.options)
        except TableNotFoundError:
            return Snapshot(0, LINE_SCHEMA.empty_table())
        lines = pa.table(table.to_pyarrow_table()).cast(LINE_SCHEMA)
        return Snapshot(table.version(), lines)

    def commit(self, entry: Entry, seen: Snapshot) -> int:
        """Commit on top of what was seen."""
        version = seen.version + 1
        properties = CommitProperties(
            app_transactions=[Transaction(APP, version)],
            custom_metadata={"run_key": entry.run_key, "run_id": entry.run_id},
            max_commit_retries=0,
        )
        try:
            self.create()
            table = DeltaTable(self.url, version=seen.version, storage_options=self.options)
            write_deltalake(
                table, entry.lines(version), mode="append", commit_properties=properties
            )
        except DeltaError as error:
            raise StaleLedger(
                f"the ledger at {self.url} did not take the entry: {error}"
            ) from error
        return version

    def create(self) -> None:
        """Make the empty table, version 0; nothing happens where there is one."""
        DeltaTable.create(self.url, LINE_SCHEMA, mode="ignore", storage_options=self.options)


def delta_options(storage_options: dict[str, Any]) -> dict[str, str]:
    """Fsspec's options as deltalake takes them; credentials come from the environment."""
    options: dict[str, str] = {}
    endpoint = storage_options.get("endpoint_url") or storage_options.get("client_kwargs", {}).get(
        "endpoint_url"
    )
    if endpoint:
        options["AWS_ENDPOINT_URL"] = str(endpoint)
        if str(endpoint).startswith("http://"):
            options["AWS_ALLOW_HTTP"] = "true"
    for ours, theirs in (("key", "AWS_ACCESS_KEY_ID"), ("secret", "AWS_SECRET_ACCESS_KEY")):
        if ours in storage_options:
            options[theirs] = str(storage_options[ours])
    return options
