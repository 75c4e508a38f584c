"""Outputs that are published without a run."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.outputs import output_of
from tasks.protocol.ids import IdRuns
from tasks.protocol.ledger import Entry, Snapshot
from tasks.protocol.ledger_lines import LINE_SCHEMA, LedgerFile
from tasks.searching.published import PublishedVectors
from tasks.spec import BatchInferenceSpec
from tasks.spec_file import parse_spec

NO_INPUTS = LINE_SCHEMA.empty_table()


def spec_at(folder: Path, **sink: Any) -> BatchInferenceSpec:
    """A spec whose output is there."""
    return parse_spec(
        {
            "source": {"kind": "parquet", "path": str(folder / "in")},
            "model": {"kind": "python", "class": "nobody:Nothing"},
            "sink": {"kind": "parquet", "path": str(folder / "out"), **sink},
            "cluster": {"kind": "inline"},
        }
    )


def published(
    spec: BatchInferenceSpec, tables: list[pa.Table], column: str = "embedding"
) -> PublishedVectors:
    """Tables as published files, two a version; those of a partitioned sink as many parts each."""
    storage, output = output_of(spec)
    files = []
    for number, table in enumerate(tables):
        for at, part in enumerate(spec.sink.parts(table, np.arange(len(table)))):
            version = 1 + number // 2
            path = f"{part.partition}part-{version}-{number % 2}-{at}{part.suffix}"
            size, ids = len(part.data), IdRuns.of(part.ids)
            files.append(LedgerFile(path, "", "run", size, ids, version=version))
            storage.write(files[-1].target(output), part.data)
    return PublishedVectors(spec, seen_with(files), tables[0].schema, column)


def seen_with(files: list[LedgerFile]) -> Snapshot:
    """A ledger in which these files are published."""
    entries = [
        Entry(f"{v}", "run", NO_INPUTS, files=tuple(f for f in files if f.version == v)).lines(v)
        for v in sorted({file.version for file in files})
    ]
    return Snapshot(len(entries), pa.concat_tables(entries))
