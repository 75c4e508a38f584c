"""Rows shared out among threads, and torch's own."""

import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tasks.kinds.images import Pixels, decode_image
from tasks.kinds.models.torch_threads import shared_out, torch_threads
from tests.kinds.tiny_models import images, png, rows_of, save_vit

PATIENCE = 60.0


@pytest.mark.parametrize("count", [0, 1, 3, 8, 9, 100])
@pytest.mark.parametrize("num_threads", [1, 2, 3])
def test_all_rows_come_back_in_their_order(count: int, num_threads: int) -> None:
    rows = pa.table({"x": pa.array(range(count), pa.int64())})
    twice = shared_out(lambda part: part.append_column("y", part["x"]), num_threads)
    assert twice(rows).to_pydict() == {"x": [*range(count)], "y": [*range(count)]}


def test_threads_are_at_work_at_once_and_torch_has_one_in_each() -> None:
    import torch

    both, seen = threading.Barrier(2), set[int]()

    def waiting(part: pa.Table) -> pa.Table:
        seen.add(torch.get_num_threads())
        both.wait(PATIENCE)
        return part

    with torch_threads(2):
        assert len(shared_out(waiting, 2)(pa.table({"x": [1, 2, 3, 4]}))) == 4
        assert torch.get_num_threads() == 2
    assert seen == {1}


def test_none_goes_on_where_another_one_fails() -> None:
    both, ended = threading.Barrier(2), list[int]()

    def failing(part: pa.Table) -> pa.Table:
        first = part["x"][0].as_py()
        both.wait(PATIENCE)
        if not first:
            raise ValueError("no image")
        threading.Event().wait(0.2)
        ended.append(first)
        return part

    with pytest.raises(ValueError, match="no image"):
        shared_out(failing, 2)(pa.table({"x": [0, 1]}))
    assert ended == [1]


@pytest.mark.parametrize("num_threads", [2, 3])
def test_images_are_the_same_whatever_the_threads(
    num_threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tasks.kinds.models.huggingface import HuggingFaceModel

    seen = list[threading.Thread]()

    def decode(data: bytes) -> Pixels:
        seen.append(threading.current_thread())
        return decode_image(data)

    monkeypatch.setattr("tasks.kinds.models.vision.pixels.decode_image", decode)
    save_vit(tmp_path)
    model = HuggingFaceModel(task="image-classification", name_or_path=str(tmp_path))
    rows = rows_of("image", [png(each) for each in images(20)])
    one = model.preprocessor()(rows)
    assert {*seen} == {threading.main_thread()}
    several = model.preprocessor(num_threads)(rows)
    assert threading.main_thread() not in seen[20:]
    assert several.schema == one.schema
    pixels = [np.stack(each["__pixels"].to_numpy()) for each in (one, several)]
    assert (pixels[0] == pixels[1]).all()
