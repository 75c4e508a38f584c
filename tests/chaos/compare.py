"""Published rows as multisets, as readers see them: by listing the folder, by the ledger."""

import io
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.protocol.delta_ledger import DeltaLedger
from tasks.protocol.layout import OutputFolder
from tasks.protocol.rewriting import read_published
from tasks.protocol.storage import open_storage

Rows = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Difference:
    """How the published rows differ from those that should be."""

    rows: int
    lost: int
    doubled: int
    """Also rows that should not be there at all."""


def in_folder(output: Path) -> Rows:
    """Rows of all files in a folder, as DuckDB or Polars would see them."""
    return rows_of([pq.ParquetFile(file).read() for file in sorted(output.rglob("*.parquet"))])


def by_ledger(output: Path) -> Rows:
    """Rows of the files that the ledger names, also while they still lie where they were staged."""
    folders = OutputFolder(str(output))
    files = DeltaLedger(folders.ledger).look().files.values()
    storage, _ = open_storage(str(output))
    contents = [read_published(storage, folders, file) for file in files]
    return rows_of([pq.read_table(io.BytesIO(content)) for content in contents])


def rows_of(tables: list[pa.Table]) -> Rows:
    """Rows of tables, with their columns by name."""
    rows: Rows = Counter()
    for table in tables:
        columns = [table[name].to_pylist() for name in sorted(table.column_names)]
        rows.update(zip(*columns, strict=True))
    return rows


def compare(output: Path, expected: Rows) -> Difference:
    """The worse of what a listing shows and what the ledger shows."""
    seen = (in_folder(output), by_ledger(output))
    return Difference(
        rows=seen[1].total(),
        lost=max((expected - rows).total() for rows in seen),
        doubled=max((rows - expected).total() for rows in seen),
    )


def fingerprint(output: Path) -> dict[str, tuple[int, int]]:
    """Every file of an output and of its ledger, with time and size: a no-op changes none."""
    ledger = Path(OutputFolder(str(output)).ledger)
    files = [*output.rglob("*"), *ledger.rglob("*")]
    return {str(f): (f.stat().st_mtime_ns, f.stat().st_size) for f in files if f.is_file()}
