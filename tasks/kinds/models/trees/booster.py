"""XGBoost's boosters: what they read, what they were trained for, how they predict."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tasks.counted import counted
from tasks.errors import InvalidSpec
from tasks.kinds.models.arrays import column_of, refuse_moved
from tasks.kinds.models.input_types import is_number
from tasks.kinds.models.model import Placement

Matrix = npt.NDArray[np.float32]
FIRST_LINE = re.compile(r"^(?:\[[\d:]+\] )?(?:\S+:\d+: )?(.*)")


def load(file: Path) -> Any:
    """A booster from a file.

    Raises:
        InvalidSpec: the file is none of XGBoost's.
    """
    import xgboost

    try:
        return xgboost.Booster(model_file=str(file))
    except (xgboost.core.XGBoostError, UnicodeDecodeError) as error:  # it quotes what it met
        problem = f"cannot be read by XGBoost {xgboost.__version__}: {first_line(error)}"
        raise InvalidSpec.at("model.path", str(file), problem) from error


def first_line(error: Exception) -> str:
    """What XGBoost says is wrong, without when, the place in its source and the stack."""
    found = FIRST_LINE.match(str(error))
    return found[1] if found else str(error)


def input_names(booster: Any, columns: list[str]) -> list[str]:
    """Columns that a booster reads, in its order.

    Raises:
        InvalidSpec: it does not know their names, or wants more columns, fewer or another order.
    """
    own: list[str] = booster.feature_names or []
    wanted = booster.num_features()
    if not columns and not own:
        problem = f"must list the {wanted} input columns in order: the model has no column names"
        raise InvalidSpec.at("model.columns", columns, problem)
    if columns and len(columns) != wanted:
        names = f": {', '.join(own)}" if own else ""
        problem = f"names {counted(len(columns), 'column')}, but the model reads {wanted}{names}"
        raise InvalidSpec.at("model.columns", columns, problem)
    refuse_moved(columns, own)
    return columns or own


def categories_of(booster: Any, names: list[str]) -> dict[str, pa.Array]:
    """The categories of training by input column; trees know them by their places."""
    if "c" not in (booster.feature_types or []):
        return {}
    found = booster.get_categories(export_to_arrow=True).to_arrow()
    return {
        name: values for name, (_, values) in zip(names, found, strict=True) if values is not None
    }


def with_codes(rows: pa.Table, categories: dict[str, pa.Array]) -> pa.Table:
    """Rows with categories as their places.

    Raises:
        InvalidSpec: a column is not there, or holds something else than categories.
        ValueError: training has not seen a category.
    """
    for name, known in categories.items():
        column = as_type(column_of(rows, name, "model.columns"), known.type, name)
        codes = pc.index_in(column, value_set=known)
        if codes.null_count > column.null_count:
            new = column.filter(pc.and_(codes.is_null(), column.is_valid()))[0]
            problem = f"column {name!r} has {new.as_py()!r}, which the model was not trained on"
            if new.as_py() == "":
                problem += ": in a CSV file, an empty text is a missing value if "
                problem += "source.null_values lists ''"
            raise ValueError(problem)
        rows = rows.set_column(rows.column_names.index(name), name, codes)
    return rows


def as_type(column: pa.ChunkedArray, wanted: pa.DataType, name: str) -> pa.ChunkedArray:
    """A column of values of the categories' type; NaN is a missing one, as to trees.

    Raises:
        InvalidSpec: it holds something else.
        ValueError: it holds numbers, and one cannot be a category, as 1.5 among whole ones.
    """
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    column = column.cast(kind)
    if pa.types.is_floating(kind):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)
    try:
        return column.cast(wanted)
    except pa.ArrowException as error:
        if is_number(kind) and is_number(wanted):
            problem = f"column {name!r} has a value which the model was not trained on"
            raise ValueError(f"{problem}: {error}") from error
        problem = f"is {kind}, but the model was trained on categories of {wanted}; convert it"
        raise InvalidSpec.at("model.columns", name, problem) from error


def refuse_infinity(values: Matrix, names: list[str]) -> None:
    """See that no number is infinite: XGBoost refuses them, but for those it predicts in place.

    Raises:
        ValueError: one is.
    """
    infinite = np.isinf(values)
    if infinite.any():  # by column only then: that takes a hundred times as long
        name = names[int(infinite.any(axis=0).argmax())]
        raise ValueError(
            f"column {name!r} is infinite in this row, which XGBoost does not accept: make it "
            "empty (missing) or a finite number in a step"
        )


def settings(booster: Any) -> dict[str, Any]:
    """How a booster was trained."""
    found: dict[str, Any] = json.loads(booster.save_config())["learner"]
    return found


def objective(booster: Any) -> str:
    """What a booster was trained for, as in binary:logistic."""
    return str(settings(booster)["objective"]["name"])


def num_classes(booster: Any) -> int:
    """Classes that a classifier tells apart; of two it says nothing in its file."""
    return max(2, int(settings(booster)["learner_model_param"]["num_class"]))


def num_targets(booster: Any) -> int:
    """What a booster tells of each row: of one thing which class, or of several whether."""
    return int(settings(booster)["learner_model_param"].get("num_target", 1))


def prediction(booster: Any, placement: Placement, *, best: bool) -> Callable[[Matrix], np.ndarray]:
    """A booster as a function over matrices, on a device and a number of threads.

    Args:
        booster: as it was loaded.
        placement: says which device, and how many threads.
        best: whether to stop at the best iteration, where training was stopped early.
    """
    import xgboost

    booster.set_param({"device": placement.device, "nthread": placement.num_threads})
    last = booster.attr("best_iteration") if best else None
    rounds = (0, 0 if last is None else int(last) + 1)  # (0, 0) means all

    def in_place(values: Matrix) -> np.ndarray:
        made: np.ndarray = booster.inplace_predict(values, iteration_range=rounds)
        return made

    def copied(values: Matrix) -> np.ndarray:
        data = xgboost.DMatrix(values, nthread=placement.num_threads)
        made: np.ndarray = booster.predict(data, iteration_range=rounds, validate_features=False)
        return made

    linear = settings(booster)["gradient_booster"]["name"] == "gblinear"  # cannot do it in place
    return copied if linear or placement.device != "cpu" else in_place
