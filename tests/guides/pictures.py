"""Pictures in folders, as the guides' users have them."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

TEXTURES = {"grid": "grid", "shade": "shade", "stripes": "stripes"}


def save_pictures(
    folder: Path, each: int, seed: int, textures: Mapping[str, str] = TEXTURES
) -> Path:
    """Pictures as JPEG files, of many sizes and colours; `textures` says what a subfolder shows."""
    random = np.random.default_rng(seed)
    for name, shown in textures.items():
        (folder / name).mkdir(parents=True)
        for number in range(each):
            height, width = random.integers(64, 128, 2)
            pixels = texture(shown, height, width, int(random.integers(6, 10)), random)
            Image.fromarray(pixels).save(folder / name / f"{number}.jpg", quality=95)
    return folder


def texture(
    name: str, height: int, width: int, period: int, random: np.random.Generator
) -> np.ndarray:
    """A texture, (height, width, 3) of uint8, in two colours and with some noise."""
    y, x = np.mgrid[:height, :width]
    down, across = (each % (2 * period) < period for each in (y, x))
    light = {"grid": down ^ across, "stripes": down, "shade": x / width}[name][..., None]
    dark, bright = random.uniform(0, 90, 3), random.uniform(160, 250, 3)
    pixels = light * bright + (1 - light) * dark + random.normal(0, 5, (height, width, 3))
    return np.clip(pixels, 0, 255).astype(np.uint8)
