"""Between rows and a model's arrays: input columns to matrices, outputs to columns."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.counted import counted
from tasks.errors import InvalidSpec, UserCodeBroke
from tasks.kinds.column_types import is_any_list
from tasks.kinds.columns import column_to_numpy, is_blank, visible
from tasks.kinds.models.input_types import refuse_other_than_numbers
from tasks.kinds.models.odd_numbers import refuse_no_truth, refuse_overflow
from tasks.kinds.models.output_names import refuse_taken
from tasks.kinds.tensors import is_tensor
from tasks.kinds.user_arrays import array_from_numpy
from tasks.protocol.batch import RESERVED, ROW

ROWS_IN_CACHE = 1 << 14
"""Of a matrix of some columns: written a column at a time, it would go through memory each time."""
NO_NUMBERS = (
    "the model gave no numbers for this row: float16 may have overflowed; set resources.dtype to "
    "bfloat16 or float32"
)
Index = npt.NDArray[np.int64]
Columns = dict[str, pa.Array]


def column_of(rows: pa.Table, name: str, field: str = "model.column") -> pa.ChunkedArray:
    """The model's input column.

    Raises:
        InvalidSpec: it is not there.
    """
    if not rows.schema.get_all_field_indices(name):  # quick, of thousands of columns too
        raise InvalidSpec.at(field, name, f"is not among the columns {visible(rows)}")
    return rows[name]


def stacked(rows: pa.Table, name: str, field: str = "model.column") -> np.ndarray:
    """A column of numbers, lists or tensors as one array; the first dimension is rows.

    Raises:
        InvalidSpec: it is not there, or holds no numbers.
        ValueError: a row has none, or one of another shape.
    """
    column = column_of(rows, name, field)
    if not is_tensor(column.type):
        refuse_other_than_numbers(innermost(column.type), name, field)
    if column.null_count or lacks_items(column):
        raise ValueError(f"column {name!r} is empty in this row, or a part of it is")
    if pa.types.is_decimal(innermost(column.type)):
        column = column.cast(in_floats(column.type))
    array = column_to_numpy(column)
    if array.dtype == object:
        raise ValueError(f"column {name!r} has values of different shapes")
    return array


def lacks_items(column: pa.ChunkedArray) -> bool:
    """Whether a list has empty items, which would show as NaN."""
    if isinstance(column.type, pa.FixedShapeTensorType):
        column = pa.chunked_array([column.combine_chunks().storage])
    while is_any_list(column.type):
        column = pa.chunked_array([column.combine_chunks().flatten()])
    return bool(column.null_count)


def innermost(kind: pa.DataType) -> pa.DataType:
    """The type of what lists and tensors hold, however deep, and of what stands for categories."""
    of_others = (pa.FixedShapeTensorType, pa.DictionaryType)
    while is_any_list(kind) or isinstance(kind, of_others):
        kind = kind.value_type
    return kind


def in_floats(kind: pa.DataType) -> pa.DataType:
    """The type of the same lists, of floats."""
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(in_floats(kind.value_type), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(in_floats(kind.value_type))
    return pa.list_(in_floats(kind.value_type)) if is_any_list(kind) else pa.float64()


def matrix(
    rows: pa.Table,
    names: Sequence[str],
    *,
    missing: bool,
    field: str = "model.columns",
    dtype: npt.DTypeLike = np.float32,
) -> np.ndarray:
    """Columns of numbers side by side, (rows, columns); empty values are NaN.

    Args:
        rows: to take them from.
        names: of the columns, in the model's order.
        missing: whether the model takes empty values.
        field: of the spec, for messages.
        dtype: of the result; whole numbers must be whole and small enough, fractions are rounded.

    Raises:
        InvalidSpec: a column is not there, or holds no numbers.
        ValueError: a value is empty, and the model takes none; or it is no whole number.
    """
    out = np.empty((len(rows), len(names)), dtype)
    kind, whole = pa.from_numpy_dtype(out.dtype), out.dtype.kind in "iu"
    for name in names:
        column = column_of(rows, name, field)
        if not is_blank(column):
            refuse_other_than_numbers(column.type, name, field)
        if column.null_count and not missing:
            raise ValueError(f"column {name!r} is empty in this row; the model needs a value")
    for start in range(0, len(rows), ROWS_IN_CACHE):
        part = slice(start, start + ROWS_IN_CACHE)
        for at, name in enumerate(names):
            out[part, at] = numbers_of(rows[name][part], name, kind, exactly=whole)
    return out


def numbers_of(
    column: pa.ChunkedArray, name: str, kind: pa.DataType, *, exactly: bool
) -> np.ndarray:
    """A column's numbers in another type.

    Raises:
        ValueError: one cannot be had in it exactly, and that is wanted; or one is beyond it.
    """
    if pa.types.is_boolean(kind) and not pa.types.is_boolean(column.type):
        refuse_no_truth(column.to_numpy(), name)
    try:
        numbers = np.asarray(castable(column, kind).cast(kind, safe=exactly).to_numpy())
    except pa.ArrowInvalid as error:
        raise no_whole(name, kind, error) from error
    if numbers.dtype.kind == "f" and np.isinf(numbers).any():
        refuse_overflow(column.cast(pa.float64(), safe=False).to_numpy(), numbers, name)
    return numbers


def castable(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """A column's numbers as Arrow can cast them to a type: not all types have a way to all others.

    Not to float16 and truth values, from decimals and the like; nor from small decimals, which it
    compares with the largest whole numbers in their own type.
    """
    own = column.type
    is_odd = pa.types.is_decimal(own) or pa.types.is_boolean(own) or pa.types.is_float16(own)
    if is_odd and own != kind and (pa.types.is_float16(kind) or pa.types.is_boolean(kind)):
        return column.cast(pa.float64(), safe=False)
    if pa.types.is_decimal(own) and own.bit_width < pa.decimal128(1).bit_width:
        return column.cast(pa.decimal128(own.precision, own.scale))
    return column


def no_whole(name: str, kind: pa.DataType | np.dtype, what: object) -> ValueError:
    """What to say of a row whose value is none that a model of whole numbers takes."""
    return ValueError(
        f"column {name!r} has a value that is not {kind}, which the model needs: {what}; convert "
        "it in a step, or use another column"
    )


def refuse_moved(columns: Sequence[str], own: Sequence[str]) -> None:
    """See that no column which bears the name of one of the model's inputs goes to another.

    Args:
        columns: of the rows, in the order of the inputs.
        own: names of the inputs; empty: the model has none.

    Raises:
        InvalidSpec: one does.
    """
    for name, wanted in zip(columns, own, strict=False):
        if name != wanted and name in own:
            problem = f"have {name!r} where the model reads {wanted!r}: its order is "
            problem += f"{', '.join(own)}; list them in that order, or leave columns out"
            raise InvalidSpec.at("model.columns", [*columns], problem)


def prediction_column(values: np.ndarray, rows: int) -> Columns:
    """A model's output as `prediction`: a number a row, or a list of fixed size.

    Raises:
        UserCodeBroke: it has not one value for each row.
    """
    if values.ndim == 0 or len(values) != rows:
        problem = f"the model made an output of shape {values.shape} from {counted(rows, 'row')}"
        raise UserCodeBroke(problem)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    return {"prediction": array_from_numpy(values)}


def label_columns(scores: np.ndarray, labels: Sequence[str], top_k: int = 1) -> Columns:
    """The best labels of each row and their scores; lists where more than one is wanted.

    Args:
        scores: (rows, labels); of equal ones the first is the better.
        labels: names, in the scores' order.
        top_k: labels to give for a row.

    Raises:
        InvalidSpec: there are more labels than scores, or fewer.
        ValueError: a row's best score is no number.
    """
    wide = scores.shape[1] if scores.ndim == 2 else 1
    if wide != len(labels):
        gives = f"the model gives {counted(wide, 'score')} a row"
        problem = f"names {counted(len(labels), 'label')}, and {gives}"
        raise InvalidSpec.at("model.labels", list(labels), problem)
    if not np.isfinite(scores.max(axis=1)).all():  # of a hopeless label, -inf may be the logarithm
        raise ValueError(NO_NUMBERS)
    best = best_of(scores, top_k)
    names = pa.array(labels, pa.string()).take(pa.array(best.ravel()))
    values = pa.array(np.take_along_axis(scores, best, axis=1).ravel(), pa.float32())
    if top_k > 1:
        offsets = pa.array(np.arange(len(best) + 1) * best.shape[1], pa.int32())
        names = pa.ListArray.from_arrays(offsets, names)
        values = pa.ListArray.from_arrays(offsets, values)
    return {"predicted_label": names, "predicted_score": values}


def best_of(scores: np.ndarray, count: int) -> npt.NDArray[np.int64]:
    """Positions of the best scores of each row, the best first; of equal ones the first.

    A model of a thousand labels gives a GPU's batches faster than they can be sorted.
    """
    if count == 1:
        return scores.argmax(axis=1)[:, None]
    if count >= scores.shape[1]:
        return np.argsort(-scores, axis=1, kind="stable")
    last = -np.partition(-scores, count - 1, axis=1)[:, count - 1 : count]
    better, equal = scores > last, scores == last
    equal &= equal.cumsum(axis=1) <= count - better.sum(axis=1, keepdims=True)
    chosen = np.nonzero(better | equal)[1].reshape(-1, count)
    order = np.argsort(-np.take_along_axis(scores, chosen, axis=1), axis=1, kind="stable")
    return np.take_along_axis(chosen, order, axis=1)


def with_columns(rows: pa.Table, outputs: Columns) -> pa.Table:
    """Rows with output columns and without what was needed only on the way.

    Raises:
        InvalidSpec: an input column has an output column's name.
    """
    helpers = [n for n in rows.column_names if n.startswith(RESERVED) and n != ROW]
    rows = rows.drop_columns(helpers)
    refuse_taken(outputs, rows.column_names)
    for name, values in outputs.items():
        rows = rows.append_column(name, values)
    return rows


def slices(count: int, size: int) -> Iterator[Index]:
    """Positions 0 to count - 1 in pieces."""
    for start in range(0, count, size):
        yield np.arange(start, min(start + size, count))


def in_slices(predict: Callable[[pa.Table], np.ndarray], rows: pa.Table, size: int) -> np.ndarray:
    """What a function makes of rows, which it gets so many at a time; without any, none."""
    starts = range(0, max(1, len(rows)), size)
    parts = [predict(rows.slice(start, size)) for start in starts]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
