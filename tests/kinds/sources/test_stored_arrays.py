"""Arrays that Ray Data has written come back in their shape, whether or not Ray is imported."""

import json
import pickle
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.kinds.columns import column_to_numpy
from tasks.kinds.models.arrays import stacked
from tasks.kinds.models.vision.pixels import arrays_of
from tasks.kinds.sources import ParquetSource, stored_arrays
from tasks.kinds.sources.listing import list_inputs
from tasks.kinds.sources.source import BadRow
from tasks.kinds.tensors import tensor_from
from tests.kinds.sources.reading import read_all

# Of Ray's own settings, which it looks at where it makes arrays.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (3, 4, 5, 3), np.uint8)
FIVE_ON = [5, 6, 7, 8]
OF_ANY_SHAPE = [IMAGES[0], IMAGES[1][:2], IMAGES[2][:, :1]]


@pytest.fixture(params=[True, False], ids=["ray-imported", "ray-not-imported"])
def ray(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Ray's types, which Arrow knows when a file is read, or not."""
    types = import_module(stored_arrays.RAYS_TYPES)
    if request.param:
        yield types
        return
    with stored_arrays.as_stored(), monkeypatch.context() as patch:
        patch.setattr(stored_arrays, "FORGOTTEN", stored_arrays.Forgotten())
        patch.setattr(stored_arrays, "RAYS_TYPES", "of nobody")
        yield types


def rows_in(folder: Path) -> pa.Table:
    """Those of the one file, as tables and not as dictionaries: shapes and types show."""
    source = ParquetSource(path=str(folder))
    storage, stats = list_inputs(source)
    pins = json.loads(json.dumps(source.pin(storage, stats)))
    shards = [shard for stat in stats for shard in source.split(storage, stat)]
    (rows,) = (read for shard in shards for read in source.read(storage, shard, pins))
    assert isinstance(rows, pa.Table)
    assert rows.schema == source.schema_of_rows(pins)
    return rows


def test_arrays_have_their_shape(ray: Any, tmp_path: Path) -> None:
    uneven = np.empty(3, object)
    uneven[:] = OF_ANY_SHAPE
    made = {
        "image": ray.ArrowTensorArray.from_numpy(IMAGES),
        "native": pa.FixedShapeTensorArray.from_numpy_ndarray(IMAGES.astype(np.float32)),
        "mask": ray.ArrowTensorArray.from_numpy(IMAGES > 128),
        "vector": ray.ArrowTensorArray.from_numpy(IMAGES[:, 0, 0].astype(np.float32)),
        "uneven": ray.ArrowTensorArray.from_numpy(uneven),
    }
    pq.write_table(pa.table(made), tmp_path / "a.parquet")
    rows = rows_in(tmp_path)
    found = {name: column_to_numpy(rows[name]) for name in rows.column_names}
    assert np.array_equal(found["image"], IMAGES)
    assert found["image"].dtype == np.uint8
    assert np.array_equal(found["native"], IMAGES.astype(np.float32))
    assert np.array_equal(found["mask"], IMAGES > 128)
    assert rows.schema.field("vector").type == pa.list_(pa.float32())
    assert np.array_equal(found["vector"], IMAGES[:, 0, 0])
    assert are_same([*found["uneven"]], OF_ANY_SHAPE)
    assert {each.dtype for each in found["uneven"]} == {np.dtype(np.uint8)}


def are_same(found: Sequence[Any], wanted: Sequence[Any]) -> bool:
    """Whether two lists are of the same arrays."""
    return len(found) == len(wanted) and all(map(np.array_equal, found, wanted))


def uneven(ray: Any, arrays: list[Any]) -> Any:
    """Arrays as Ray holds them: by itself it takes those that happen to be of one shape as such."""
    held = np.empty(len(arrays), object)
    held[:] = arrays
    return ray.ArrowVariableShapedTensorArray.from_numpy(held)


@pytest.mark.parametrize("first", ["fixed", "uneven"])
def test_files_of_arrays_that_happen_to_be_of_one_shape_go_with_others(
    ray: Any, tmp_path: Path, first: str
) -> None:
    files = [ray.ArrowTensorArray.from_numpy(IMAGES), uneven(ray, OF_ANY_SHAPE)]
    native = pa.FixedShapeTensorArray.from_numpy_ndarray(IMAGES[:, :1])
    order = [*(files if first == "fixed" else files[::-1]), native]
    for at, column in enumerate(order):
        pq.write_table(pa.table({"x": column}), tmp_path / f"{at}.parquet")
    found = [each["x"] for each in read_all(ParquetSource(path=str(tmp_path)))]
    parts = [[*IMAGES], OF_ANY_SHAPE]
    wanted = [each for part in (parts if first == "fixed" else parts[::-1]) for each in part]
    arrays = [tensor_from(each) for each in found]
    assert are_same(arrays, [*wanted, *IMAGES[:, :1]])


def test_arrays_of_any_shape_are_images(ray: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"image": uneven(ray, OF_ANY_SHAPE)}), tmp_path / "a.parquet")
    images = arrays_of(rows_in(tmp_path)["image"], "image")
    assert are_same([*images], OF_ANY_SHAPE)


def stored_in_any_shape(values: list[Any]) -> pa.Table:
    """A column as Ray stores it."""
    kind = pa.struct([("data", pa.large_list(pa.uint8())), ("shape", pa.list_(pa.int64()))])
    metadata = {stored_arrays.NAME: stored_arrays.ANY_SHAPE.encode(), stored_arrays.NOTE: b"2"}
    schema = pa.schema([pa.field("x", kind, metadata=metadata)])
    return pa.Table.from_arrays([pa.array(values, kind)], schema=schema)


@pytest.mark.parametrize(
    ("data", "shape", "said"),
    [
        ([1, 2, 3], [2, 2], "an array of shape [2, 2] has 3 numbers"),
        ([1, None], [2, 1], "an array of shape [2, 1] has 1 number"),
        ([1, 2], [-1, 2], "an array of shape [-1, 2] has 2 numbers"),
        ([1, 2], None, "an array of shape None has 2 numbers"),
    ],
)
def test_an_array_that_does_not_fill_its_shape_is_a_bad_row(
    tmp_path: Path, data: list[Any], shape: list[int] | None, said: str
) -> None:
    good = {"data": [1, 2], "shape": [2, 1]}
    with stored_arrays.as_stored():
        table = stored_in_any_shape([good, None, {"data": data, "shape": shape}])
        pq.write_table(table, tmp_path / "a.parquet")
    row, missing, bad = read_all(ParquetSource(path=str(tmp_path)))
    assert are_same([tensor_from(row["x"])], [np.array([[1], [2]])])
    assert missing == {"x": None}
    assert isinstance(bad, BadRow)
    assert str(bad.error).startswith(f"column 'x': {said}")


def test_a_later_array_of_another_shape_than_all_first_files_have_is_a_bad_row(
    ray: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.kinds.sources.files_to_ask.FIRST_FILES", 1)
    even = pa.table({"x": ray.ArrowTensorArray.from_numpy(IMAGES)})
    for name in ("a", "c"):  # the last one is asked as well
        pq.write_table(even, tmp_path / f"{name}.parquet")
    later = uneven(ray, [IMAGES[1], IMAGES[0][:2]])
    pq.write_table(pa.table({"x": later}), tmp_path / "b.parquet")
    rows = read_all(ParquetSource(path=str(tmp_path)))
    (bad,) = (each for each in rows if isinstance(each, BadRow))
    assert rows[rows.index(bad) - 1]["x"] == IMAGES[1].ravel().tolist()
    assert len(rows) == 2 * len(IMAGES) + 2
    assert "an array of shape [2, 5, 3], but the first files have [4, 5, 3]" in str(bad.error)


def stored(note: bytes, lists: list[Any]) -> pa.Table:
    """A column as Ray stores it, with what it notes of its shape."""
    name = "ray.data.arrow_tensor_v2"
    metadata = {stored_arrays.NAME: name.encode(), stored_arrays.NOTE: note}
    field = pa.field("x", pa.large_list(pa.uint8()), metadata=metadata)
    return pa.Table.from_arrays([pa.array(lists, field.type)], schema=pa.schema([field]))


class Runs:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("code of a file was run",))


@pytest.mark.parametrize(
    ("note", "shape"),
    [
        (pickle.dumps((2, 2)), (2, 2)),
        (pickle.dumps(Runs()), (4,)),
        (b"[2, -2]", (4,)),
        (b"no shape", (4,)),
    ],
)
def test_a_shape_that_was_pickled_is_read_and_nothing_else_is_unpickled(
    ray: Any, tmp_path: Path, note: bytes, shape: tuple[int, ...]
) -> None:
    with stored_arrays.as_stored():
        table = stored(note, [[1, 2, 3, 4], None, FIVE_ON])
        pq.write_table(table, tmp_path / "a.parquet")
    first, missing, last = column_to_numpy(rows_in(tmp_path)["x"])
    assert first.shape == last.shape == shape
    assert (first.ravel().tolist(), missing, last.ravel().tolist()) == ([1, 2, 3, 4], None, FIVE_ON)


def test_an_array_of_another_size_is_a_bad_row(tmp_path: Path) -> None:
    with stored_arrays.as_stored():
        table = stored(b"[2, 2]", [[1, 2, 3, 4], [1, 2, 3]])
        pq.write_table(table, tmp_path / "a.parquet")
    good, bad = read_all(ParquetSource(path=str(tmp_path)))
    assert good == {"x": [1, 2, 3, 4]}
    assert isinstance(bad, BadRow)
    assert str(bad.error).startswith("column 'x': ListType can only be casted to FixedSizeListType")


def test_axes_are_in_the_order_that_the_type_says() -> None:
    kind = pa.fixed_shape_tensor(pa.int64(), [2, 3], permutation=[1, 0])
    stored = pa.array([range(6), None, range(6, 12)], kind.storage_type)
    column = pa.chunked_array([pa.ExtensionArray.from_storage(kind, stored)])
    first, missing, last = column_to_numpy(column)
    assert (first.tolist(), missing) == ([[0, 3], [1, 4], [2, 5]], None)
    assert np.array_equal(column_to_numpy(column[2:]), [last])
    whole = stacked(pa.table({"x": column[2:]}), "x")
    assert np.array_equal(whole, column[2:].combine_chunks().to_numpy_ndarray())
    with pytest.raises(ValueError, match="is empty in this row, or a part of it is"):
        stacked(pa.table({"x": column}), "x")


def test_ray_reads_its_own_files_as_before(tmp_path: Path) -> None:
    """Once the last of those who read at once is done."""
    types = import_module(stored_arrays.RAYS_TYPES)
    pq.write_table(
        pa.table({"x": types.ArrowTensorArray.from_numpy(IMAGES)}), tmp_path / "a.parquet"
    )
    with stored_arrays.as_stored():
        read_all(ParquetSource(path=str(tmp_path)))
        assert pa.types.is_large_list(pq.read_table(tmp_path / "a.parquet")["x"].type)
    assert type(pq.read_table(tmp_path / "a.parquet")["x"].type) is types.ArrowTensorTypeV2
