"""Images between the stages: arrays of any shape in a column, those of one shape in a batch."""

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import pyarrow as pa

from tasks.errors import InvalidSpec
from tasks.kinds.columns import column_to_numpy, is_deep, is_list
from tasks.kinds.images import decode_image
from tasks.kinds.models.arrays import Index, slices

Image = TypeVar("Image", bytes, np.ndarray)
PIXELS = "__pixels"
"""What a model reads of each image: a list of fixed size, or a tensor of any shape."""


def arrays_of(images: pa.ChunkedArray, column: str) -> list[np.ndarray]:
    """Images as (height, width, 3) of uint8; encoded ones are decoded, a step's are arrays already.

    Raises:
        InvalidSpec: the column holds something else.
        ValueError: one is missing, or is no image.
    """
    kind = images.type
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [decode_image(present(data, column)) for data in images.to_pylist()]
    if not (is_deep(kind) or is_list(kind) or pa.types.is_null(kind)):
        problem = f"holds {kind}, and images are wanted: files, or arrays of a step"
        raise InvalidSpec.at("model.column", column, problem)
    return [as_rgb(present(pixels, column), column) for pixels in column_to_numpy(images)]


def as_rgb(pixels: np.ndarray, column: str) -> np.ndarray:
    """An array of a step, as it is.

    Raises:
        ValueError: it is no RGB image of bytes; models would take it for another one.
    """
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
        found = f"an array of {pixels.dtype} of shape {pixels.shape}"
        wanted = "uint8 of shape (height, width, 3), RGB from 0 to 255, is wanted"
        raise ValueError(f"column {column!r} holds {found} in this row; {wanted}")
    return pixels


def present(data: Image | None, column: str) -> Image:
    """The image, encoded or not.

    Raises:
        ValueError: there are none.
    """
    if data is None:
        raise ValueError(f"column {column!r} is empty in this row; an image is wanted")
    return data


def flat_column(images: list[np.ndarray], size: int) -> pa.Array:
    """Images of `size` numbers each as lists of fixed size."""
    pixels = [image.ravel() for image in images]
    flat = pa.array(np.concatenate(pixels) if pixels else np.empty(0, np.uint8))
    return pa.FixedSizeListArray.from_arrays(flat, size)


def batches_of_one_shape(rows: pa.Table, size: int) -> Iterator[tuple[Index, np.ndarray]]:
    """Positions of rows and their `__pixels`, in the rows' order but for differing shapes.

    So nothing is padded, and what a model makes of an image does not depend on those beside it.
    """
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
