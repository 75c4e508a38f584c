"""Large images as rows of one tile each."""

from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np
import pyarrow as pa
from pydantic import ConfigDict, Field

from tasks.errors import InvalidSpec
from tasks.kinds.column_types import IMAGE, MEDIA, is_deep
from tasks.kinds.columns import children, column_to_numpy
from tasks.kinds.images import Pixels, decode_column
from tasks.kinds.steps.step import Function, Step, column_to_cut
from tasks.kinds.tensors import tensor_array

X, Y = "tile_x", "tile_y"
Edges = Literal["shift", "pad", "drop"]


class TileImagesStep(Step):
    """Cuts an image into tiles, a row each; all of them are published, or none.

    `tile_x` and `tile_y` are the position of a tile's top left corner in the image, in pixels.
    """

    model_config = ConfigDict(title="Tile images")
    is_heavy: ClassVar[bool] = True
    kind: Literal["tile_images"] = "tile_images"
    column: str = Field(
        default="image",
        description="Column of the image, afterwards of the tile. Other columns are repeated.",
    )
    width: int = Field(ge=1, description="Width of a tile, in pixels.")
    height: int | None = Field(
        default=None, ge=1, description="Height of a tile, in pixels. Empty: the same as its width."
    )
    stride: int | None = Field(
        default=None,
        ge=1,
        description="Pixels from one tile's edge to the next one's, in both directions; if less "
        "than the size, tiles overlap. Empty: the size, so they touch.",
    )
    edges: Edges = Field(
        default="shift",
        description="If a last tile would stick out: shift moves it back to the edge, pad fills it "
        "with black, drop leaves it out. An image smaller than a tile is padded by shift and pad; "
        "with drop it has no tile and is filtered.",
    )

    @property
    def reads(self) -> dict[str, list[str]]:
        """The column that is cut."""
        return {"column": [self.column]}

    def build(self) -> Function:
        """The step as a function."""
        return self.tile

    def tile(self, rows: pa.Table) -> pa.Table:
        """Tiles in reading order, as arrays.

        Raises:
            InvalidSpec: the column is not there, holds no images, or a new one's name is taken.
            ValueError: an image cannot be decoded, or a row has none.
        """
        found = [
            (parent, x, y, tile)
            for parent, pixels in enumerate(self.images(rows))
            for x, y, tile in self.tiles(pixels)
        ]
        parents, xs, ys, tiles = zip(*found, strict=True) if found else ((), (), (), ())
        values = tensor_array(tiles)
        field = pa.field(self.column, values.type, metadata={MEDIA: IMAGE})
        rows = children(rows, parents, field, values)
        rows = rows.append_column(X, pa.array(xs, pa.int32()))
        return rows.append_column(Y, pa.array(ys, pa.int32()))

    def tiles(self, pixels: Pixels) -> Iterator[tuple[int, int, Pixels]]:
        """An image's tiles, each with where it lies."""
        height = self.height or self.width
        for y in positions(pixels.shape[0], height, self.stride or height, self.edges):
            for x in positions(pixels.shape[1], self.width, self.stride or self.width, self.edges):
                yield x, y, padded(pixels[y : y + height, x : x + self.width], height, self.width)

    def images(self, rows: pa.Table) -> list[Pixels]:
        """The column's images.

        Raises:
            InvalidSpec: it is not there, holds no images, or a new column's name is taken.
            ValueError: one cannot be decoded, or a row has none.
            MemoryError: several of them are too much; fewer at a time may fit.
        """
        column = column_to_cut(self.kind, rows, self.column, {X, Y})
        if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
            return [each for each in decode_column(column) if each is not None]  # none is
        is_array = is_deep(column.type)
        arrays = list(column_to_numpy(column)) if is_array else []
        if not is_array or any(each.ndim not in (2, 3) for each in arrays):
            problem = f"is {column.type}, not images"
            raise InvalidSpec.at("steps.tile_images.column", self.column, problem)
        return arrays


def positions(length: int, size: int, stride: int, edges: Edges) -> list[int]:
    """Where tiles begin along one side of an image."""
    whole = list(range(0, length - size + 1, stride))
    covered = whole[-1] + size if whole else 0
    beyond = whole[-1] + stride if whole else 0
    if max(covered, beyond) >= length or edges == "drop":
        return whole  # nothing sticks out: what lies between two strides is left out
    return [*whole, beyond if edges == "pad" else max(0, length - size)]


def padded(pixels: Pixels, height: int, width: int) -> Pixels:
    """A tile of full size, black where the image has ended."""
    missing = (height - pixels.shape[0], width - pixels.shape[1])
    if missing == (0, 0):
        return pixels
    return np.pad(pixels, [(0, each) for each in missing] + [(0, 0)] * (pixels.ndim - 2))
