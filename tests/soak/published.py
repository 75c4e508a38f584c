"""What lies at an output, as others read it: none of the project's own code is asked."""

import csv
import io
import json
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from tests.soak.oracle import Published, multiset
from tests.soak.specs import Site

TABLES = ("delta", "iceberg", "lance")


@dataclass(frozen=True)
class Output:
    """An output and its state, beside each other."""

    kind: str
    path: str
    files: Any
    """The filesystem, of fsspec."""
    table_options: dict[str, str] | None = None

    def find(self, folder: str) -> list[str]:
        """All files below a folder."""
        return sorted(self.files.find(f"{self.path}{folder}"))

    def read(self, path: str) -> bytes:
        """A file's content."""
        data: bytes = self.files.cat_file(path)
        return data

    @property
    def rows(self) -> Counter[Published]:
        """All published rows."""
        if self.kind in TABLES:
            return multiset(self.table().to_pylist())
        names = [each for each in self.find("") if not each.endswith("/_SUCCESS")]
        return multiset(row for name in names for row in self.rows_in(name))

    def rows_in(self, name: str) -> list[dict[str, Any]]:
        """A file's rows, with the columns that its folders stand for."""
        rows = READERS[self.kind](self.read(name))
        folders = name.removeprefix(self.path.lstrip("/")).split("/")[:-1]
        parts = [folder.split("=", 1) for folder in folders if "=" in folder]
        return [{**row, **{key: unquote(value) for key, value in parts}} for row in rows]

    def table(self) -> pa.Table:
        """The rows of a table; none where there is none yet."""
        if not self.files.exists(self.path):
            return pa.table({})
        return TABLE_READERS[self.kind](self)

    def lines(self) -> list[dict[str, Any]]:
        """The ledger's lines; none before the first publication."""
        if not self.files.exists(f"{self.path}.state/ledger/_delta_log"):
            return []
        ledger = DeltaTable(self.ledger, storage_options=self.table_options)
        return ledger.to_pyarrow_dataset().to_table(use_threads=False).to_pylist()

    @property
    def ledger(self) -> str:
        """Where the ledger lies, as deltalake wants it."""
        scheme = "s3://" if self.table_options else ""
        return f"{scheme}{self.path}.state/ledger"

    def set_aside(self) -> list[dict[str, Any]]:
        """Rows of all quarantine files."""
        found = [self.read(name) for name in self.find(".state/quarantine")]
        return [row for data in found for row in pq.read_table(io.BytesIO(data)).to_pylist()]

    def manifests(self) -> dict[str, dict[str, Any]]:
        """Manifests by run."""
        found = [json.loads(self.read(name)) for name in self.find(".state/manifests")]
        return {each["run_id"]: each for each in found}

    def staged(self) -> list[str]:
        """Files that still lie where runs have staged them."""
        return [name for name in self.find(".state/runs") if "/staging/" in name]

    def fingerprint(self) -> dict[str, Any]:
        """Every published file, every entry: a run that does nothing changes none."""
        self.files.invalidate_cache()
        names = [*self.find(""), *self.find(".state/ledger")]
        stats = {name: self.files.info(name) for name in names}
        return {n: (s["size"], s.get("ETag") or s.get("mtime")) for n, s in stats.items()}


def output_of(kind: str, site: Site, path: str, endpoint: str) -> Output:
    """An output, past all that is between the runs and the storage."""
    import fsspec

    options: dict[str, Any] = {}
    table_options = None
    if site.options:
        options = {"endpoint_url": endpoint, "use_listings_cache": False}
        table_options = {"AWS_ENDPOINT_URL": endpoint, "AWS_ALLOW_HTTP": "true"}
    files, found = fsspec.url_to_fs(path, **options)
    return Output(kind, found, files, table_options)


def csv_rows(data: bytes) -> list[dict[str, Any]]:
    """Rows of a CSV file."""
    return [*csv.DictReader(io.StringIO(data.decode(), newline=""))]


def jsonl_rows(data: bytes) -> list[dict[str, Any]]:
    """Rows of a file of JSON lines."""
    return [json.loads(line) for line in data.decode().split("\n") if line]


def parquet_rows(data: bytes) -> list[dict[str, Any]]:
    """Rows of a Parquet file, read without its folder."""
    rows: list[dict[str, Any]] = pq.ParquetFile(io.BytesIO(data)).read().to_pylist()
    return rows


READERS = {"csv": csv_rows, "jsonl": jsonl_rows, "parquet": parquet_rows}


def read_delta(output: Output) -> pa.Table:
    """By deltalake."""
    return DeltaTable(output.path).to_pyarrow_dataset().to_table(use_threads=False)


def read_iceberg(output: Output) -> pa.Table:
    """By the metadata file that its catalog names: others may be of commits that were lost."""
    from pyiceberg.table import StaticTable

    with closing(sqlite3.connect(f"{output.path}.catalog.db")) as catalog:
        ((newest,),) = catalog.execute("select metadata_location from iceberg_tables").fetchall()
    return StaticTable.from_metadata(newest).scan().to_arrow()


def read_lance(output: Output) -> pa.Table:
    """By lance."""
    import lance

    return lance.dataset(output.path).to_table()


TABLE_READERS = {"delta": read_delta, "iceberg": read_iceberg, "lance": read_lance}
