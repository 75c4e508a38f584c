"""The user's own code over Arrow tables: nothing is converted, there and back."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from flows.testing import RunSpec
from tasks.errors import UserCodeBroke
from tasks.kinds import column_types, user_code
from tasks.kinds.media import decode_media_columns
from tasks.kinds.steps.python import PythonStep
from tasks.protocol.batch import ROW
from tests.kinds.steps.test_steps import images
from tests.ray_job.test_user_columns import COLUMNS, ROWS, infer


class Backwards:
    """Returns all it got, last row first, and predicts 1."""

    def __call__(self, batch: pa.Table) -> pa.Table:
        ones = np.ones(len(batch))
        return batch.append_column("y", pa.array(ones)).take(np.arange(len(batch))[::-1])


class Doubles:
    """Makes its table of NumPy's memory, which it fills anew for the next rows."""

    def __init__(self) -> None:
        self.memory = np.zeros(3)

    def __call__(self, batch: pa.Table) -> pa.Table:
        self.memory[:] = 2 * batch["x"].to_numpy()
        return pa.table({"y": pa.array(self.memory)})


class Sizes:
    """How many bytes an image's file has."""

    def __call__(self, batch: pa.Table) -> pa.Table:
        return pa.table({"bytes": pc.binary_length(batch["image"])})


def large(batch: pa.Table) -> pa.Table:
    """Rows of which x is large, each twice."""
    left = batch.filter(pc.greater(batch["x"], 10))
    return left.take(np.repeat(np.arange(len(left)), 2))


def with_sizes(batch: pa.Table) -> pa.Table:
    """All it got, and how many bytes an image's file has."""
    return batch.append_column("bytes", pc.binary_length(batch["image"]))


def second(batch: pa.Table) -> pa.Table:
    """Of all images the second."""
    image = batch["image"].take(pa.array([1] * len(batch)))
    return batch.set_column(batch.column_names.index("image"), "image", image)


def step(function: str, **options: Any) -> PythonStep:
    """A step that runs a function of this file."""
    return PythonStep(function=f"{__name__}:{function}", batch_format="pyarrow", **options)


@pytest.mark.parametrize("name", COLUMNS)
def test_an_input_column_is_published_as_it_was_read(name: str) -> None:
    rows = pa.table({ROW: ROWS[ROW], "v": COLUMNS[name]})
    returned = infer(Backwards, rows, with_row_ids=True, batch_format="pyarrow")
    assert returned[ROW].to_pylist() == [3, 2, 1]
    assert returned.schema.field("v").type == rows.schema.field("v").type
    assert repr(returned["v"].to_pylist()) == repr(rows["v"].to_pylist()[::-1])


def test_one_that_comes_back_for_other_rows_is_refused() -> None:
    with pytest.raises(UserCodeBroke, match="input column 'x' with other values"):
        infer(Backwards, ROWS, batch_format="pyarrow")


def test_rows_are_left_out_and_repeated_by_their_ids() -> None:
    returned = step("large", with_row_ids=True).build()(ROWS)
    assert returned.to_pydict() == {ROW: [2, 2, 3, 3], "x": [20, 20, 30, 30]}


def test_images_are_the_bytes_of_their_files() -> None:
    rows = images([4, 5])
    returned = step("with_sizes").build()(rows)
    assert returned["image"].equals(rows["image"])
    assert column_types.is_encoded(returned.schema.field("image"), column_types.IMAGE)
    assert returned["bytes"].to_pylist() == [len(each) for each in rows["image"].to_pylist()]


def test_those_that_the_code_puts_in_their_place_are_decoded_like_files() -> None:
    rows = images([4, 5])
    returned = decode_media_columns(step("second").build()(rows))
    assert returned["image"].to_pylist() == [decode_media_columns(rows)["image"][1].as_py()] * 2


@pytest.mark.prefect
def test_a_model_gets_them_so(run_spec: RunSpec, tmp_path: Path) -> None:
    rows = images([4, 50])
    (tmp_path / "in").mkdir()
    for path, image in zip(rows["path"], rows["image"], strict=True):
        (tmp_path / "in" / f"{path}.png").write_bytes(image.as_py())
    model = {"kind": "python", "class": f"{__name__}:Sizes", "batch_format": "pyarrow"}
    done = run_spec(
        {
            "source": {"kind": "images", "path": str(tmp_path / "in")},
            "model": model,
            "sink": {"kind": "parquet", "path": str(tmp_path / "out")},
        }
    )
    assert {*done.table["bytes"].to_pylist()} == {*pc.binary_length(rows["image"]).to_pylist()}


def test_what_the_code_fills_anew_for_the_next_rows_stays_for_these() -> None:
    doubles = Doubles()
    made = [
        user_code.call(doubles, rows, "pyarrow", False) for rows in (ROWS, ROWS.take([2, 1, 0]))
    ]
    assert [each["y"].to_pylist() for each in made] == [[20.0, 40.0, 60.0], [60.0, 40.0, 20.0]]


def test_a_column_that_is_not_there_is_told_with_those_that_are() -> None:
    with pytest.raises(KeyError, match=r"z.* does not exist.*; the batch has the columns x"):
        user_code.call(lambda batch: {"a": batch["z"]}, ROWS, "pyarrow", False)


def test_code_for_one_row_is_told_what_a_batch_is() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'bit_count': the code gets a batch of"):
        user_code.call(lambda row: {"a": row["x"].bit_count()}, ROWS, "pyarrow", False)
