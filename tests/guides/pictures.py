"""Pictures in folders, as the guides' users have them."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from PIL import Image

COLOURS = {"grid": (240, 120, 60), "shade": (90, 240, 120), "stripes": (120, 90, 240)}
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
            pixels = texture(shown, height, width, random)
            Image.fromarray(pixels).save(folder / name / f"{number}.jpg", quality=95)
    return folder


def texture(name: str, height: int, width: int, random: np.random.Generator) -> np.ndarray:
    """A texture in two colours and with some noise, (height, width, 3) of uint8."""
    y, x = np.mgrid[:height, :width]
    grid = (y // random.integers(10, 14) + x // random.integers(10, 14)) % 2
    stripes = y // random.integers(3, 5) % 2
    light = {"grid": grid, "stripes": stripes, "shade": x / width}[name][..., None]
    dark, bright = random.uniform(0, 60, 3), random.uniform(0.8, 1, 3) * COLOURS[name]
    pixels = light * bright + (1 - light) * dark + random.normal(0, 5, (height, width, 3))
    return np.clip(pixels, 0, 255).astype(np.uint8)
