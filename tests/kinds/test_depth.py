"""Depths are those that transformers' own pipeline estimates in each image alone."""

import io
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tasks.errors import InvalidSpec
from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.vision.depth_maps import DepthMap
from tests.kinds.maps import STEPS, depths_of
from tests.kinds.tiny_depths import ESTIMATORS, save_depth_anything, save_dpt, save_zoedepth
from tests.kinds.tiny_models import images, png, predicted, rows_of, save_vit, saved

TASK = "depth-estimation"
CLOSE = 2
"""Steps of the file: half of one is rounding, the rest the order in which a CPU adds up."""
PICTURES = [
    each
    for each in images(30)
    if 0.5 < each.shape[0] / each.shape[1] < 2 and min(each.shape[:2]) > 31
]


@pytest.fixture(scope="module", params=ESTIMATORS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    made: Path = tmp_path_factory.mktemp("depth")
    ESTIMATORS[request.param](made)
    return made


def furthest(mine: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, in steps of the file."""
    assert mine.shape == theirs.shape
    return float(np.abs(mine - theirs).max() / np.ptp(theirs) * STEPS)


def test_depths_are_those_of_transformers_own_pipeline(folder: Path) -> None:
    from transformers import pipeline

    library: Any = pipeline(TASK, str(folder), device="cpu")
    found = predicted(folder, TASK, rows_of("image", [png(each) for each in PICTURES]))
    assert len(PICTURES) > 8
    for mine, picture in zip(depths_of(found), PICTURES, strict=True):
        theirs = library(Image.fromarray(picture))["predicted_depth"].numpy()
        assert theirs.shape == picture.shape[:2]
        assert furthest(mine, theirs) < CLOSE


def test_depths_do_not_depend_on_the_other_images(folder: Path) -> None:
    same = [np.flipud(PICTURES[0]).copy(), np.fliplr(PICTURES[0]).copy()]
    rows = rows_of("image", [png(each) for each in [*PICTURES, *same]])
    together = depths_of(predicted(folder, TASK, rows, batch_size=4))
    for at, mine in enumerate(together):
        (alone,) = depths_of(predicted(folder, TASK, rows.slice(at, 1)))
        assert furthest(mine, alone) < CLOSE


def test_borders_are_the_processors_where_some_images_get_none(tmp_path: Path) -> None:
    from transformers import DPTImageProcessorPil, pipeline

    save_depth_anything(tmp_path)
    DPTImageProcessorPil(do_resize=False, do_pad=True, size_divisor=16).save_pretrained(tmp_path)
    library: Any = pipeline(TASK, str(tmp_path), device="cpu")
    found = predicted(tmp_path, TASK, rows_of("image", [png(each) for each in PICTURES[:4]]))
    for mine, picture in zip(depths_of(found), PICTURES, strict=False):
        theirs = library(Image.fromarray(picture))["predicted_depth"].numpy()
        assert furthest(mine, theirs) < CLOSE


@given(
    st.integers(1, 9),
    st.integers(1, 9),
    st.floats(-1e3, 1e3, width=32),
    st.floats(0, 1e4, width=32),
    st.integers(0, 99),
)
def test_a_file_is_within_half_a_step(
    height: int, width: int, least: float, span: float, seed: int
) -> None:
    random = np.random.default_rng(seed).random((height, width))
    depths = (least + span * random).astype(np.float32)
    made = DepthMap.of(depths)
    assert (made.least, made.most) == (depths.min(), depths.max())
    pixels = np.asarray(Image.open(io.BytesIO(made.png))).astype(np.float64)
    back = made.least + pixels / STEPS * (made.most - made.least)
    assert np.abs(back - depths).max() <= 0.5001 / STEPS * (made.most - made.least)


def test_all_of_an_image_as_far_away() -> None:
    made = DepthMap.of(np.full((3, 4), 7.5, np.float32))
    assert (made.least, made.most) == (7.5, 7.5)
    assert not np.asarray(Image.open(io.BytesIO(made.png))).any()


def test_what_is_no_number_is_no_depth(tmp_path: Path) -> None:
    import torch

    model = save_dpt(tmp_path)
    with torch.no_grad():
        model.head.head[-2].bias[0] = torch.nan
    saved(model, tmp_path)
    with pytest.raises(ValueError, match="gave no numbers for this row"):
        predicted(tmp_path, TASK, rows_of("image", [png(PICTURES[0])]))


def test_columns_keep_their_types_where_there_are_no_rows(tmp_path: Path) -> None:
    save_depth_anything(tmp_path)
    rows = rows_of("image", [png(each) for each in PICTURES[:2]])
    for found in (predicted(tmp_path, TASK, rows), predicted(tmp_path, TASK, rows[:0])):
        types = [found.schema.field(name).type for name in ("depth", "depth_min", "depth_max")]
        assert types == [pa.binary(), pa.float32(), pa.float32()]


def test_other_models_are_refused(tmp_path: Path) -> None:
    save_vit(tmp_path)
    model = HuggingFaceModel(task=TASK, name_or_path=str(tmp_path))
    with pytest.raises(InvalidSpec, match="needs a model whose name has ForDepthEstimation"):
        model.check()
    config = tmp_path / "config.json"
    kept = json.loads(config.read_text())
    del kept["architectures"]
    config.write_text(json.dumps(kept))
    with pytest.raises(
        InvalidSpec, match="of type vit, which does not estimate depth: use a model"
    ):
        model.check()
    save_dpt(tmp_path)
    model.check()
    settings = {"image_processor_type": "ViTImageProcessor"}
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(settings))
    with pytest.raises(InvalidSpec, match=r"has a ViTImageProcessor.*, which cannot turn the"):
        model.check()


def test_zoedepth_is_refused_without_torchvision(tmp_path: Path) -> None:
    if find_spec("torchvision"):
        pytest.skip("it is installed")
    save_zoedepth(tmp_path)
    with pytest.raises(InvalidSpec, match="needs the package torchvision: pip install"):
        HuggingFaceModel(task=TASK, name_or_path=str(tmp_path)).check()
