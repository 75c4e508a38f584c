"""Rows whose arrays differ in shape go to models of tensors by shape, and come back in order."""

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.kinds.columns import column_to_numpy
from tasks.kinds.models import KerasModel, OnnxModel, TorchModel
from tasks.kinds.models.model import Model, Placement
from tasks.kinds.models.tensors import inputs, keras_backend
from tasks.kinds.models.tensors import model as tensor_model
from tasks.kinds.models.tensors.shapes import of_one_shape
from tasks.kinds.tensors import tensor_array
from tasks.protocol.batch import ROW
from tasks.ray_job.blame import call_with_blame
from tests.kinds import test_keras, test_onnx
from tests.kinds.digits import predicted, rows_of, values

CODE = "tests.kinds.torch_code"
SERIES = [np.full((length, 2), at, np.float32) for at, length in enumerate([3, 5, 3, 7] * 5 + [5])]
FIRST = 7
"""The first row's id."""


def in_lists(arrays: list[np.ndarray]) -> pa.Array:
    return pa.array([each.tolist() for each in arrays], pa.list_(pa.list_(pa.float32())))


def torch_model(folder: Path, name: str = "Steps") -> Model:
    import torch

    from tests.kinds import torch_code

    torch.save(getattr(torch_code, name)().state_dict(), folder / "weights.pt")
    given = {"path": str(folder / "weights.pt"), "class": f"{CODE}:{name}", "columns": ["x"]}
    return TorchModel.model_validate(given)


def script(folder: Path) -> Model:
    import torch

    from tests.kinds.torch_code import Steps

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.trace(Steps(), torch.zeros(2, 3, 2)).save(folder / "script.pt")
    return TorchModel.model_validate({"path": str(folder / "script.pt"), "columns": ["x"]})


def onnx_model(folder: Path) -> Model:
    nodes = [test_onnx.node("ReduceMax", ["x"], ["y"], axes=[1], keepdims=0)]
    given, made = {"x": ("FLOAT", ["rows", "steps", 2])}, {"y": ("FLOAT", ["rows", 2])}
    file = test_onnx.save(folder / "steps.onnx", nodes, given, made)
    return OnnxModel.model_validate({"path": str(file), "columns": ["x"]})


def keras_model(folder: Path) -> Model:
    keras = keras_backend.keras_with(keras_backend.chosen("auto"))
    model = keras.Sequential([keras.Input((None, 2)), keras.layers.GlobalMaxPooling1D()])
    file = test_keras.save(model, folder / "steps.keras")
    return KerasModel.model_validate({"path": str(file), "columns": ["x"]})


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes that a model was called with."""
    found = []

    def seen(*args: Any) -> Iterator[inputs.Arrays]:
        for batch in inputs.batches(*args):
            found.append(next(iter(batch.values())).shape)
            yield batch

    monkeypatch.setattr(tensor_model, "batches", seen)
    return found


@pytest.mark.parametrize("model_in", [torch_model, script, onnx_model, keras_model])
def test_a_model_is_called_once_for_each_shape_and_full_batch(
    tmp_path: Path, calls: list[tuple[int, ...]], model_in: Callable[[Path], Model]
) -> None:
    model, rows = model_in(tmp_path), rows_of(x=in_lists(SERIES))
    made = predicted(model, rows, batch_size=8)
    assert made[ROW].equals(rows[ROW])
    assert values(made).tolist() == [[at, at] for at in range(len(SERIES))]
    assert Counter(calls) == {(8, 3, 2): 1, (2, 3, 2): 1, (6, 5, 2): 1, (5, 7, 2): 1}


def test_images_of_several_sizes_go_by_size(tmp_path: Path, calls: list[tuple[int, ...]]) -> None:
    images = [np.full((size, 4, 3), size, np.uint8) for size in (2, 9, 2, 9, 2)]
    made = predicted(torch_model(tmp_path, "Brightness"), rows_of(x=tensor_array(images)))
    assert calls == [(2, 9, 4, 3), (3, 2, 4, 3)]
    assert values(made).tolist() == [2, 9, 2, 9, 2]


def test_bad_rows_among_them_are_set_aside_alone(tmp_path: Path) -> None:
    """One is empty, one's steps are not all as wide, and over one the model fails."""
    given: list[Any] = [each.tolist() for each in SERIES]
    given[4], given[9][1] = None, [9.0]
    given[14] = [[-1.0, -1.0]] * 3
    rows = rows_of(x=pa.array(given, pa.list_(pa.list_(pa.float32()))))
    outcome = call_with_blame(torch_model(tmp_path, "PickySteps").predictor(Placement()), rows)
    assert {row: str(error)[:40] for row, error in outcome.failed.items()} == {
        FIRST + 4: "column 'x' is empty in this row, or a pa",
        FIRST + 9: "column 'x' has values of different shape",
        FIRST + 14: "below zero",
    }
    assert outcome.rows is not None
    good = [at for at in range(len(SERIES)) if at not in (4, 9, 14)]
    assert outcome.rows[ROW].to_pylist() == [FIRST + at for at in good]
    assert values(outcome.rows).tolist() == [[at, at] for at in good]


@pytest.mark.parametrize("length", [1, 9])
def test_little_is_done_twice_to_find_a_row_of_another_shape(
    tmp_path: Path, calls: list[tuple[int, ...]], length: int
) -> None:
    """Shorter than the others or longer: it goes to the model before them."""
    arrays = [np.full((3, 2), at, np.float32) for at in range(64)]
    arrays[40] = np.full((length, 2), -1, np.float32)
    run = torch_model(tmp_path, "PickySteps").predictor(Placement())
    outcome = call_with_blame(run, rows_of(x=in_lists(arrays)))
    assert [*outcome.failed] == [FIRST + 40]
    assert sum(rows for rows, steps, _ in calls if steps == 3) <= 63 + 1  # beside it alone


@pytest.mark.parametrize("is_deep", [False, True])
def test_outputs_may_be_as_long_as_their_rows(tmp_path: Path, is_deep: bool) -> None:
    arrays = [each if is_deep else each[:, 0] for each in SERIES]
    rows = rows_of(x=in_lists(arrays) if is_deep else pa.array(arrays))
    made = torch_model(tmp_path, "AsTheyAre").predictor(Placement())(rows)
    found = column_to_numpy(made["prediction"])
    assert [*map(np.ndarray.tolist, found)] == [*map(np.ndarray.tolist, arrays)]


def test_columns_of_several_inputs_are_looked_at_together(
    tmp_path: Path, calls: list[tuple[int, ...]]
) -> None:
    """One is of tensors, one of lists, one of numbers, and one of Arrow's tensors of one shape."""
    fixed = pa.FixedShapeTensorArray.from_numpy_ndarray(np.ones((4, 2, 2), np.float32))
    rows = rows_of(
        a=tensor_array([np.ones((size, 2), np.float32) for size in (1, 1, 3, 3)]),
        b=[[1.0], [1.0, 1.0], [1.0], [1.0]],
        c=[1, 2, 3, 4],
        d=fixed,
    )
    model = torch_model(tmp_path, "Together")
    model = model.model_copy(update={"columns": [], "inputs": {each: each for each in "abcd"}})
    assert values(predicted(model, rows)).tolist() == [8, 10, 14, 15]
    assert len(calls) == 3


DEEP = st.lists(st.lists(st.lists(st.integers(0, 9), max_size=2), max_size=2), max_size=3)


@given(
    st.lists(st.none() | DEEP, min_size=1, max_size=12),
    st.integers(0, 5),
    st.integers(0, 12),
    st.sampled_from([pa.list_, pa.large_list]),
)
def test_rows_of_one_shape_are_one_group(
    given: list[Any], start: int, cut: int, kind: Callable[[pa.DataType], pa.DataType]
) -> None:
    """However deep, in slices and chunks, beside rows that have none and such as are ragged."""
    whole = pa.array(given, kind(kind(kind(pa.int64()))))
    column = pa.chunked_array([whole[start : start + cut], whole[start + cut :]])
    given = given[start:]
    groups = of_one_shape(pa.table({"x": column}))
    assert sorted(np.concatenate(groups)) == [*range(len(given))]
    assert all((np.diff(group) > 0).all() for group in groups)
    found: Counter[Any] = Counter()
    for group in groups:
        shapes = {shape_of(given[at]) for at in group} - {None}
        assert len(shapes) <= 1
        found.update(shapes)
    assert all(count == 1 for shape, count in found.items() if 0 not in shape)


def shape_of(value: Any) -> tuple[int, ...] | None:
    """That of a row; None where it has none."""
    try:
        return None if value is None else np.asarray(value).shape
    except ValueError:
        return None
