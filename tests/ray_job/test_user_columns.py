"""Rule 9: which columns of the user's model are published, and beside which rows."""

import time
from collections.abc import AsyncIterator, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tasks.errors import UserCodeBroke
from tasks.kinds.media import decode_media_columns
from tasks.kinds.models.model import Placement
from tasks.kinds.user_rows import positions
from tasks.protocol.batch import ROW
from tasks.ray_job.blame import call_with_blame
from tasks.ray_job.stage_functions import joined
from tasks.spec import BatchInferenceSpec
from tests.kinds.steps.test_steps import images

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


class TenTimes:
    """Changes x, which an id allows it."""

    def __call__(self, batch: Batch) -> Batch:
        return {ROW: batch[ROW], "x": 10 * batch["x"]}


class Sorts:
    """Returns a frame, or a series in a dict, in another order than it was given rows."""

    def __init__(self, how: str) -> None:
        self.how = how

    def __call__(self, batch: Batch) -> Any:
        frame = pd.DataFrame(batch).sort_values("x", ascending=False)
        made = pd.DataFrame({"y": -frame["x"]})
        if self.how == "by an index of its own":
            return made.set_index(pd.Index(frame["x"] // 10 - 1, name="own")).sort_index()
        if self.how == "put back":
            return made.sort_index()
        if self.how == "with ids":
            return made.assign(**{ROW: frame[ROW]})
        return made if self.how == "frame" else {"y": made["y"]}


class Whole:
    """Returns something that is no value for each row."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, batch: Batch) -> Any:
        values = {"str": "abc", "bytes": b"abc", "dict": {1: 1, 2: 2, 3: 3}, "set": {1, 2, 3}}
        return {"y": values[self.kind]}


class Lacks:
    """Returns a series of which one value is missing, in pandas' own ways."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, batch: Batch) -> Any:
        moments = pd.to_datetime(pd.Series(["2026-01-01", None, "2026-01-03"]), utc=True)
        values = {
            "Int64": pd.Series([1, pd.NA, 3], dtype="Int64"),
            "moments": moments,
            "object": pd.Series(["a", float("nan"), "c"], dtype=object),
            "list": [1, pd.NA, 3],
            "float": pd.Series([1.0, float("nan"), 3.0]),
        }
        return {"y": values[self.kind]}


class Returns:
    """Returns one column alone, as a list or a series, or nothing."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, batch: Batch) -> Any:
        return {"list": [1, 2, 3], "Series": pd.Series([1, 2, 3])}.get(self.kind)


class Yields:
    """Does what Ray Data allows a class to."""

    def __call__(self, batch: Batch) -> Iterator[Batch]:
        yield {"y": -batch["x"]}


class Awaited:
    """Does what Ray Data allows a class to, in either way."""

    def __init__(self, how: str) -> None:
        self.how = how

    def __call__(self, batch: Batch) -> Any:
        return self.once(batch) if self.how == "once" else self.in_parts(batch)

    async def once(self, batch: Batch) -> Batch:
        return {"y": -batch["x"]}

    async def in_parts(self, batch: Batch) -> AsyncIterator[Batch]:
        yield {"y": -batch["x"]}


class Reserved:
    """Returns a column whose name is ours."""

    def __call__(self, batch: Batch) -> Batch:
        return {"y": -batch["x"], "__mine": batch["x"]}


class Echo:
    """Returns all it got beside a prediction; `how` it lets go of it."""

    def __init__(self, how: str = "as it is", place: int = 0) -> None:
        self.how, self.place = how, place

    def __call__(self, batch: Any) -> Any:
        count = len(next(iter(batch.values()))) if isinstance(batch, dict) else len(batch)
        columns = {name: batch[name] for name in batch}
        if self.how == "as lists":
            columns = {name: values.tolist() for name, values in columns.items()}
        if self.how == "as a frame":
            columns = {name: list(values) for name, values in columns.items()}
        if self.how == "backwards":
            columns = {name: values[::-1] for name, values in columns.items()}
            batch = batch[::-1] if isinstance(batch, pd.DataFrame) else batch
        returned = {**columns, "y": np.arange(count)}
        if self.how == "as a frame":
            return pd.DataFrame(returned)
        return batch.assign(y=np.arange(count)) if isinstance(batch, pd.DataFrame) else returned


class Meddler:
    """Writes to what it was handed."""

    def __call__(self, batch: Batch) -> Batch:
        batch["v"][0] = batch["v"][1]
        return {**batch, "y": np.arange(len(batch["v"]))}


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


def infer(
    model: type,
    rows: pa.Table,
    *,
    with_row_ids: bool = False,
    batch_format: str = "numpy",
    keep_columns: list[str] | None = None,
    **init: object,
) -> pa.Table:
    """What the infer stage makes of rows."""
    spec = BatchInferenceSpec.model_validate(
        {
            "source": {"kind": "csv", "path": "in"},
            "model": {
                "kind": "python",
                "class": f"{model.__module__}:{model.__name__}",
                "init": init,
                "with_row_ids": with_row_ids,
                "batch_format": batch_format,
            },
            "sink": {"kind": "jsonl", "path": "out", "keep_columns": keep_columns},
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


@pytest.mark.parametrize("keep", [None, ["x"]])
def test_an_input_column_may_be_changed_with_row_ids(keep: list[str] | None) -> None:
    returned = infer(TenTimes, ROWS, with_row_ids=True, keep_columns=keep)
    assert returned["x"].to_pylist() == [100, 200, 300]


def test_a_changed_column_that_is_not_kept_is_refused() -> None:
    """It would be missing from what is published, and nobody would say so."""
    with pytest.raises(UserCodeBroke, match=r"changed .* 'x', which sink.keep_columns leaves out"):
        infer(TenTimes, ROWS, with_row_ids=True, keep_columns=[])


def test_a_column_that_comes_back_as_it_was_need_not_be_kept() -> None:
    returned = infer(Backwards, ROWS, with_row_ids=True, keep_columns=[]).sort_by(ROW)
    assert returned.to_pydict() == {ROW: [1, 2, 3], "y": [-10, -20, -30]}
    empty = pa.array([None, 2.0, float("nan")])
    rows = ROWS.append_column("z", empty)
    assert infer(Backwards, rows, with_row_ids=True, keep_columns=[]).column_names == [ROW, "y"]


@pytest.mark.parametrize("how", ["frame", "series"])
def test_rows_that_were_sorted_are_not_taken_for_others(how: str) -> None:
    """The index tells; without it each would get the prediction of another."""
    with pytest.raises(
        UserCodeBroke, match=r"in another order, according to their index: .* \.sort_index\(\)"
    ):
        infer(Sorts, ROWS, how=how)


@pytest.mark.parametrize("how", ["put back", "by an index of its own", "with ids"])
def test_rows_that_were_put_back_or_bear_ids_are_where_they_were(how: str) -> None:
    returned = infer(Sorts, ROWS, with_row_ids=how == "with ids", how=how).sort_by(ROW)
    assert returned["y"].to_pylist() == [-10, -20, -30]


@pytest.mark.parametrize("kind", ["str", "bytes", "dict", "set"])
def test_what_has_no_value_for_each_row_is_no_column(kind: str) -> None:
    with pytest.raises(UserCodeBroke, match=f"it returned column 'y' as {kind}: return"):
        infer(Whole, ROWS, kind=kind)


@pytest.mark.parametrize("kind", ["Int64", "moments", "object", "list"])
def test_what_pandas_has_for_none_is_none(kind: str) -> None:
    values = infer(Lacks, ROWS, kind=kind)["y"].to_pylist()
    assert values[1] is None
    assert None not in (values[0], values[2])


def test_numbers_that_are_none_stay_so_in_a_series_of_floats() -> None:
    assert np.isnan(infer(Lacks, ROWS, kind="float")["y"].to_pylist()[1])


def test_what_is_no_table_is_the_codes_fault() -> None:
    for kind in ("list", "NoneType", "Series"):
        with pytest.raises(UserCodeBroke, match=f"it returned {kind}: it must return"):
            infer(Returns, ROWS, kind=kind)
    with pytest.raises(UserCodeBroke, match=r"it returned generator: .* instead of using yield"):
        infer(Yields, ROWS)
    for how in ("once", "in parts"):
        with pytest.raises(
            UserCodeBroke, match=r"it returned \w+: .*; give a function that is not async and"
        ):
            infer(Awaited, ROWS, how=how)


def test_reserved_columns_go_no_further_than_the_model() -> None:
    rows = ROWS.append_column("__helper", ROWS["x"])
    assert infer(Echo, rows).column_names == [ROW, "x", "y"]


def test_a_model_that_returns_a_reserved_column_is_told() -> None:
    """It would else be missing from what is published, and nobody would say so."""
    with pytest.raises(UserCodeBroke, match=r"\['__mine'\]: names with __ are reserved"):
        infer(Reserved, ROWS)


@pytest.mark.parametrize("ids", [["a", "b", "c"], [1.5, 2, 3], [None, 2, 9], [1, "b", 3]], ids=str)
def test_what_is_no_id_is_the_codes_fault(ids: list[object]) -> None:
    with pytest.raises(UserCodeBroke, match=r"return its ids|has no Arrow type"):
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


def test_rows_of_a_batch_are_found_without_a_search() -> None:
    given = np.arange(1 << 20) + (3 << 32)
    returned = np.random.default_rng(0).permutation(given)
    begun = time.thread_time()
    found = positions(given, returned)
    assert time.thread_time() - begun < 0.4  # it took a second, and takes 0.07
    assert found is not None
    assert (given[found] == returned).all()


def test_a_row_that_becomes_several_is_repeated() -> None:
    returned = infer(Picked, family(), with_row_ids=True, at=[0, 3, 1, 3, 2], names=[])
    assert returned["t"].to_pylist() == list("abcdd")


@pytest.mark.parametrize("at", [[0, 1], [0, 0, 1, 2], [0, 3]], ids=str)
def test_children_that_cannot_be_told_apart_are_refused(at: list[int]) -> None:
    with pytest.raises(UserCodeBroke, match="got the row 1 as 3 rows of one __row and returned"):
        infer(Picked, family(), with_row_ids=True, at=at, names=[])


def test_children_may_stay_away_where_all_columns_come_back() -> None:
    returned = infer(Picked, family(), with_row_ids=True, at=[1, 3], names=["t"])
    assert returned.to_pydict() == {ROW: [1, 2], "t": ["b", "d"], "was": [1, 3]}


NAN = float("nan")
LISTS = pa.list_(pa.int64())
COLUMNS = {
    "whole numbers and none": pa.array([2**60 + 1, None, 3], pa.int64()),
    "small whole numbers and none": pa.array([1, None, 3], pa.int8()),
    "truths and none": pa.array([True, None, False]),
    "NaN and none": pa.array([NAN, None, 1.5], pa.float32()),
    "texts and none": pa.array(["a", None, ""], pa.large_string()),
    "categories and none": pa.array(["a", None, "b"]).dictionary_encode(),
    "times and none": pa.array([1, None, 3], pa.timestamp("us", "UTC")),
    "days and none": pa.array([1, None, 3], pa.date32()),
    "decimals and none": pa.array([Decimal("1.50"), None, Decimal(2)], pa.decimal128(9, 2)),
    "lists of NaN": pa.array([[1.0, NAN], None, []]),
    "lists of one length": pa.array([[1, NAN], [2, 3], [4, 5]], pa.list_(pa.float64(), 2)),
    "lists of one length and none": pa.array([[1, None], None, [4, 5]], pa.list_(pa.int64(), 2)),
    "lists of text": pa.array([["a", None], None, []], pa.list_(pa.string())),
    "ragged lists of lists": pa.array([[[1], [2, 3]], [[], None], None], pa.list_(LISTS)),
    "even lists of lists": pa.array([[[1], [2]], [[3], [4]], [[5], [6]]], pa.list_(LISTS)),
    "structs": pa.array([{"a": 1, "b": NAN}, None, {"a": None, "b": 2.0}]),
    "maps": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
}


@pytest.mark.parametrize("how", ["as it is", "backwards"])
@pytest.mark.parametrize("batch_format", ["numpy", "pandas"])
@pytest.mark.parametrize("name", COLUMNS)
def test_an_input_column_is_published_as_it_was_read(
    name: str, batch_format: str, how: str
) -> None:
    rows = pa.table({ROW: ROWS[ROW], "v": COLUMNS[name]})
    order = [2, 1, 0] if how == "backwards" else [0, 1, 2]
    returned = infer(Echo, rows, with_row_ids=order[0] > 0, batch_format=batch_format, how=how)
    assert returned[ROW].to_pylist() == [order[0] + 1, 2, order[2] + 1]
    assert returned.schema.field("v").type == rows.schema.field("v").type
    assert repr(returned["v"].to_pylist()) == repr(rows["v"].take(order).to_pylist())


@pytest.mark.parametrize("how", ["as lists", "as a frame"])
@pytest.mark.parametrize("name", sorted(set(COLUMNS) - {"maps", "lists of text"}))
def test_so_is_one_that_comes_back_in_another_form(name: str, how: str) -> None:
    rows = pa.table({ROW: ROWS[ROW], "v": COLUMNS[name]})
    returned = infer(Echo, rows, how=how)
    assert returned.schema.field("v").type == rows.schema.field("v").type
    assert repr(returned["v"].to_pylist()) == repr(rows["v"].to_pylist())


@pytest.mark.parametrize("batch_format", ["numpy", "pandas"])
@pytest.mark.parametrize("first", [0, 1], ids=["one size", "two sizes"])
def test_images_that_come_back_are_published_as_they_were(first: int, batch_format: str) -> None:
    rows = decode_media_columns(images([4, 4, 5])).slice(first, 2).select([ROW, "image"])
    rows = rows.cast(pa.schema([each.remove_metadata() for each in rows.schema]))
    returned = infer(Echo, rows, batch_format=batch_format)
    assert returned.drop_columns("y").equals(rows)


@pytest.mark.parametrize("name", sorted(set(COLUMNS) - {"NaN and none"}))
def test_an_input_column_that_was_written_to_is_refused(name: str) -> None:
    rows = pa.table({ROW: ROWS[ROW], "v": COLUMNS[name]})
    with pytest.raises(UserCodeBroke, match="input column 'v' with other values"):
        infer(Meddler, rows)


class EachColumn:
    """Returns all it got, and predicts 1."""

    def __call__(self, batch: Batch) -> Batch:
        return {**batch, "y": np.ones(len(batch["c0"]))}


def test_a_thousand_columns_come_back_without_a_look_at_all_for_each() -> None:
    wide = pa.table({ROW: np.arange(64), **{f"c{at}": np.arange(64) for at in range(1000)}})
    begun = time.thread_time()
    came_out = infer(EachColumn, wide)
    assert time.thread_time() - begun < 0.6  # it took 1.8 s
    assert came_out.column_names == [*wide.column_names, "y"]
