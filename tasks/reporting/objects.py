"""Objects that a detector has found, drawn on their image."""

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from PIL import Image, ImageDraw, ImageFont

SHOWN_OBJECTS = 20
PIXELS = 256
"""An image's longer side: labels need room."""
COLOURS = ("#d1242f", "#0969da", "#1a7f37", "#9a6700", "#8250df", "#bf3989", "#1b7c83", "#bc4c00")
CHARACTERS = 24


@dataclass(frozen=True)
class Object:
    """One of them."""

    box: tuple[float, float, float, float]
    """x0, y0, x1, y1 in pixels of the image as it was read."""
    label: str
    score: float


def objects_of(row: Mapping[str, Any]) -> list[Object] | None:
    """The best objects of a row; None where the row has none of detection's columns.

    Columns of these names may hold anything: a model of a user's may have made them.
    """
    columns = [row.get(name) for name in ("boxes", "labels", "scores")]
    if not all(isinstance(each, list) for each in columns):
        return None
    left, top = (row.get(name) or 0 for name in ("tile_x", "tile_y"))
    found = []
    for box, label, score in zip(*columns, strict=False):
        try:
            x0, y0, x1, y1 = map(float, box)
            each = Object((left + x0, top + y0, left + x1, top + y1), str(label), float(score))
        except (TypeError, ValueError):
            continue
        if all(map(math.isfinite, (*each.box, each.score))) and x0 <= x1 and y0 <= y1:
            found.append(each)
    return sorted(found, key=lambda each: -each.score)[:SHOWN_OBJECTS]


def drawn(image: Image.Image, objects: list[Object]) -> Image.Image:
    """The image at a size at which labels can be read, with boxes; the best lies on top."""
    width, height = (max(1, round(each * PIXELS / max(image.size))) for each in image.size)
    small = image.resize((width, height))
    scale = small.width / image.width, small.height / image.height
    pen, font = ImageDraw.Draw(small), ImageFont.load_default(11)
    for each in reversed([each for each in objects if is_inside(each, image.size)]):
        draw_object(pen, font, each, scale, small.size)
    return small


def is_inside(found: Object, size: tuple[int, int]) -> bool:
    """Whether a part of a box lies in the image; a padded tile has objects beyond it."""
    x0, y0, x1, y1 = found.box
    return x0 < size[0] and y0 < size[1] and x1 >= 0 and y1 >= 0


def draw_object(
    pen: ImageDraw.ImageDraw,
    font: Any,
    found: Object,
    scale: tuple[float, float],
    size: tuple[int, int],
) -> None:
    """A box with its label and score, as far as it is in the image."""
    colour = COLOURS[zlib.crc32(found.label.encode()) % len(COLOURS)]
    corners = [
        min(max(at * scale[axis % 2], 0), size[axis % 2] - 1) for axis, at in enumerate(found.box)
    ]
    pen.rectangle(corners, outline=colour, width=2)
    words = f"{' '.join(found.label.split())[:CHARACTERS]} {found.score:.2f}"
    width, height = pen.textlength(words, font=font) + 4, 13
    x = max(0, min(corners[0], size[0] - width))
    y = corners[1] - height if corners[1] >= height else corners[1]
    pen.rectangle((x, y, x + width, y + height), fill=colour)
    pen.text((x + 2, y), words, fill="#ffffff", font=font)
