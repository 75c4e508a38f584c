"""The ledger as a Delta table, written through deltalake."""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from tasks.errors import InvalidSpec, StaleLedger
from tasks.protocol.client_errors import number_of, plain
from tasks.protocol.delta_log import lost_entry, settle, settle_files
from tasks.protocol.ledger import Entry, Snapshot
from tasks.protocol.ledger_lines import LINE_SCHEMA

ENDPOINT = "endpoint_url"
APP = "prefect-ray-data"
MERGED = 64
READERS = 8
"""Files of the ledger that are fetched at once."""
ESCAPE = "%[0-9A-Fa-f]{2}"
UNKNOWN_STORE = re.compile(r"Unknown scheme|ConfigInvalid|Unsupported \(permanent\)")
NO_PATH = r"[\x00-\x1f\x7f\\^|\[\]]"
"""Characters of a local path at which deltalake breaks."""
NO_KEY = r"[\x00-\x1f\x7f\x85\u2028]"
"""Such of a store's: it refuses control characters, and reads what XML takes for an end of line as
one."""


class DeltaLedger:
    """One commit of the table is one entry: its version is the Delta version.

    A commit is conditional because it may not be retried: deltalake then puts exactly the next
    version's log file, which a local disk or S3's conditional put grants to one writer only.
    """

    def __init__(self, url: str, storage_options: dict[str, Any] | None = None) -> None:
        self.url = delta_url(url)
        self.options = delta_options(storage_options or {})
        self.is_local = "://" not in url

    def look(self) -> Snapshot:
        """Read the table.

        Raises:
            InvalidSpec: its newest entry was lost; says how the rows come back. Or deltalake knows
                no such storage.
        """
        if self.is_local:
            self.refuse_lost()
        try:
            table = DeltaTable(self.url, storage_options=self.options)
        except (DeltaError, OSError) as error:
            if unknown := UNKNOWN_STORE.search(str(error)):  # nor could it be written there
                problem = f"lies where deltalake can keep no ledger ({unknown[0]}): name a folder "
                problem += "on a disk, or in an object store such as S3"
                raise InvalidSpec.at("sink.path", self.url, problem) from error
            if isinstance(error, TableNotFoundError):
                return Snapshot(0, LINE_SCHEMA.empty_table())
            raise
        return Snapshot(table.version(), lines_of(table), str(table.metadata().id))

    def commit(self, entry: Entry, seen: Snapshot) -> int:
        """Commit on top of what was seen."""
        version = seen.version + 1
        properties = CommitProperties(
            app_transactions=[Transaction(APP, version)],
            custom_metadata={"run_key": entry.run_key, "run_id": entry.run_id},
            max_commit_retries=0,
        )
        after = version - merge_span(version)
        earlier = seen.lines.filter(pc.greater(seen.lines["version"], after))
        try:
            if seen.version == 0:
                self.create()
            table = DeltaTable(self.url, version=seen.version, storage_options=self.options)
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
        return (now.version, now.id) == (seen.version, seen.id)

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
                f"is a ledger whose newest entry is empty, as after a power cut: {lost}. Put that "
                f"file back from a copy; or delete it and {applied} and run again, which publishes "
                "anew what that run has recorded; or, where that fails, as where the output is a "
                "table, publish to another path"
            )
            raise InvalidSpec.at("sink.path", self.url, problem)

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

    with ThreadPoolExecutor(READERS) as pool:
        files = pool.map(content, [each.path for each in dataset.get_fragments()])
        tables = [
            pq.ParquetFile(pa.BufferReader(each), pre_buffer=False).read(use_threads=False)
            for each in files
        ]
    return pa.concat_tables(
        [LINE_SCHEMA.empty_table(), *(each.cast(LINE_SCHEMA) for each in tables)]
    )


def merge_span(version: int) -> int:
    """How many versions, this one the last, a commit puts into one file.

    As in a number that counts on: each 64th version gathers 64, each 4,096th gathers 4,096. So a
    ledger of any length is read from some dozens of files, and a line is written two or three
    times in all. The commit that adds an entry gathers, so that there is no other kind of commit.
    """
    span = 1
    while version % (span * MERGED) == 0:
        span *= MERGED
    return span


def delta_url(url: str) -> str:
    """Where deltalake writes a table, as it takes it.

    Raises:
        InvalidSpec: the path has an escape in it, which deltalake resolves here and not there, or
            what it takes for no part of a path, at the end of a run and not when it looks there.
    """
    wrong = re.search(f"{ESCAPE}|{NO_KEY if '://' in url else NO_PATH}", url)
    if wrong:
        problem = f"has {wrong[0]!r} in it, with which the ledger cannot be kept"
        raise InvalidSpec.at("sink.path", url, f"{problem}: rename the folder")
    return quoted(url)


def quoted(url: str) -> str:
    """A path or an fsspec URL as deltalake and Lance take it.

    Unquoted, they would cut a URL at `#` or `?`, and read and write the table of that name.
    """
    scheme, separator, path = url.rpartition("://")
    return f"{scheme}://{quote(path, safe='/=+:@,')}" if separator else url


def delta_options(storage_options: dict[str, Any]) -> dict[str, str]:
    """Fsspec's options as deltalake takes them; credentials come from the environment.

    Raises:
        InvalidSpec: one that it has no word for says whose credentials are to be taken, or who
            vouches for the store.
    """
    if "profile" in storage_options:
        problem = "is not known to what reads and writes tables: name it in the environment, by "
        problem += "AWS_PROFILE, here and on the cluster's nodes"
        raise InvalidSpec.at("storage_options.profile", storage_options["profile"], problem)
    client = storage_options.get("client_kwargs") or {}
    checked = client.get("verify")
    if isinstance(checked, str) and "SSL_CERT_FILE" not in os.environ:
        problem = "is not known to what reads and writes tables: name it in the environment, by "
        problem += "SSL_CERT_FILE, here and on the cluster's nodes"
        raise InvalidSpec.at("storage_options.client_kwargs.verify", checked, problem)
    # What a bucket may ask of whatever is put into it.
    put = storage_options.get("s3_additional_kwargs") or {}
    # Where the endpoint comes from the environment, plain HTTP must still be allowed here.
    environment = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    endpoint = storage_options.get("endpoint_url") or client.get("endpoint_url") or environment
    endpoint = endpoint or endpoint_in_files()
    own = keys_in_files() if endpoint and not storage_options.get("anon") else {}
    given = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true" if str(endpoint).startswith("http://") else None,
        "AWS_REGION": client.get("region_name"),
        "AWS_ACCESS_KEY_ID": storage_options.get("key") or own.get("aws_access_key_id"),
        "AWS_SECRET_ACCESS_KEY": storage_options.get("secret") or own.get("aws_secret_access_key"),
        "AWS_SESSION_TOKEN": storage_options.get("token") or own.get("aws_session_token"),
        "AWS_SKIP_SIGNATURE": "true" if storage_options.get("anon") else None,
        "AWS_REQUEST_PAYER": "true" if storage_options.get("requester_pays") else None,
        "AWS_ALLOW_INVALID_CERTIFICATES": "true" if checked is False else None,
        "AWS_SERVER_SIDE_ENCRYPTION": put.get("ServerSideEncryption"),
        "AWS_SSE_KMS_KEY_ID": put.get("SSEKMSKeyId"),
        "AWS_SSE_BUCKET_KEY_ENABLED": "true" if put.get("BucketKeyEnabled") else None,
        "AZURE_STORAGE_ACCOUNT_NAME": storage_options.get("account_name"),
    }
    return {name: str(value) for name, value in given.items() if value}


def keys_in_files() -> dict[str, str]:
    """The keys that this user has in AWS's files; none where the environment has some.

    Where an endpoint is given, deltalake does not look there, and asks the machine that it takes
    itself to run on.
    """
    if "AWS_ACCESS_KEY_ID" in os.environ:
        return {}
    profile: dict[str, str] = aws_files()[1]
    return profile


def endpoint_in_files() -> str | None:
    """The store that AWS's files name in place of AWS's own, as s3fs takes it and nobody else.

    A ledger at AWS's own would be apart from its rows.
    """
    config = os.path.expanduser(os.environ.get("AWS_CONFIG_FILE") or "~/.aws/config")
    if not os.path.isfile(config) or ENDPOINT not in Path(config).read_text(errors="replace"):
        return None  # without botocore, which takes its time to be imported
    files, profile = aws_files()
    services: dict[str, Any] = files.get("services", {}).get(profile.get("services"), {})
    return services.get("s3", {}).get(ENDPOINT) or profile.get(ENDPOINT)


def aws_files() -> tuple[dict[str, Any], dict[str, Any]]:
    """What AWS's files say, and the part of it that counts for this user."""
    import botocore.session

    session = botocore.session.Session()
    files: dict[str, Any] = session.full_config
    return files, files.get("profiles", {}).get(session.profile or "default", {})
