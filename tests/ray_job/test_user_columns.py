"""Rule 9: which columns of the user's model are published, and beside which rows."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tasks.errors import UserCodeBroke
from tasks.kinds.models.model import Placement
from tasks.protocol.batch import ROW
from tasks.ray_job.blame import call_with_blame
from tasks.ray_job.stage_functions import joined
from tasks.spec import BatchInferenceSpec

Batch = dict[str, np.ndarray]
ROWS = pa.table({ROW: pa.array([1, 2, 3], pa.int64()), "x": [10, 20, 30]})


class Backwards:
    """Predicts minus x; returns all it got, last row first."""

    def __call__(self, batch: Batch) -> Batch:
        returned = {**batch, "y": -batch["x"]}
        return {name: values[::-1] for name, values in returned.items()}


class Only:
    """Predicts minus x for one row, and returns neither x nor the other rows."""

    def __init__(self, x: int) -> None:
        self.x = x

    def __call__(self, batch: Batch) -> Batch:
        at = batch["x"] == self.x
        return {ROW: batch[ROW][at], "y": -batch["x"][at]}


class Reserved:
    """Returns a column whose name is ours."""

    def __call__(self, batch: Batch) -> Batch:
        return {"y": -batch["x"], "__mine": batch["x"]}


class Ids:
    """Returns something else as ids."""

    def __init__(self, ids: list[object]) -> None:
        self.ids = ids

    def __call__(self, batch: Batch) -> dict[str, object]:
        return {ROW: self.ids, "y": -batch["x"]}


class Short:
    """Returns one prediction too few beside the input."""

    def __call__(self, batch: Batch) -> Batch:
        return {**batch, "y": -batch["x"][1:]}


class Twice:
    """Returns two columns of one name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, batch: Batch) -> pd.DataFrame:
        frame = pd.DataFrame({name: list(values) for name, values in batch.items()})
        return pd.concat([frame, frame[[self.name]]], axis=1)


def infer(model: type, rows: pa.Table, *, with_row_ids: bool = False, **init: object) -> pa.Table:
    """What the infer stage makes of rows."""
    spec = BatchInferenceSpec.model_validate(
        {
            "source": {"kind": "csv", "path": "in"},
            "model": {
                "kind": "python",
                "class": f"{model.__module__}:{model.__name__}",
                "init": init,
                "with_row_ids": with_row_ids,
            },
            "sink": {"kind": "jsonl", "path": "out"},
        }
    )
    predict = joined(spec, spec.model.predictor(Placement()))
    outcome = call_with_blame(predict, rows)
    assert outcome.rows is not None, outcome.failed
    return outcome.rows


def test_an_input_column_that_comes_back_changed_is_refused() -> None:
    with pytest.raises(UserCodeBroke, match="input column 'x' with other values"):
        infer(Backwards, ROWS)


def test_predictions_are_joined_by_the_ids_that_come_back() -> None:
    returned = infer(Backwards, ROWS, with_row_ids=True).sort_by(ROW)
    assert returned.to_pydict() == {ROW: [1, 2, 3], "x": [10, 20, 30], "y": [-10, -20, -30]}


def test_input_columns_that_stay_away_are_joined_by_id() -> None:
    returned = infer(Only, ROWS, with_row_ids=True, x=20)
    assert returned.to_pydict() == {ROW: [2], "x": [20], "y": [-20]}


def test_reserved_columns_go_no_further_than_the_model() -> None:
    rows = ROWS.append_column("__helper", ROWS["x"])
    assert infer(Reserved, rows).column_names == [ROW, "x", "y"]


@pytest.mark.parametrize("ids", [["a", "b", "c"], [1.5, 2, 3], [None, 2, 9], [1, "b", 3]], ids=str)
def test_what_is_no_id_is_the_codes_fault(ids: list[object]) -> None:
    with pytest.raises(UserCodeBroke, match=r"return the ids|has no Arrow type"):
        infer(Ids, ROWS, with_row_ids=True, ids=ids)


@pytest.mark.parametrize("name", [ROW, "x"])
def test_two_columns_of_one_name_are_the_codes_fault(name: str) -> None:
    with pytest.raises(UserCodeBroke, match=f"more than one column is named '{name}'"):
        infer(Twice, ROWS, with_row_ids=True, name=name)


@pytest.mark.parametrize("with_row_ids", [False, True])
def test_columns_of_unequal_length_are_the_codes_fault(with_row_ids: bool) -> None:
    with pytest.raises(UserCodeBroke, match=r"'x': 3, 'y': 2.*one value for each row"):
        infer(Short, ROWS, with_row_ids=with_row_ids)
