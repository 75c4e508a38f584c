"""What an output holds, as its ledger says; a folder's listing may show a publication half made."""

from typing import Any

import numpy as np
import pyarrow as pa

from tasks.ledgers import ledger_of
from tasks.outputs import output_of
from tasks.protocol.asked_at_once import fetched
from tasks.publishing.output_rows import OutputFile, OutputReader
from tasks.ray_job.writing import QUARANTINE
from tasks.run_folder import published_schema
from tasks.spec import BatchInferenceSpec

ORDER = ["__version", "__row"]


def published_rows(spec: BatchInferenceSpec) -> pa.Table:
    """All published rows, in the order of versions, and of the inputs in each.

    A table without columns where nothing is published.
    """
    storage, output = output_of(spec)
    seen = ledger_of(spec).look()
    stored = published_schema(seen, replaces=False)
    if stored is None or not seen.files:
        return pa.table({})
    schema = pa.ipc.read_schema(pa.py_buffer(stored))
    reader = OutputReader(storage, spec.sink, schema, schema.names)
    files = list(seen.files.values())
    found = reader.stream(
        OutputFile(file.target(output), file.rows, file.path.rpartition("/")[0], file.size)
        for file in files
    )
    tables = [
        rows.append_column("__version", pa.repeat(file.version, file.rows)).append_column(
            "__row", pa.array(file.ids.ids(), pa.int64())
        )
        for file, rows in zip(files, found, strict=True)
    ]
    return in_order(pa.concat_tables(tables, promote_options="permissive")).drop_columns(ORDER)


def in_order(rows: pa.Table) -> pa.Table:
    """Rows by version and place."""
    try:
        return rows.sort_by([(name, "ascending") for name in ORDER])
    except pa.ArrowInvalid:  # all texts of a column are joined for it, and no array has 2 GiB
        version, row = (rows[name].to_numpy() for name in ORDER)
        order = np.lexsort((row, version))
        runs = np.split(order, np.flatnonzero(np.diff(order) != 1) + 1)
        return pa.concat_tables(rows.slice(run[0], len(run)) for run in runs)


def rows_set_aside(spec: BatchInferenceSpec) -> list[dict[str, Any]]:
    """Rows in the quarantine with their reasons, by source and row."""
    storage, output = output_of(spec)
    paths = [file.target(output) for file in ledger_of(spec).look().quarantine.values()]
    rows = [
        row
        for content in fetched(storage.read, paths)
        for row in QUARANTINE.decode(content).to_pylist()
    ]
    return sorted(rows, key=lambda row: (row["source"], row["row"]))
