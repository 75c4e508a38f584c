"""Published maps, read as people read them, and how they differ."""

import io

import numpy as np
import pyarrow as pa
from PIL import Image

STEPS = 65_535
"""From the least to the most of an image's depths."""


def maps_of(rows: pa.Table) -> list[np.ndarray]:
    """Published maps, as a PNG reader finds them."""
    return [np.asarray(Image.open(io.BytesIO(each))) for each in rows["segmentation"].to_pylist()]


def share_that_differs(mine: list[np.ndarray], theirs: list[np.ndarray]) -> float:
    """Of all pixels."""
    assert [each.shape for each in mine] == [each.shape for each in theirs]
    others = sum(int((a != b).sum()) for a, b in zip(mine, theirs, strict=True))
    return others / sum(each.size for each in theirs)


def depths_of(rows: pa.Table) -> list[np.ndarray]:
    """Published depths, as the documentation says that they are to be read."""
    found = []
    for row in rows.to_pylist():
        with Image.open(io.BytesIO(row["depth"])) as image:
            assert image.mode == "I;16"
            pixels = np.asarray(image)
        assert (pixels.min(), pixels.max()) == (0, STEPS)
        span = row["depth_max"] - row["depth_min"]
        found.append(row["depth_min"] + pixels / STEPS * span)
    return found
