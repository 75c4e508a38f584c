"""Pictures in folders, as the guides' users have them."""

from pathlib import Path

import numpy as np
from PIL import Image

CLASSES = ("dots", "grid", "stripes")


def save_pictures(folder: Path, each: int, seed: int, size: int = 64) -> Path:
    """Textures as JPEG files in a folder for each class, of many sizes and colours."""
    random = np.random.default_rng(seed)
    for name in CLASSES:
        (folder / name).mkdir(parents=True)
        for number in range(each):
            height, width = random.integers(size, 2 * size, 2)
            pixels = texture(name, height, width, int(random.integers(6, 10)), random)
            Image.fromarray(pixels).save(folder / name / f"{number}.jpg", quality=95)
    return folder


def texture(
    name: str, height: int, width: int, period: int, random: np.random.Generator
) -> np.ndarray:
    """A texture, (height, width, 3) of uint8, in two colours and with some noise."""
    y, x = np.mgrid[:height, :width] % (2 * period) < period
    light = {"stripes": y, "grid": y ^ x, "dots": y & x}[name]
    dark, bright = random.uniform(0, 90, 3), random.uniform(160, 250, 3)
    pixels = np.where(light[..., None], bright, dark) + random.normal(0, 5, (height, width, 3))
    return np.clip(pixels, 0, 255).astype(np.uint8)
