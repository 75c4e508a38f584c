"""Reads rows of published files, which others may have moved or rewritten."""

import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.column_types import is_text
from tasks.kinds.lossless import keeps_values, kind_of_values
from tasks.protocol.ids import Mask
from tasks.protocol.layout import OutputFolder
from tasks.protocol.ledger_lines import LedgerFile
from tasks.publishing.output_rows import CHANGED, OutputFile, OutputReader

ROWS_AT_ONCE = 4_096


def kept_rows(
    reader: OutputReader, output: OutputFolder, published: LedgerFile, keep: Mask
) -> pa.Table:
    """Some rows of a published file, of which a part at a time is held.

    Raises:
        InvalidSpec: it is gone, or not as the ledger says; says what is wrong with it.
    """
    place, folder = published.target(output), published.path.rpartition("/")[0]
    file = OutputFile(place, published.rows, folder, published.size)
    found, at = [], 0
    try:
        for rows in reader.pieces(file, ROWS_AT_ONCE):
            own = pa.array(keep[at : at + len(rows)])
            found.append(rows.slice(0, len(own)).filter(own))
            at += len(rows)
    except FileNotFoundError as error:
        raise InvalidSpec.at("sink.path", file.path, CHANGED.format(error)) from error
    if at != len(keep):
        problem = f"{at:,} rows instead of {len(keep):,}"
        raise InvalidSpec.at("sink.path", file.path, CHANGED.format(problem))
    kept = pa.concat_tables(found)
    if problem := other_type(kept, reader.types_read):
        raise InvalidSpec.at("sink.path", file.path, CHANGED.format(problem))
    return kept


def other_type(rows: pa.Table, were: pa.Schema) -> str:
    """What to say of a column whose values are of another type than they were; empty of none."""
    for each in were:
        kind = kind_of_values(rows[each.name])
        # Sinks that write text give objects as it where they know no type of theirs.
        is_untold = pa.types.is_null(each.type) or (is_text(kind) and pa.types.is_nested(each.type))
        if not (is_untold or keeps_values(kind, each.type, all_fields=False)):
            return f"its column {each.name!r} is {rows[each.name].type}, but was {each.type}"
    return ""
