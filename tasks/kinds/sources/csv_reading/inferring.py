"""Types of CSV columns, by their first values."""

import io
import logging
from collections.abc import Sequence
from functools import partial

import pyarrow as pa
import pyarrow.csv as pc

from tasks.kinds.column_types import NO_VALUE
from tasks.kinds.sources.csv_reading.rows import Dialect
from tasks.kinds.sources.doubles import has_wrapped, without_overlong, would_be_rounded

logger = logging.getLogger(__name__)


def inferred(strings: pa.Table, dialect: Dialect) -> pa.Schema:
    """The types of values that were read as strings."""
    written, columns = io.BytesIO(), [*map(without_overlong, strings.columns)]
    pc.write_csv(pa.table(columns, names=strings.column_names), written)
    written.seek(0)
    conversion = dialect.conversion()
    fields = pc.read_csv(
        written,
        read_options=pc.ReadOptions(use_threads=False, block_size=written.getbuffer().nbytes + 1),
        parse_options=pc.ParseOptions(newlines_in_values=True),
        convert_options=conversion,
    ).schema
    settle = partial(settled, nulls=conversion.null_values)
    return pa.schema(list(map(settle, fields, columns)))


def settled(field: pa.Field, values: pa.ChunkedArray, nulls: Sequence[str]) -> pa.Field:
    """A column as text where it has no value, or such as are to stay as they are written.

    Args:
        field: what Arrow makes of the values.
        values: as they are written.
        nulls: texts that mean null.
    """
    if pa.types.is_null(field.type):
        return pa.field(field.name, pa.string(), metadata=NO_VALUE)
    is_whole = pa.types.is_integer(field.type)
    is_text = has_wrapped(values) if is_whole else would_be_rounded(field, values, nulls)
    return field.with_type(pa.string()) if is_text else field


def tell_of_text(path: str, columns: Sequence[pa.Field]) -> None:
    """Say which columns are text only because the first file has no value in them.

    Args:
        path: the file that has.
        columns: as that file alone would have them.
    """
    logger.warning(
        "the first file has no value in a column that has some in %s, and is read as text: to have "
        "it as what it is there (%s), name its type in source.types",
        path,
        ", ".join(f"{each.name}: {each.type}" for each in columns),
    )
