"""Gives an estimator its rows as it was trained on them; makes columns of what it returns."""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.kinds.column_types import is_any_list, is_text
from tasks.kinds.columns import is_blank, to_pandas
from tasks.kinds.models.arrays import column_of, refuse_moved, stacked
from tasks.kinds.models.input_types import refuse_other_than_numbers

if TYPE_CHECKING:
    import pandas as pd
    from threadpoolctl import ThreadpoolController


Method = Callable[[Any], Any]
NO_FRAME = ("only integers, slices", "Specifying the columns using strings is only supported")
"""How NumPy's error begins where a column of an array is asked for by name, and scikit-learn's."""


def limit_threads(estimator: Any, num_threads: int) -> None:
    """Give every part of an estimator that counts its own workers so many threads."""
    names = [name for name in estimator.get_params() if name.split("__")[-1] == "n_jobs"]
    estimator.set_params(**dict.fromkeys(names, num_threads))


@dataclass
class Threads:
    """Bounds the threads of the libraries that a method of an estimator computes with."""

    count: int
    libraries: "ThreadpoolController | None" = None
    """To look for them takes as long as to predict thousands of rows."""
    modules: int = 0
    """Loaded by then: others may bring more libraries."""

    @contextmanager
    def limited(self) -> Iterator[None]:
        """For one call."""
        from threadpoolctl import ThreadpoolController

        if self.libraries is None or self.modules != len(sys.modules):
            self.libraries, self.modules = ThreadpoolController(), len(sys.modules)
        with self.libraries.limit(limits=self.count):
            yield


def input_names(estimator: Any, columns: list[str]) -> list[str]:
    """Columns that an estimator reads, in its order.

    Raises:
        InvalidSpec: it does not know their names, and nobody says them; or it wants more columns,
            fewer or another order.
    """
    named: Any = getattr(estimator, "feature_names_in_", None)
    own = [] if named is None else [*map(str, named)]
    if not columns and not own:
        problem = (
            "must list the input columns in the order of training: the model has no column "
            "names, since it was not trained on a frame"
        )
        raise InvalidSpec.at("model.columns", columns, problem)
    if columns and own and len(columns) != len(own):
        problem = f"names {counted(len(columns), 'column')}, but the model reads {', '.join(own)}"
        raise InvalidSpec.at("model.columns", columns, problem)
    refuse_moved(columns, own)
    return columns or own


def naming_frames(call: Callable[[Any], Any], estimator: Any, names: list[str]) -> Method:
    """A method of an estimator, whose errors say how it gets a frame, where it looks for one.

    What stands first in a pipeline says for it what it was trained on, and code of one's own may
    say nothing.

    Args:
        call: the method.
        estimator: whose it is.
        names: of its input columns.
    """

    def named(given: Any) -> Any:
        try:
            return call(given)
        except (AttributeError, IndexError, ValueError) as error:
            if hasattr(estimator, "feature_names_in_") or not wants_frame(error, names):
                raise
            problem = (
                "go to the model as an array, because it has no feature_names_in_, but it "
                f"expects a frame ({error}): set feature_names_in_ of its first step to the "
                "column names before saving the model"
            )
            raise InvalidSpec.at("model.columns", names, problem) from error

    return named


def wants_frame(error: AttributeError | IndexError | ValueError, names: Sequence[str]) -> bool:
    """Whether an error is that of code which takes an array for a frame of pandas.

    Args:
        error: as the code raised it.
        names: of the frame's columns.
    """
    import pandas as pd

    if isinstance(error, AttributeError):
        wanted = error.name or ""
        is_frames = wanted in names or hasattr(pd.DataFrame, wanted)
        return isinstance(error.obj, np.ndarray) and is_frames
    return str(error).startswith(NO_FRAME)


def predicted(
    call: Callable[[Any], Any], estimator: Any, rows: pa.Table, names: list[str]
) -> np.ndarray:
    """What a method of an estimator makes of rows.

    Those with a gap go in apart from the others, whose types it would change.

    Args:
        call: the method.
        estimator: whose it is.
        rows: to take the columns from.
        names: of its input columns.
    """
    gaps = have_gaps(estimator, rows, names)
    parts = [each for each in (~gaps, gaps) if each.any()]
    if len(parts) < 2:
        return as_array(call(inputs(estimator, rows, names)))
    made = [as_array(call(inputs(estimator, rows.filter(pa.array(each)), names))) for each in parts]
    places = np.concatenate([np.flatnonzero(each) for each in parts])
    together: np.ndarray = np.concatenate(made)[np.argsort(places)]
    return together


def have_gaps(estimator: Any, rows: pa.Table, names: list[str]) -> npt.NDArray[np.bool_]:
    """Which rows have an empty value that pandas has another type for, in a frame."""
    found = np.zeros(len(rows), np.bool_)
    if hasattr(estimator, "feature_names_in_"):
        for name in names:
            column = column_of(rows, name, "model.columns")
            if column.null_count and has_no_empty_value(column.type):
                found |= column.is_null().to_numpy()
    return found


def has_no_empty_value(kind: pa.DataType) -> bool:
    """Whether a column of a type is of another one in pandas once a value of it is empty."""
    return pa.types.is_integer(kind) or pa.types.is_boolean(kind)


def frame_of(rows: pa.Table) -> "pd.DataFrame":
    """Rows as a frame; where there is a gap, all columns that may have one are of pandas' type.

    So a row with one is the same whatever gaps other rows have: their whole numbers are floats, and
    truth values are objects.
    """
    frame = to_pandas(rows)
    may_have = [each for each in rows.schema if has_no_empty_value(each.type)]
    if not any(rows[each.name].null_count for each in may_have):
        return frame
    return frame.astype(
        {each.name: object if pa.types.is_boolean(each.type) else float for each in may_have}
    )


def inputs(estimator: Any, rows: pa.Table, names: list[str]) -> Any:
    """Rows as the estimator was trained on them.

    A frame where it was a frame. Else one column of texts is a list, one column of vectors is
    their matrix, and columns of numbers are a matrix of float64.

    Raises:
        InvalidSpec: a column is not there, or holds no numbers.
        ValueError: a row has no text, or a vector of another length.
    """
    own = getattr(estimator, "feature_names_in_", None)
    given = [column_of(rows, name, "model.columns") for name in names]
    if own is not None:
        return frame_of(pa.table(given, names=[str(name) for name in own]))
    kind = given[0].type
    if len(names) == 1 and is_text(kind):
        if given[0].null_count:
            raise ValueError(f"column {names[0]!r} is empty in this row")
        return given[0].to_pylist()
    if len(names) == 1 and (is_any_list(kind) or isinstance(kind, pa.FixedShapeTensorType)):
        # Steps of one's own may write to what they are given, as they did in training.
        vectors = np.require(stacked(rows, names[0], "model.columns"), requirements="W")
        return vectors.reshape(len(vectors), math.prod(vectors.shape[1:]))
    return numbers(names, given)


def numbers(names: list[str], given: list[pa.ChunkedArray]) -> np.ndarray:
    """Columns side by side, in the precision that scikit-learn trains in.

    Raises:
        InvalidSpec: one holds no numbers.
    """
    for name, column in zip(names, given, strict=True):
        if not is_blank(column):
            refuse_other_than_numbers(column.type, name, "model.columns")
    return np.column_stack([each.cast(pa.float64(), safe=False).to_numpy() for each in given])


def as_array(returned: Any) -> np.ndarray:
    """What a method of an estimator returned, dense.

    Raises:
        InvalidSpec: it is a list, of one array for each of several targets.
    """
    if isinstance(returned, list):
        problem = "gives one matrix for each of several targets; use predict"
        raise InvalidSpec.at("model.method", "predict_proba", problem)
    return np.asarray(returned.toarray() if hasattr(returned, "toarray") else returned)
