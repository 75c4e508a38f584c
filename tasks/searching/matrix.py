"""Columns of vectors as matrices."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.errors import InvalidSpec
from tasks.kinds.column_types import is_any_list
from tasks.kinds.columns import in_one
from tasks.searching.scoring import Matrix, Rows

DEFAULT_COLUMN = "embedding"


def vector_column(schema: pa.Schema, wanted: str | None) -> str:
    """The column to search in.

    Args:
        schema: of the output.
        wanted: as the call names it; None: `embedding`, or the only column of vectors.

    Raises:
        InvalidSpec: there is none, or it cannot be told which; names those there are.
    """
    found = [each.name for each in schema if is_vector(each.type)]
    if wanted is None and DEFAULT_COLUMN in found:
        return DEFAULT_COLUMN
    if wanted is None and len(found) == 1:
        return found[0]
    if wanted in found:
        return str(wanted)
    if not found:
        raise InvalidSpec(
            "column: no column of this output has vectors: search the output of an embedding model"
        )
    if wanted is None:
        raise InvalidSpec(
            f"column: several columns of this output have vectors: choose one of {found}"
        )
    raise InvalidSpec.at("column", wanted, f"must be a column with vectors: {found}")


def is_vector(kind: pa.DataType) -> bool:
    """Whether a column's values are lists of floats."""
    return is_any_list(kind) and pa.types.is_floating(kind.value_type)


def width_of(kind: pa.DataType) -> int | None:
    """Numbers in each vector; None where these may differ."""
    return kind.list_size if pa.types.is_fixed_size_list(kind) else None


def as_matrix(column: pa.ChunkedArray, width: int, kind: pa.DataType) -> tuple[Matrix, Rows]:
    """The vectors of a column that are of this width.

    Args:
        column: as it is read.
        width: numbers in a vector.
        kind: the column's type as it was before it was written, which text does not keep.

    Returns:
        The vectors, (n, width), and where in the column each is. Numbers missing in one are NaN.
    """
    values = in_one(column)
    fits = pc.and_(values.is_valid(), pc.equal(pc.list_value_length(values), width))
    rows = np.flatnonzero(fits.fill_null(False).to_numpy(zero_copy_only=False))
    if len(rows) < len(values):
        values = values.take(pa.array(rows))
    numbers = values.flatten().cast(kind.value_type, safe=False)
    return numbers.to_numpy(zero_copy_only=False).reshape(len(rows), width), rows
