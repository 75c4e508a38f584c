"""From columns to the arrays that a model of tensors is called with."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.kinds.models.arrays import column_of, matrix, no_whole, stacked
from tasks.kinds.models.input_types import is_number
from tasks.kinds.models.model import Placement
from tasks.kinds.models.odd_numbers import refuse_no_truth, refuse_overflow

Arrays = dict[str, np.ndarray]
Bindings = Mapping[str, str | list[str]]
"""The columns of each of the model's inputs: one as it is, or several side by side."""
ALONE = ""
"""Name of the input of a model that has one."""
ROWS_OF_NUMBERS = 256
ROWS_OF_IMAGES = 32


@dataclass(frozen=True)
class RowLimits:
    """How many rows a model takes at a time."""

    least: int = 1
    most: int | None = None
    """None: any number."""


@dataclass(frozen=True)
class Input:
    """What a model says of one of its inputs."""

    dtype: np.dtype | None = None
    """None: as the column has it."""
    shape: tuple[int | None, ...] | None = None
    """Rows first; None: any."""
    rows: RowLimits = RowLimits()
    """Where the shape leaves it open."""


def bound(bindings: Bindings, inputs: Mapping[str, Input], path: str) -> dict[str, str | list[str]]:
    """Bindings by the names of the model's own inputs, in its order.

    Args:
        bindings: as the spec gives them.
        inputs: as the model declares them; empty: it does not.
        path: of the model, for messages.

    Raises:
        InvalidSpec: an input has no column, or there is no such input.
    """
    if not inputs:
        return dict(bindings)
    if ALONE in bindings:
        if len(inputs) > 1:
            problem = f"has the inputs {[*inputs]}: set the columns of each in model.inputs"
            raise InvalidSpec.at("model.path", path, problem)
        return dict.fromkeys(inputs, bindings[ALONE])
    if set(bindings) != set(inputs):
        problem = f"do not match the model's inputs: it has {[*inputs]}"
        raise InvalidSpec.at("model.inputs", [*bindings], problem)
    return {name: bindings[name] for name in inputs}


def array_of(rows: pa.Table, columns: str | list[str], wanted: Input) -> np.ndarray:
    """One input for all rows; the first dimension is rows.

    Raises:
        InvalidSpec: a column is not there, holds no numbers, or there are too many or few.
        ValueError: a row's value is empty, or none that the model takes.
    """
    field = "model.inputs" if isinstance(columns, str) else "model.columns"
    if wanted.dtype == object:
        (name,) = [columns] if isinstance(columns, str) else columns
        return reshaped(texts(rows, name, field), name, wanted)
    if isinstance(columns, str):
        return fitted(stacked(rows, columns, field), columns, wanted)
    if len(columns) == 1 and not is_number(column_of(rows, columns[0], field).type):
        return fitted(stacked(rows, columns[0], field), columns[0], wanted)
    refuse_other_width(columns, wanted)
    values = matrix(rows, columns, missing=False, field=field, dtype=wanted.dtype or np.float32)
    return reshaped(values, ", ".join(columns), wanted)


def texts(rows: pa.Table, name: str, field: str) -> np.ndarray:
    """A column of strings.

    Raises:
        InvalidSpec: it is not there.
        ValueError: a row's is empty.
    """
    column = column_of(rows, name, field)
    if column.null_count:
        raise ValueError(f"column {name!r} is empty in this row")
    return column.cast(pa.string()).to_numpy()


def refuse_other_width(columns: list[str], wanted: Input) -> None:
    """See that there are as many columns as the model takes numbers.

    Raises:
        InvalidSpec: there are not.
    """
    width = wanted.shape[-1] if wanted.shape and len(wanted.shape) > 1 else None
    if width not in (None, len(columns)):
        problem = (
            f"names {counted(len(columns), 'column')}, but the model takes {width} values a row"
        )
        raise InvalidSpec.at("model.columns", columns, problem)


def fitted(values: np.ndarray, name: str, wanted: Input) -> np.ndarray:
    """Values in the type and shape that the model wants.

    Raises:
        ValueError: a row's do not fit.
    """
    values = reshaped(values, name, wanted)
    if wanted.dtype is None or wanted.dtype == values.dtype:
        return values
    if wanted.dtype == np.bool_:
        refuse_no_truth(values, name)
    with np.errstate(invalid="ignore", over="ignore"):  # what they become is found out below
        cast = values.astype(wanted.dtype)
    if wanted.dtype.kind == "f":
        refuse_overflow(values, cast, name)
    if wanted.dtype.kind in "iu" and (other := cast != values).any():
        raise no_whole(name, wanted.dtype, values[other][0])
    return cast


def reshaped(values: np.ndarray, name: str, wanted: Input) -> np.ndarray:
    """Values with the model's number of dimensions: a number is a list of one, and the reverse.

    Raises:
        ValueError: they are of another shape.
    """
    if wanted.shape is None:
        return values
    given, shape = values.shape[1:], wanted.shape[1:]
    if not given and len(shape) == 1:
        values = values[:, None]
    elif given == (1,) and not shape:
        values = values[:, 0]
    given = values.shape[1:]
    fits = [want in (None, got) for got, want in zip(given, shape, strict=False)]
    if len(given) != len(shape) or not all(fits):
        dimensions = " x ".join("any" if each is None else str(each) for each in shape)
        raise ValueError(
            f"column {name!r} has values of shape {given}, but the model takes {dimensions or 1}"
        )
    return values


def row_limits(inputs: Mapping[str, Input]) -> RowLimits:
    """How many rows the model takes at a time: what suits all of its inputs."""
    found = [limits_of(each) for each in inputs.values()]
    return RowLimits(
        least=max((each.least for each in found), default=1),
        most=min((each.most for each in found if each.most is not None), default=None),
    )


def limits_of(wanted: Input) -> RowLimits:
    """Those of one input; where its shape names one number, it is no other."""
    fixed = wanted.shape[0] if wanted.shape else None
    return wanted.rows if fixed is None else RowLimits(fixed, fixed)


def batches(arrays: Arrays, placement: Placement, limits: RowLimits) -> Iterator[Arrays]:
    """Rows in pieces; where the model takes no fewer than some, the last is filled up.

    Args:
        arrays: of all rows.
        placement: says how many rows the user asked for, and what memory has room for.
        limits: of the model.
    """
    count = len(next(iter(arrays.values())))
    at = 0
    while at < count:
        size = rows_in_batch(arrays, placement, limits)
        piece = {name: values[at : at + size] for name, values in arrays.items()}
        yield {name: filled_up(values, limits.least) for name, values in piece.items()}
        at += size


def rows_in_batch(arrays: Mapping[str, Any], placement: Placement, limits: RowLimits) -> int:
    """Rows in a piece, but the last.

    Args:
        arrays: or tensors, rows first.
        placement: says how many rows the user asked for, and what memory has room for.
        limits: of the model.
    """
    are_images = any(each.ndim > 2 for each in arrays.values())
    size = max(limits.least, placement.rows(ROWS_OF_IMAGES if are_images else ROWS_OF_NUMBERS))
    return size if limits.most is None else min(size, limits.most)


def filled_up(values: np.ndarray, rows: int) -> np.ndarray:
    """Values with the last row repeated until there are so many."""
    if len(values) >= rows:
        return values
    return np.concatenate([values, np.repeat(values[-1:], rows - len(values), axis=0)])
