"""Images between the stages: arrays of any shape in a column, those of one shape in a batch."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from tasks.kinds.columns import column_to_numpy
from tasks.kinds.images import MAX_PIXELS, decode_image
from tasks.kinds.models.arrays import Index, slices
from tasks.kinds.models.input_types import refuse_other_than_images

Image = TypeVar("Image", bytes, np.ndarray)
PIXELS = "__pixels"
"""What a model reads of each image: a list of fixed size, or a tensor of any shape."""


def arrays_of(images: pa.ChunkedArray, column: str) -> Iterator[np.ndarray]:
    """Images as (height, width, 3) of uint8; encoded ones are decoded, a step's are arrays already.

    One after another, for none of them is kept where they are resized.

    Raises:
        InvalidSpec: the column holds something else.
        ValueError: one is missing, or is no image.
    """
    kind = images.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        yield from (decode_image(present(data.as_py(), column)) for data in images)
        return
    refuse_other_than_images(kind, column)
    yield from (as_rgb(present(pixels, column), column) for pixels in column_to_numpy(images))


def as_rgb(pixels: np.ndarray, column: str) -> np.ndarray:
    """An array of a step, as it is.

    Raises:
        ValueError: it is no RGB image of bytes; models would take it for another one.
    """
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
        found = f"an array of {pixels.dtype} of shape {pixels.shape}"
        wanted = "it must be uint8 of shape (height, width, 3), RGB from 0 to 255"
        raise ValueError(f"column {column!r} has {found} in this row; {wanted}")
    return pixels


def present(data: Image | None, column: str) -> Image:
    """The image, encoded or not.

    Raises:
        ValueError: there are none.
    """
    if data is None:
        raise ValueError(f"column {column!r} is empty in this row; it must be an image")
    return data


def size_by_shorter_side(height: int, width: int, edge: int) -> tuple[int, int]:
    """Height and width of an image whose shorter side is made so long, its proportions kept.

    Raises:
        ValueError: it would be larger than any image that is decoded, as a thin line is.
    """
    longer = int(edge * max(height, width) / min(height, width))
    to = (longer, edge) if width <= height else (edge, longer)
    if edge * longer > MAX_PIXELS:
        given = f"the image is {width} x {height} pixels, and {to[1]} x {to[0]} once resized"
        way_out = "cut it into less elongated pieces"
        raise ValueError(f"{given}; at most {MAX_PIXELS:,} are made: {way_out}")
    return to


def batch_of_one(image: np.ndarray) -> Any:
    """An image as a tensor of (1, 3, height, width), whose channels lie side by side in memory.

    Torch resizes such bytes faster, and leaves them as they lie. It knows them by the stride of the
    batch, which is another one where NumPy adds that dimension, or where it is added at the end.
    """
    import torch

    pixels = torch.from_numpy(np.require(image, requirements=("C", "W")))
    return pixels[None].permute(0, 3, 1, 2)


def flat_column(images: Iterable[np.ndarray], shape: tuple[int, int, int]) -> pa.Array:
    """Images as lists of fixed size.

    Args:
        images: arrays of (height, width, 3) of uint8.
        shape: their number, height and width.
    """
    size = 3 * shape[1] * shape[2]
    # Of Arrow's pool, which gives the same memory again: the system would clear 70 MB each time.
    memory = pa.allocate_buffer(shape[0] * size)
    pixels = np.frombuffer(memory, np.uint8).reshape(*shape, 3)
    for number, image in enumerate(images):
        pixels[number] = image
    flat = pa.Array.from_buffers(pa.uint8(), shape[0] * size, [None, memory])
    return pa.FixedSizeListArray.from_arrays(flat, size)


def normalised(
    pixels: Any, shape: tuple[int, int], mean: Sequence[float], std: Sequence[float], scale: float
) -> Any:
    """A batch of bytes on any device as floats, (rows, 3, height, width).

    They stay as they lie in memory, each pixel's channels side by side: convolutions want them so.

    Args:
        pixels: (rows, height x width x 3) of uint8.
        shape: height and width.
        mean: of each channel, to be taken off once a byte is divided by `scale`.
        std: of each channel, to divide by then.
        scale: what a byte is divided by first.
    """
    height, width = shape
    # By lines of the image: arithmetic over three channels at a time is five times as slow.
    lines = pixels.reshape(-1, 3 * width).float()
    if scale != 1:
        lines.div_(scale)
    for numbers, calculate in ((mean, lines.sub_), (std, lines.div_)):
        calculate(line_of((*numbers,), width, lines.device))
    return lines.view(-1, height, width, 3).permute(0, 3, 1, 2)


@lru_cache(maxsize=16)
def line_of(numbers: tuple[float, ...], width: int, device: Any) -> Any:
    """The same number of each channel for all pixels of a line, kept where the images are.

    To copy it there for each batch would make the device wait.
    """
    import torch

    with torch.inference_mode(False):  # for whoever asks next
        return torch.tensor(numbers, dtype=torch.float32, device=device).repeat(width)


def images_per_batch(device: str) -> int:
    """Images that a model gets at a time where nobody has said how many.

    Few stay in a core's cache. Of many a GPU has work while Python sends it the next ones.
    """
    return 8 if device == "cpu" else 128


def batches_of_one_shape(rows: pa.Table, size: int) -> Iterator[tuple[Index, np.ndarray]]:
    """Positions of rows and their `__pixels`, in the rows' order but for differing shapes.

    So nothing is padded, and what a model makes of an image does not depend on those beside it.
    """
    if pa.types.is_fixed_size_list(rows[PIXELS].type):
        for index in slices(len(rows), size):
            yield index, column_to_numpy(rows[PIXELS].slice(index[0], len(index)))
        return
    pixels = column_to_numpy(rows[PIXELS]) if len(rows) else np.empty(0)
    if pixels.dtype != object:
        for index in slices(len(pixels), size):
            yield index, pixels[index[0] : index[-1] + 1]
        return
    shapes = [image.shape for image in pixels]
    for shape in sorted(set(shapes)):
        same = np.array([i for i, each in enumerate(shapes) if each == shape])
        for index in slices(len(same), size):
            yield same[index], np.stack(list(pixels[same[index]]))
