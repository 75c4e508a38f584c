"""torchvision's transforms, parted: sizes on the CPU, in bytes; the rest on the model's device."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.models.arrays import Columns, Index, column_of, label_columns
from tasks.kinds.models.hf.checkpoint import torch_dtype
from tasks.kinds.models.hf.prediction import predict_with
from tasks.kinds.models.model import Function, Placement
from tasks.kinds.models.runtimes.runtime_used import Runtime, RuntimeUsed
from tasks.kinds.models.torch_batches import Call, on_device
from tasks.kinds.models.torch_threads import shared_out
from tasks.kinds.models.vision.detection import (
    Arguments,
    Choice,
    detect_with,
    refuse_no_numbers,
    whole_numbers_of_pixels,
)
from tasks.kinds.models.vision.pixels import (
    PIXELS,
    arrays_of,
    batch_of_one,
    batches_of_one_shape,
    flat_column,
    images_per_batch,
    normalised,
    size_by_shorter_side,
)
from tasks.kinds.models.vision.running import image_run
from tasks.kinds.tensors import tensor_array

HEADS = ("head", "rpn.head", "roi_heads.box_predictor")
"""Of torchvision's detectors, which drop what is no number before anyone sees it."""


def crops_function(preset: Any, column: str, num_threads: int) -> Function:
    """Encoded images to `__pixels`: uint8, crop x crop x 3, as ImageClassification cuts them."""
    from torchvision.transforms import functional

    def crop(image: np.ndarray) -> np.ndarray:
        # Refuses thin lines, which torchvision would resize whole, to gigabytes, before the crop.
        size_by_shorter_side(image.shape[0], image.shape[1], preset.resize_size[0])
        resized = functional.resize(
            batch_of_one(image),
            preset.resize_size,
            interpolation=preset.interpolation,
            antialias=preset.antialias,
        )
        cropped = functional.center_crop(resized, preset.crop_size)
        return np.asarray(cropped[0].permute(1, 2, 0).numpy())

    def preprocess(rows: pa.Table) -> pa.Table:
        crops = map(crop, arrays_of(column_of(rows, column), column))
        side = preset.crop_size[0]
        return rows.append_column(PIXELS, flat_column(crops, (len(rows), side, side)))

    return shared_out(preprocess, num_threads)


def images_function(column: str, num_threads: int) -> Function:
    """Encoded images to `__pixels`: uint8, height x width x 3, of any size: detectors resize."""

    def preprocess(rows: pa.Table) -> pa.Table:
        images = arrays_of(column_of(rows, column), column)
        return rows.append_column(PIXELS, tensor_array([*images]))

    return shared_out(preprocess, num_threads)


class CropInputs:
    """Batches of crops on the model's device, normalised there."""

    def __init__(self, preset: Any, placement: Placement) -> None:
        self.preset, self.placement, self.dtype = preset, placement, torch_dtype(placement)
        self.shape = (*preset.crop_size * 2,)

    @property
    def size(self) -> int:
        """Images in a batch."""
        return self.placement.rows(images_per_batch(self.placement.device))

    def batches(self, rows: pa.Table) -> Iterator[tuple[Index, Arguments]]:
        """In the rows' order."""
        for index, pixels in batches_of_one_shape(rows, self.size):
            yield index, self.arguments(pixels)

    def arguments(self, pixels: np.ndarray) -> Arguments:
        """Bytes as the floats that the model wants."""
        batch = on_device(pixels, self.placement.device)
        mean, std = self.preset.mean, self.preset.std
        return {"x": normalised(batch, self.shape, mean, std, scale=255).to(self.dtype)}

    def blank(self) -> Arguments:
        """One black image."""
        return self.arguments(np.zeros((1, 3 * np.prod(self.shape)), np.uint8))


def classifier(
    model: Any,
    preset: Any,
    classes: Sequence[str],
    top_k: int,
    placement: Placement,
    runtime: Runtime,
) -> Function:
    """A predictor that adds `predicted_label` and `predicted_score`."""
    model = model.to(placement.device, torch_dtype(placement))

    def finish(logits: Any) -> Columns:
        return label_columns(logits.softmax(-1).cpu().numpy(), classes, top_k)

    inputs = CropInputs(preset, placement)
    return predict_with(inputs, image_run(model, by_name, inputs, placement, runtime), finish)


def by_name(model: Any) -> Call:
    """A model as a function of its arguments by name."""
    return lambda arguments: model(**arguments)


def detector(model: Any, choice: Choice, placement: Placement) -> Function:
    """A predictor that adds `boxes`, `labels` and `scores`.

    Raises:
        InvalidSpec: it is to calculate with other numbers than float32.
    """
    if whole_numbers_of_pixels(placement).dtype != "float32":
        problem = "must be auto or float32: torchvision's detectors support no other"
        raise InvalidSpec.at("resources.dtype", placement.dtype, problem)
    model = model.to(placement.device)
    for name, module in model.named_modules():
        if name in HEADS:
            module.register_forward_hook(lambda *given: refuse_no_numbers(given[-1]))
    placement.runtimes.tell(RuntimeUsed("eager", "eager", "float32", placement.device))

    def batches(rows: pa.Table) -> Iterator[tuple[Index, Arguments]]:
        size = placement.rows(2 if placement.device == "cpu" else 8)
        for index, pixels in batches_of_one_shape(rows, size):
            batch = on_device(pixels, placement.device)
            yield index, {"images": [*(batch.permute(0, 3, 1, 2) / 255)]}

    return detect_with(batches, model, by_name, choice, placement)
