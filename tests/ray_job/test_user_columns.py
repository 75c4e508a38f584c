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


class Upper:
    """Predicts capitals, and returns nothing else beside the ids."""

    def __call__(self, batch: Batch) -> dict[str, object]:
        return {ROW: batch[ROW], "up": [each.upper() for each in batch["t"]]}


class Picked:
    """Returns some rows by their place, and the columns that are named."""

    def __init__(self, at: list[int], names: list[str]) -> None:
        self.at, self.names = at, names

    def __call__(self, batch: Batch) -> Batch:
        picked = {name: batch[name][self.at] for name in (ROW, *self.names)}
        return {**picked, "was": np.array(self.at)}


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


def family() -> pa.Table:
    """Three children of one row, and a row without any."""
    return pa.table({ROW: pa.array([1, 1, 1, 2], pa.int64()), "t": list("abcd")})


def test_each_child_keeps_its_own_columns() -> None:
    returned = infer(Upper, family(), with_row_ids=True)
    assert returned["t"].to_pylist() == list("abcd")
    assert returned["up"].to_pylist() == list("ABCD")


@pytest.mark.parametrize("at", [[3, 0, 1, 2], [0, 3, 1, 2], [0, 1, 2], [3], []], ids=str)
def test_children_are_joined_in_their_order(at: list[int]) -> None:
    returned = infer(Picked, family(), with_row_ids=True, at=at, names=[])
    assert sorted(zip(returned["t"].to_pylist(), returned["was"].to_pylist(), strict=True)) == [
        ("abcd"[each], each) for each in sorted(at)
    ]


def test_a_row_that_becomes_several_is_repeated() -> None:
    returned = infer(Picked, family(), with_row_ids=True, at=[0, 3, 1, 3, 2], names=[])
    assert returned["t"].to_pylist() == list("abcdd")


@pytest.mark.parametrize("at", [[0, 1], [0, 0, 1, 2], [0, 3]], ids=str)
def test_children_that_cannot_be_told_apart_are_refused(at: list[int]) -> None:
    with pytest.raises(UserCodeBroke, match="row 1 was given as 3 rows of one __row and came back"):
        infer(Picked, family(), with_row_ids=True, at=at, names=[])


def test_children_may_stay_away_where_all_columns_come_back() -> None:
    returned = infer(Picked, family(), with_row_ids=True, at=[1, 3], names=["t"])
    assert returned.to_pydict() == {ROW: [1, 2], "t": ["b", "d"], "was": [1, 3]}
