"""Images: decoded and resized on the CPU as bytes, normalised on the model's device."""

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.kinds.models.arrays import Index, column_of
from tasks.kinds.models.hf.checkpoint import Checkpoint
from tasks.kinds.models.hf.plain_resize import PlainResize
from tasks.kinds.models.model import Function, Placement
from tasks.kinds.models.torch_batches import on_device
from tasks.kinds.models.torch_threads import shared_out
from tasks.kinds.models.vision.pixels import (
    PIXELS,
    arrays_of,
    batches_of_one_shape,
    flat_column,
    images_per_batch,
    size_by_shorter_side,
)
from tasks.kinds.tensors import tensor_array

ToArray = Callable[[Iterable[np.ndarray], int], pa.Array]
"""Makes a column of images, of which there are so many."""
LAYOUT = "input_data_format"


def pixels_function(checkpoint: Checkpoint, column: str, num_threads: int) -> Function:
    """Encoded images to `__pixels`.

    They are uint8, height x width x 3; or, where the checkpoint's processor does more than resize,
    crop and normalise, its floats.
    """
    processor = tried_processor(checkpoint)
    plain = PlainResize.of(processor)
    to_array = pixels_as_bytes(plain) if plain else pixels_as_floats(processor)

    def preprocess(rows: pa.Table) -> pa.Table:
        pixels = to_array(arrays_of(column_of(rows, column), column), len(rows))
        return rows.append_column(PIXELS, pixels)

    return shared_out(preprocess, num_threads)


def tried_processor(checkpoint: Checkpoint) -> Any:
    """The checkpoint's image processor.

    Raises:
        InvalidSpec: by its settings no image can be prepared, and each row would be set aside.
    """
    processor = checkpoint.image_processor()
    with checkpoint.prepares_images():
        processed(processor, np.zeros((48, 64, 3), np.uint8))
    return processor


def pixels_as_bytes(plain: PlainResize) -> ToArray:
    """A quarter of the floats' size on the way to the model."""

    def to_array(images: Iterable[np.ndarray], count: int) -> pa.Array:
        return flat_column(map(plain.resize, images), (count, plain.height, plain.width))

    return to_array


def pixels_as_floats(processor: Any) -> ToArray:
    """What the checkpoint's own processor makes of each image."""

    def to_array(images: Iterable[np.ndarray], count: int) -> pa.Array:
        return tensor_array([processed(processor, image)[0] for image in images])

    return to_array


def processed(processor: Any, image: np.ndarray) -> np.ndarray:
    """A batch of one, as a checkpoint's own processor makes it.

    Raises:
        ValueError: before anything is cut off, the image would be too large.
    """
    refuse_thin(processor, image)
    made = processor(image, return_tensors="np", **layout_for(processor))
    return np.asarray(made["pixel_values"], np.float32)


def refuse_thin(processor: Any, image: np.ndarray) -> None:
    """See that a processor does not resize a thin line, whole, to gigabytes.

    Raises:
        ValueError: it would.
    """
    size = dict(getattr(processor, "size", None) or {})
    if set(size) == {"shortest_edge"}:
        size_by_shorter_side(image.shape[0], image.shape[1], size["shortest_edge"])


def layout_for(processor: Any) -> dict[str, str]:
    """How images lie, for a processor that asks: it takes 1, 3 or 4 lines for channels.

    Timm's does not ask.
    """
    known = inspect.signature(processor.preprocess).parameters.values()
    asks = any(each.kind is each.VAR_KEYWORD or each.name == LAYOUT for each in known)
    return {LAYOUT: "channels_last"} if asks else {}


class ImageInputs:
    """Batches of images on the model's device, normalised there."""

    def __init__(self, checkpoint: Checkpoint, placement: Placement, dtype: Any) -> None:
        self.processor = tried_processor(checkpoint)
        self.plain = PlainResize.of(self.processor)
        self.placement, self.device, self.dtype = placement, placement.device, dtype

    @property
    def size(self) -> int:
        """Images in a batch."""
        return self.placement.rows(images_per_batch(self.device))

    def batches(self, rows: pa.Table) -> Iterator[tuple[Index, dict[str, Any]]]:
        """In the rows' order, but that images of one shape go together."""
        for index, pixels in batches_of_one_shape(rows, self.size):
            yield index, self.arguments(pixels)

    def arguments(self, pixels: np.ndarray) -> dict[str, Any]:
        """Pixels on the device, as the model wants them."""
        import torch

        batch = on_device(pixels, self.device)
        if self.plain and batch.dtype == torch.uint8:
            batch = self.plain.normalised(batch)
        return {"pixel_values": batch.to(self.dtype)}

    def blank(self) -> dict[str, Any]:
        """One black image."""
        if self.plain:
            return self.arguments(np.zeros((1, 3 * self.plain.height * self.plain.width), np.uint8))
        black = np.zeros((64, 64, 3), np.uint8)
        return self.arguments(processed(self.processor, black))
