"""Rows whose arrays differ in shape: a model gets those of one shape together."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.kinds.column_types import is_list
from tasks.kinds.columns import in_one
from tasks.kinds.mixed_tensors import with_one_kind_of_tensors
from tasks.kinds.models.arrays import Columns, Index
from tasks.kinds.tensors import is_tensor


def by_shape(
    outputs_of: Callable[[pa.Table], Columns], rows: pa.Table, names: Sequence[str]
) -> Columns:
    """Output columns of rows, those of one shape at a time, in the order of the rows.

    Args:
        outputs_of: what the model makes of rows of one shape.
        rows: of any shapes.
        names: of the columns that the model reads.
    """
    inputs = rows.select([name for name in dict.fromkeys(names) if name in rows.column_names])
    groups = of_one_shape(inputs)
    if len(groups) == 1:
        return outputs_of(rows)
    tables = [pa.table(outputs_of(inputs.take(pa.array(places)))) for places in groups]
    together = pa.concat_tables(with_one_kind_of_tensors(tables), promote_options="permissive")
    together = together.take(pa.array(np.argsort(np.concatenate(groups))))
    return {name: in_one(together[name]) for name in together.column_names}


def of_one_shape(rows: pa.Table) -> list[Index]:
    """Where the rows lie that look alike by the sizes of their arrays; in one group if all do.

    The smallest group comes first: it may be a row that the model does not take, and what others
    have been made of by then would be made again.
    """
    sizes = [each for column in rows.columns for each in sizes_of(column)]
    if all((each == each[:1]).all() for each in sizes):
        return [np.arange(len(rows))]
    _, which, counts = np.unique(
        np.stack(sizes, axis=1), axis=0, return_inverse=True, return_counts=True
    )
    return sorted(np.split(np.argsort(which, kind="stable"), np.cumsum(counts)[:-1]), key=len)


def sizes_of(column: pa.ChunkedArray) -> Iterator[np.ndarray]:
    """What tells a column's shapes apart, row by row.

    Of a list how long it is, how long the first list in it, and so on: where others in it are of
    another length, the model takes no such row. Of a tensor a number for its shape.
    """
    if is_tensor(column.type):
        numbers: dict[str, int] = {}
        # Chunk by chunk: in one, all pixels would be copied.
        shapes = chain.from_iterable(each.field("shape").to_pylist() for each in column.chunks)
        yield np.array([numbers.setdefault(str(shape), len(numbers)) for shape in shapes])
        return
    array = in_one(column)
    first = np.arange(len(array))
    while is_list(array.type) and len(array):
        first = np.minimum(first, len(array) - 1)  # behind the last: an empty list has none
        yield pc.list_value_length(array).fill_null(-1).to_numpy()[first]
        starts = array.offsets.to_numpy()
        array = array.values.slice(starts[0], starts[-1] - starts[0])
        first = starts[first] - starts[0]
