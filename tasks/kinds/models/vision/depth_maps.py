"""Depths as files that any reader of images reads, and the numbers that their ends stand for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from tasks.kinds.models.arrays import Columns
from tasks.kinds.models.vision.grey_png import grey_png

LARGEST = 0xFFFF


@dataclass(frozen=True)
class DepthMap:
    """What is published of one image."""

    png: bytes
    """Of 16 bits: 0 stands for the least of the image's depths, 65,535 for the most."""
    least: float
    most: float

    @classmethod
    def of(cls, depths: np.ndarray) -> Self:
        """Depths, (height, width) of float32, to within a 131,070th of what lies between them.

        Half a step. Floats would be as large again, and most of what they say besides is noise.
        """
        least, most = float(depths.min()), float(depths.max())
        scaled = (depths.astype(np.float64) - least) * (LARGEST / ((most - least) or 1))
        return cls(grey_png(np.rint(scaled).astype(np.uint16)), least, most)


def depth_columns(found: Sequence[DepthMap]) -> Columns:
    """`depth`, `depth_min` and `depth_max`."""
    return {
        "depth": pa.array([each.png for each in found], pa.binary()),
        "depth_min": pa.array([each.least for each in found], pa.float32()),
        "depth_max": pa.array([each.most for each in found], pa.float32()),
    }
