"""Reads rows of published files, which others may have moved or rewritten."""

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.protocol.ids import Mask
from tasks.protocol.layout import OutputFolder
from tasks.protocol.ledger_lines import LedgerFile
from tasks.publishing.output_rows import OutputFile, OutputReader

ROWS_AT_ONCE = 4_096
CHANGED = (
    "is not as it was published ({}): others have moved or rewritten it, as a table's compaction "
    "does, and its rows cannot be compared"
)


def kept_rows(
    reader: OutputReader, output: OutputFolder, published: LedgerFile, keep: Mask
) -> pa.Table:
    """Some rows of a published file, of which a part at a time is held.

    Raises:
        InvalidSpec: it is gone, or holds other rows than the ledger says.
    """
    place, folder = published.target(output), published.path.rpartition("/")[0]
    file = OutputFile(place, published.rows, folder, published.size)
    found, at = [], 0
    try:
        for rows in reader.pieces(file, ROWS_AT_ONCE):
            found.append(rows.filter(pa.array(keep[at : at + len(rows)])))
            at += len(rows)
    except (FileNotFoundError, pa.ArrowException) as error:
        raise InvalidSpec.at("sink.path", file.path, CHANGED.format(error)) from error
    if at != len(keep):
        problem = CHANGED.format(f"{at:,} rows instead of {len(keep):,}")
        raise InvalidSpec.at("sink.path", file.path, problem)
    return pa.concat_tables(found)


def joined(tables: list[pa.Table]) -> pa.Table | None:
    """Rows of several files; None where there are none."""
    return pa.concat_tables(tables, promote_options="permissive") if tables else None
