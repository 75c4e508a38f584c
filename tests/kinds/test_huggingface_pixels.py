"""Images reach the model as the checkpoint's own processor would hand them over."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tasks.errors import InvalidSpec
from tasks.kinds.columns import column_to_numpy
from tasks.kinds.models import HuggingFaceModel
from tasks.kinds.models.hf.image import ImageInputs, processed
from tasks.kinds.models.hf.plain_resize import BESIDES_MAPS, BICUBIC, BILINEAR, PlainResize
from tasks.kinds.models.hf.whole_images import Preparation
from tasks.kinds.models.model import Placement
from tasks.kinds.models.vision.pixels import PIXELS
from tests.kinds.tiny_models import PROCESSORS, images, noise, png, rows_of, save_convnext, save_vit

TOLERANCE = 2e-5
GREY_LEVEL = 1 / 255 / 0.25
"""The largest step of one grey level after normalising with the smallest deviation."""


@pytest.mark.parametrize("name", PROCESSORS)
def test_pixels_are_the_image_processors_to_one_grey_level(name: str, tmp_path: Path) -> None:
    import torch
    from transformers import AutoImageProcessor

    save_vit(tmp_path, name)
    pictures = [*images(12), *noise((30, 12), (12, 30), (7, 7))]
    model = HuggingFaceModel(task="image-classification", name_or_path=str(tmp_path))
    rows = model.preprocessor()(rows_of("image", [png(each) for each in pictures]))

    processor = AutoImageProcessor.from_pretrained(tmp_path)
    plain = PlainResize.of(processor)
    assert (plain is None) == (name in ("lanczos", "cut-out"))
    assert pa.types.is_fixed_size_list(rows.schema.field(PIXELS).type) == (plain is not None)
    inputs = ImageInputs(model.checkpoint, Placement(), torch.float32)
    for index, arguments in inputs.batches(rows):
        for i, mine in zip(index, arguments["pixel_values"], strict=True):
            wanted = processor(images=pictures[i], return_tensors="np")["pixel_values"][0]
            assert np.abs(mine.numpy() - wanted).max() <= GREY_LEVEL + TOLERANCE


@pytest.mark.parametrize("name", BESIDES_MAPS)
def test_pixels_are_exact_of_processors_that_were_asked_themselves_before(
    name: str, tmp_path: Path
) -> None:
    """What earlier releases have published of them has the config of what comes now."""
    import torch
    import transformers

    save_vit(tmp_path)
    size = {"height": 16, "width": 16}
    processor = getattr(transformers, f"{name}Pil")(size=size, resample=BILINEAR)
    processor.save_pretrained(tmp_path)
    pictures = [*images(12), *noise((30, 12), (7, 7))]
    model = HuggingFaceModel(task="image-classification", name_or_path=str(tmp_path))
    rows = model.preprocessor()(rows_of("image", [png(each) for each in pictures]))
    assert pa.types.is_fixed_size_list(rows.schema.field(PIXELS).type)
    inputs = ImageInputs(model.checkpoint, Placement(), torch.float32)
    for index, arguments in inputs.batches(rows):
        for i, mine in zip(index, arguments["pixel_values"], strict=True):
            np.testing.assert_allclose(mine, processed(processor, pictures[i])[0], atol=TOLERANCE)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"image_mean": None}, "`image_mean` and `image_std` must both be specified"),
        ({"image_std": [0.5, 0.5]}, "std must have 3 elements"),
        ({"size": None}, "`size` and `resample` must be specified"),
        ({"size": {}}, "size must have one of the following set of keys"),
        ({"resample": None}, "`size` and `resample` must be specified"),
    ],
)
def test_settings_by_which_no_image_can_be_prepared_are_no_rows_fault(
    tmp_path: Path, settings: dict[str, Any], problem: str
) -> None:
    save_vit(tmp_path)
    file = tmp_path / "preprocessor_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))
    said = rf"name_or_path: .* settings in its preprocessor_config\.json with which .*: {problem}"
    model = HuggingFaceModel(task="image-classification", name_or_path=str(tmp_path))
    for build in (model.preprocessor, partial(model.predictor, Placement())):
        with pytest.raises(InvalidSpec, match=said):
            build()
    if settings == {"image_mean": None}:
        with pytest.raises(InvalidSpec, match=said):
            Preparation(model.checkpoint)  # of detectors


@pytest.mark.parametrize("resample", [BILINEAR, BICUBIC])
def test_resized_bytes_lie_as_decoded_ones_do(resample: int) -> None:
    """Else torch takes half as long again to resize, and each crop has to be turned round."""
    mean = std = (0.0, 0.0, 0.0)
    plain = PlainResize(20, 9, None, (20, 9), resample, True, mean, std)
    assert plain.resize(noise((30, 12))[0]).flags.c_contiguous


@pytest.mark.parametrize("shape", [(1, 4_000, 3), (4_000, 1, 3)])
def test_a_thin_line_is_not_resized_to_gigabytes(shape: tuple[int, int, int]) -> None:
    mean = std = (0.0, 0.0, 0.0)
    plain = PlainResize(224, 224, 256, (0, 0), BILINEAR, True, mean, std)
    sizes = r"\d+ x \d+ pixels, and (1024000 x 256|256 x 1024000) once resized"
    with pytest.raises(ValueError, match=f"{sizes}; at most .* cut it"):
        plain.resize(np.zeros(shape, np.uint8))


@pytest.mark.parametrize("shape", [(1, 40), (3, 40), (4, 40), (40, 3)])
def test_lines_of_an_image_are_not_taken_for_channels(
    shape: tuple[int, int], tmp_path: Path
) -> None:
    from transformers import AutoImageProcessor

    save_vit(tmp_path, "lanczos")
    picture = noise(shape)[0]
    model = HuggingFaceModel(task="image-classification", name_or_path=str(tmp_path))
    rows = model.preprocessor()(rows_of("image", [png(picture)]))
    given = {"input_data_format": "channels_last", "return_tensors": "np"}
    wanted = AutoImageProcessor.from_pretrained(tmp_path)(images=picture, **given)
    found = column_to_numpy(rows[PIXELS])[0]
    np.testing.assert_allclose(found, wanted["pixel_values"][0], atol=TOLERANCE)


def test_a_processor_that_asks_for_no_layout_is_told_none() -> None:
    """As timm's is."""

    class Processor:
        def preprocess(self, images: np.ndarray, return_tensors: str) -> dict[str, np.ndarray]:
            return {"pixel_values": images[None]}

        __call__ = preprocess

    picture = noise((3, 8))[0]
    np.testing.assert_array_equal(processed(Processor(), picture), picture[None])


@pytest.mark.parametrize("shape", [(1, 10_000), (10_000, 1)])
def test_no_processor_resizes_a_thin_line_to_gigabytes(
    shape: tuple[int, int], tmp_path: Path
) -> None:
    from transformers import AutoImageProcessor

    save_convnext(tmp_path)
    processor = AutoImageProcessor.from_pretrained(tmp_path)
    processor.size["shortest_edge"] = 320
    assert PlainResize.of(processor) is None
    with pytest.raises(ValueError, match=r"once resized; at most .* cut it into"):
        processed(processor, np.zeros((*shape, 3), np.uint8))
