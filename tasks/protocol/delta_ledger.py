"""The ledger as a Delta table, written through deltalake."""

import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from tasks.errors import InvalidSpec, StaleLedger
from tasks.protocol.client_errors import number_of, plain
from tasks.protocol.delta_log import damaged_entry, lost_entry, settle, settle_files
from tasks.protocol.delta_options import OF_STORES, delta_options, delta_url
from tasks.protocol.ledger import Entry, Snapshot
from tasks.protocol.ledger_lines import LINE_SCHEMA
from tasks.protocol.read_back import decoded

APP = "prefect-ray-data"
MERGED = 64
READERS = 8
"""Files of the ledger that are fetched at once."""
KEPT_BYTES = 512 << 20
"""Two years of hourly runs over a hundred files each are 350 to 400 MiB."""
KEPT: dict[tuple[str, str, int], Snapshot] = {}
"""The ledger that this process has read last, unless it is large: a run looks ten times, and finds
another version once. What was committed under a version of an id never changes."""
LACKS_OF_LOG = re.compile(r"No table metadata or protocol|found gap|didn't find any checkpoints")
"""What deltalake says of a log some of whose files are gone."""
DAMAGED_LOG = re.compile(r"Json error|Parquet error|Arrow error")
"""What it says of one that has a damaged file."""
OF_STORE = re.compile(r"External: |Generic \w+ error|error sending request|privileges")
"""And of a checkpoint that its store did not give, in the same words."""
FROM_A_COPY = (
    "Restore it from a copy, or from the versions that the store keeps; or publish to another "
    "path, which predicts everything at the source again"
)
UNKNOWN_STORE = re.compile(r"Unknown scheme|ConfigInvalid|Unsupported \(permanent\)")


class DeltaLedger:
    """An entry is one commit of the table: its version is the Delta version.

    Commits of others, who maintain all tables of a bucket, bring no entry.

    A commit is conditional because it may not be retried: deltalake then puts exactly the next
    version's log file, which a local disk or S3's conditional put grants to one writer only.
    """

    def __init__(self, url: str, storage_options: dict[str, Any] | None = None) -> None:
        self.url = delta_url(url)
        self.is_local = "://" not in url
        self.options = {} if self.is_local else delta_options(url, storage_options or {})

    def look(self) -> Snapshot:
        """Read the table.

        Raises:
            InvalidSpec: its newest entry, or a file of it, was lost or is damaged, or others have
                removed entries; says how the rows come back. Or deltalake knows no such storage.
        """
        if self.is_local:
            self.refuse_lost()
        try:
            table = DeltaTable(self.url, storage_options=self.options)
        except (DeltaError, OSError) as error:
            if unknown := UNKNOWN_STORE.search(str(error)):  # nor could it be written there
                problem = f"is where deltalake cannot keep a ledger ({unknown[0]}): use a folder "
                problem += "on a disk, or in an object store such as S3"
                raise InvalidSpec.at("sink.path", self.url, problem) from error
            if isinstance(error, TableNotFoundError):
                return Snapshot(0, LINE_SCHEMA.empty_table())
            if LACKS_OF_LOG.search(str(error)):
                raise self.lacking("its log, _delta_log, is incomplete") from error
            if DAMAGED_LOG.search(str(error)):
                if not self.is_local and OF_STORE.search(str(error)):
                    raise OSError(plain(error)) from error
                raise self.damaged(error) from error
            raise
        log_version, ledger_id = table.version(), str(table.metadata().id)
        seen = KEPT.get((self.url, ledger_id, log_version))
        if seen is None:
            KEPT.clear()  # before the other one comes: both would be in memory
            try:
                lines = lines_of(table)
            except FileNotFoundError as error:
                raise self.lacking(plain(error)) from error
            seen = Snapshot(pc.max(lines["version"]).as_py() or 0, lines, ledger_id, log_version)
            if log_version and not seen.entries:
                raise self.lacking("none of its versions lists what it has published")
            self.refuse_put_back(seen.version, table.transaction_version(APP) or 0)
            if lines.nbytes <= KEPT_BYTES:
                KEPT[self.url, ledger_id, log_version] = seen
        return seen

    def commit(self, entry: Entry, seen: Snapshot) -> int:
        """Commit on top of what was seen."""
        version = seen.next_version
        properties = CommitProperties(
            app_transactions=[Transaction(APP, version)],
            custom_metadata={"run_key": entry.run_key, "run_id": entry.run_id},
            max_commit_retries=0,
        )
        after = gathered_after(version, seen.version)
        earlier = seen.lines.filter(pc.greater(seen.lines["version"], after))
        try:
            if seen.version == 0:
                self.create()
            table = DeltaTable(self.url, version=version - 1, storage_options=self.options)
            write_deltalake(
                table,
                pa.concat_tables([earlier, entry.lines(version)]),
                mode="overwrite",
                predicate=f"version > {after}",
                commit_properties=properties,
            )
        except (DeltaError, OSError) as error:
            # Of a store that refuses or is away, or a disk that is full, its own words; else others
            # were faster, or the entry is there and its reply got lost.
            number, is_of_store = number_of(error), isinstance(error, OSError)
            if (is_of_store or number is not None) and self.is_as(seen):
                if is_of_store:
                    raise
                raise OSError(number, plain(error), self.url) from error
            raise StaleLedger(
                f"the ledger at {self.url} did not take the entry: {plain(error)}"
            ) from error
        return version

    def is_as(self, seen: Snapshot) -> bool:
        """Whether nothing was committed since; what was may be ours, and its reply got lost."""
        now = self.look()
        return (now.next_version, now.id) == (seen.next_version, seen.id)

    def settle(self, versions: range) -> None:
        """Write entries out to a local disk, data files first; a store's writes are lasting."""
        if self.is_local:
            settle_files(self.url, versions)
            settle(self.url, versions)

    def refuse_lost(self) -> None:
        """Refuse a ledger whose newest entry has no content: its rows would be predicted again.

        Raises:
            InvalidSpec: says how they come back.
        """
        lost = lost_entry(self.url)
        if lost:
            applied = lost.parents[2] / "applied"
            problem = (
                f"is a ledger whose newest entry is empty, as after a power cut: {lost}. Restore "
                f"that file from a copy; or delete it and {applied} and run again, which "
                "publishes again what that run has recorded; if that fails, as it can for a "
                "table, publish to another path"
            )
            raise InvalidSpec.at("sink.path", self.url, problem)

    def refuse_put_back(self, version: int, committed: int) -> None:
        """Refuse a ledger that others have restored: the rows of what it lacks are there still.

        Args:
            version: of its last entry.
            committed: of the last one that a transaction has brought, which no restoring undoes.

        Raises:
            InvalidSpec: says how the entries come back.
        """
        if committed > version:
            problem = (
                f"is a ledger that ends with version {version}, although version {committed} was "
                "published: somebody has restored it to an earlier version, or deleted rows of it. "
                f"Bring them back with DeltaTable({self.url!r}).restore({committed})"
            )
            raise InvalidSpec.at("sink.path", self.url, problem)

    def lacking(self, what: str) -> InvalidSpec:
        """Says that files of it are gone that are still wanted, and the ways out.

        Args:
            what: shows that.
        """
        problem = (
            "is a ledger with missing files, perhaps removed by a lifecycle rule of the store: "
            f"{what}. Restore them from a copy, or from the versions that the store keeps, and "
            "exclude them from such rules; or publish to another path, which predicts everything "
            "at the source again"
        )
        return InvalidSpec.at("sink.path", self.url, problem)

    def damaged(self, error: Exception) -> InvalidSpec:
        """Says that a file of its log cannot be read, which one where it lies on this machine.

        Args:
            error: what deltalake said.
        """
        entry = damaged_entry(self.url) if self.is_local else None
        what = f", {entry}" if entry else f" ({plain(error)})"
        problem = f"is a ledger with a damaged log file{what}. {FROM_A_COPY}"
        return InvalidSpec.at("sink.path", self.url, problem)

    def beside(self, ending: str) -> "DeltaLedger":
        """Another one of the same storage, to try that out, by what its name ends with."""
        other = copy(self)
        other.url += ending
        return other

    def create(self) -> None:
        """Make the empty table, version 0; nothing happens where there is one."""
        with suppress(CommitFailedError):
            self.make()

    def make(self) -> None:
        """The same; an error where somebody was faster."""
        # To retry a lost race would make the table again, as the next version.
        once = CommitProperties(max_commit_retries=0)
        DeltaTable.create(
            self.url,
            LINE_SCHEMA,
            mode="ignore",
            configuration={} if self.is_local else OF_STORES,
            storage_options=self.options,
            commit_properties=once,
        )


def lines_of(table: DeltaTable) -> pa.Table:
    """A ledger's lines, read file by file.

    Arrow's dataset would let go of deltalake's buffers in threads of its own, perhaps while the
    process ends, which CPython 3.11 answers with an abort: a command that had said all was well
    would end with a signal.
    """
    dataset = table.to_pyarrow_dataset()

    def content(path: str) -> bytes:
        with dataset.filesystem.open_input_file(path) as file:
            return bytes(file.read())

    paths = [each.path for each in dataset.get_fragments()]
    with ThreadPoolExecutor(READERS) as pool:
        files = pool.map(content, paths)
        tables = [
            decoded(f"{table.table_uri}{path}", each, lines_in, FROM_A_COPY)
            for path, each in zip(paths, files, strict=True)
        ]
    return pa.concat_tables([LINE_SCHEMA.empty_table(), *tables])


def lines_in(content: bytes) -> pa.Table:
    """Lines of one file."""
    file = pq.ParquetFile(pa.BufferReader(content), pre_buffer=False)
    return file.read(use_threads=False).cast(LINE_SCHEMA)


def gathered_after(version: int, last: int) -> int:
    """The version after which a commit puts all lines into one file, its own among them.

    As in a number that counts on: each 64th version gathers 64, each 4,096th gathers 4,096; where
    others have taken that one, the next entry does. So a ledger of any length is read from some
    dozens of files, and a line is written two or three times in all. The commit that adds an entry
    gathers, so that there is no other kind of commit.

    Args:
        version: of the commit.
        last: of the entry before it.
    """
    after, span = version - 1, MERGED
    while version // span > last // span:
        after = (version // span - 1) * span
        span *= MERGED
    return after
