"""Images: decoded and resized on the CPU as bytes, normalised on the model's device."""

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from tasks.kinds.columns import column_to_numpy, tensor_array
from tasks.kinds.images import decode_image
from tasks.kinds.models.arrays import Index, column_of, slices
from tasks.kinds.models.hf.checkpoint import Checkpoint, torch_threads
from tasks.kinds.models.hf.plain_resize import PlainResize
from tasks.kinds.models.model import Function, Placement

Image = TypeVar("Image", bytes, np.ndarray)
PIXELS = "__pixels"
"""For each image uint8 height x width x 3 (a list of fixed size); or, where the checkpoint's
processor does more than resize, crop and normalise, its floats as a tensor of any shape."""


def pixels_function(checkpoint: Checkpoint, column: str) -> Function:
    """Encoded images to `__pixels`."""
    processor = checkpoint.image_processor()
    plain = PlainResize.of(processor)
    to_array = pixels_as_bytes(plain) if plain else pixels_as_floats(processor)

    def preprocess(rows: pa.Table) -> pa.Table:
        with torch_threads(1):  # each preprocessing worker is given one core
            pixels = to_array(arrays_of(column_of(rows, column), column))
        return rows.append_column(PIXELS, pixels)

    return preprocess


def arrays_of(images: pa.ChunkedArray, column: str) -> list[np.ndarray]:
    """Images as (height, width, 3); encoded ones are decoded, those of a step are arrays already.

    Raises:
        ValueError: one is missing, or is no image.
    """
    if pa.types.is_binary(images.type) or pa.types.is_large_binary(images.type):
        return [decode_image(present(data, column)) for data in images.to_pylist()]
    return [present(pixels, column) for pixels in column_to_numpy(images)]


def present(data: Image | None, column: str) -> Image:
    """The image, encoded or not.

    Raises:
        ValueError: there are none.
    """
    if data is None:
        raise ValueError(f"column {column!r} is empty in this row; an image is wanted")
    return data


def pixels_as_bytes(plain: PlainResize) -> Callable[[list[np.ndarray]], pa.Array]:
    """A quarter of the floats' size on the way to the model."""

    def to_array(images: list[np.ndarray]) -> pa.Array:
        pixels = [plain.resize(image).ravel() for image in images]
        flat = pa.array(np.concatenate(pixels) if pixels else np.empty(0, np.uint8))
        return pa.FixedSizeListArray.from_arrays(flat, 3 * plain.height * plain.width)

    return to_array


def pixels_as_floats(processor: Any) -> Callable[[list[np.ndarray]], pa.Array]:
    """What the checkpoint's own processor makes of each image."""

    def to_array(images: list[np.ndarray]) -> pa.Array:
        return tensor_array(
            [
                np.asarray(processor(image, return_tensors="np")["pixel_values"][0], np.float32)
                for image in images
            ]
        )

    return to_array


class ImageInputs:
    """Batches of images on the model's device, normalised there."""

    def __init__(self, checkpoint: Checkpoint, placement: Placement, dtype: Any) -> None:
        self.processor = checkpoint.image_processor()
        self.plain = PlainResize.of(self.processor)
        self.placement, self.device, self.dtype = placement, placement.device, dtype

    @property
    def size(self) -> int:
        """Images in a batch."""
        return self.placement.rows(16 if self.device == "cpu" else 32)

    def batches(self, rows: pa.Table) -> Iterator[tuple[Index, dict[str, Any]]]:
        """In the rows' order, but that images of one shape go together."""
        pixels = column_to_numpy(rows[PIXELS]) if len(rows) else np.empty(0)
        if pixels.dtype != object:
            for index in slices(len(pixels), self.size):
                yield index, self.arguments(pixels[index[0] : index[-1] + 1])
            return
        shapes = [image.shape for image in pixels]
        for shape in sorted(set(shapes)):
            same = np.array([i for i, each in enumerate(shapes) if each == shape])
            for index in slices(len(same), self.size):
                yield same[index], self.arguments(np.stack(list(pixels[same[index]])))

    def arguments(self, pixels: np.ndarray) -> dict[str, Any]:
        """Pixels on the device, as the model wants them."""
        import torch

        batch = torch.from_numpy(np.require(pixels, requirements="W"))
        if self.device != "cpu":
            batch = batch.pin_memory().to(self.device, non_blocking=True)
        if self.plain and batch.dtype == torch.uint8:
            batch = self.plain.normalised(batch)
        return {"pixel_values": batch.to(self.dtype)}

    def blank(self) -> dict[str, Any]:
        """One black image."""
        if self.plain:
            return self.arguments(np.zeros((1, 3 * self.plain.height * self.plain.width), np.uint8))
        black = np.zeros((64, 64, 3), np.uint8)
        return self.arguments(
            np.asarray(self.processor(black, return_tensors="np")["pixel_values"])
        )
