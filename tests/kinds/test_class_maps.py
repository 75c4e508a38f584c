"""A map in parts is the map of all scores at once, and a file gives it back as it was."""

import io
from concurrent.futures import Future
from threading import Event
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from PIL import Image

from tasks.kinds.models.model import Placement
from tasks.kinds.models.vision import class_maps
from tasks.kinds.models.vision.beside_gpu import AHEAD, BesideGpu
from tasks.kinds.models.vision.class_maps import (
    ROUNDING,
    Segmented,
    class_map,
    classes_that_may_win,
)
from tasks.kinds.models.vision.grey_png import grey_png

SIDE, SEED = st.integers(1, 40), st.integers(0, 999)


def at_once(scores: Any, size: tuple[int, int]) -> np.ndarray:
    """Scores of all classes at each pixel, the way it is usually done."""
    from torch.nn.functional import interpolate

    stretched = interpolate(scores[None], size=size, mode="bilinear", align_corners=False)
    return np.asarray(stretched[0].numpy())


def scores_of(seed: int, *shape: int) -> Any:
    """Some of few values, of which many are equal."""
    import torch

    made = torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    return made if seed % 3 else made.round()


@given(st.integers(1, 12), SIDE, SIDE, SIDE, SIDE, SEED)
@example(8, 8, 39, 9, 12, 9)  # two classes are equal but for rounding
def test_parts_make_the_same_map(
    classes: int, high: int, wide: int, height: int, width: int, seed: int
) -> None:
    scores = scores_of(seed, classes, high, wide)
    scores[classes // 2 :] -= seed % 4  # of which some are nowhere the likeliest
    wanted = at_once(scores, (height, width))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_maps, "ROOM_ON_CPU", 2 * 4 * height * width)
        found = class_map(scores, (height, width))
    assert found.dtype == np.uint8
    nearly = wanted.max(axis=0) - ROUNDING * np.abs(wanted).max()
    scores_found = np.take_along_axis(wanted, found[None].astype(np.intp), axis=0)[0]
    assert (scores_found >= nearly).all()
    assert {*np.unique(wanted.argmax(axis=0)).tolist()} <= {*classes_that_may_win(scores).tolist()}


def test_of_equal_classes_the_first_is_taken_whatever_part_they_are_in() -> None:
    scores = scores_of(1, 1, 5, 7).repeat(6, 1, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_maps, "ROOM_ON_CPU", 2 * 4 * 5 * 7)
        assert not class_map(scores, (5, 7)).any()


def test_what_is_nowhere_the_likeliest_is_not_stretched() -> None:
    scores = scores_of(1, 150, 16, 16)
    scores[5:] -= 20
    assert classes_that_may_win(scores).tolist() == [0, 1, 2, 3, 4]


def test_a_class_may_win_between_places_where_others_do() -> None:
    import torch

    scores = torch.tensor([[[4.0, 0.0]], [[0.0, 4.0]], [[3.0, 3.0]]]).repeat(1, 2, 1)
    assert (class_map(scores, (2, 9))[0] == at_once(scores, (2, 9)).argmax(axis=0)[0]).all()
    assert {*class_map(scores, (2, 9)).ravel()} == {0, 1, 2}


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (9, 1), (33, 50)])
def test_a_file_gives_the_numbers_back(dtype: Any, shape: tuple[int, int]) -> None:
    random = np.random.default_rng(0)
    for most in (1, np.iinfo(dtype).max):
        numbers = random.integers(0, most + 1, shape, dtype)
        file = io.BytesIO(grey_png(numbers))
        with Image.open(file) as image:
            image.verify()
        with Image.open(file) as image:
            assert image.format == "PNG"
            assert image.mode == ("L" if dtype == np.uint8 else "I;16")
            assert (np.asarray(image) == numbers).all()


def test_equal_shares_are_in_the_classes_order() -> None:
    found = Segmented.of(np.array([[3, 3, 1, 1, 0, 0, 0, 0]], np.uint8))
    assert (found.label_ids, found.shares) == ([0, 1, 3], [0.5, 0.25, 0.25])


def test_threads_beside_a_gpu_keep_few_things_waiting() -> None:
    """No GPU is asked for anything here."""
    go_on, waited = Event(), list[int]()

    def make(number: int) -> int:
        assert go_on.wait(30)
        if number == 2:
            raise ValueError("two")
        return -number

    later = BesideGpu(make, Placement("cuda", num_threads=2))
    coming = [later(number) for number in range(2 * AHEAD)]

    class First(Future[int]):
        """Is not made before somebody waits for it."""

        def exception(self, timeout: float | None = None) -> None:
            waited.append(len(later.coming))
            go_on.set()

    later.coming[0] = First()
    coming.append(later(99))
    go_on.set()
    assert waited == [2 * AHEAD - 1]
    assert [each() for at, each in enumerate(coming) if at != 2] == [0, -1, *range(-3, -8, -1), -99]
    with pytest.raises(ValueError, match="two"):
        coming[2]()
    assert BesideGpu(str, Placement())(3)() == "3"
