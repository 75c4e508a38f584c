"""Photographs of a usual size, each unlike all others, and what contenders say of them."""

from collections.abc import Iterator
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa

HEIGHT, WIDTH = 375, 500
QUALITY = 90
NOISE = 6
"""Grey levels added to or taken off each pixel at most."""
SCORE_TOLERANCE = 0.02
"""One grey level moves a probability by less."""
SAME_LABELS = 0.9
"""Share of pictures; random weights leave near ties, which one grey level decides."""
PROCESSOR = {
    "size": {"shortest_edge": 256},
    "resample": 2,
    "do_center_crop": True,
    "crop_size": {"height": 224, "width": 224},
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
}
"""As torchvision's weights have their pictures."""
COLUMNS = ("path", "predicted_label", "predicted_score")


def make_inputs(folder: Path, size: int, seed: int) -> None:
    """JPEG files, made by one process a core."""
    with get_context("spawn").Pool() as pool:
        pool.map(partial(save_picture, folder, seed), range(size), chunksize=64)


def save_picture(folder: Path, seed: int, number: int) -> None:
    """One picture as a file."""
    import simplejpeg

    pixels = picture(seed, number)
    data = simplejpeg.encode_jpeg(pixels, QUALITY, colorspace="RGB", colorsubsampling="420")
    (folder / f"{number:06d}.jpg").write_bytes(data)


def picture(seed: int, number: int) -> np.ndarray:
    """A part of one of scikit-learn's photographs, mirrored or not, under noise of its own."""
    random = np.random.default_rng((seed, abs(number), int(number < 0)))
    photograph = photographs()[number % 2]
    height, width = photograph.shape[:2]
    top, left = random.integers(0, height - HEIGHT), random.integers(0, width - WIDTH)
    part = photograph[top : top + HEIGHT, left : left + WIDTH]
    part = part[:, :: random.choice([-1, 1])]
    noise = random.integers(-NOISE, NOISE + 1, part.shape, np.int16)
    return np.ascontiguousarray(np.clip(part + noise, 0, 255).astype(np.uint8))


@cache
def photographs() -> list[np.ndarray]:
    """Two, of 427 x 640 pixels."""
    from sklearn.datasets import load_sample_images

    return [image.astype(np.int16) for image in load_sample_images().images]


def names(count: int) -> dict[int, str]:
    """What a model calls its classes."""
    return {number: f"class {number}" for number in range(count)}


def compare_labels(ours: pa.Table, theirs: pa.Table) -> None:
    """Theirs resize in other ways, so that pixels may be one grey level off."""
    mine, other = (each["predicted_score"].to_numpy().astype(float) for each in (ours, theirs))
    np.testing.assert_allclose(mine, other, rtol=0, atol=SCORE_TOLERANCE)
    labels = [np.array(each["predicted_label"].to_pylist()) for each in (ours, theirs)]
    same = float(np.mean(labels[0] == labels[1]))
    assert same >= SAME_LABELS, f"only {same:.1%} of the labels are the same"
    assert len(set(labels[0])) > 1, "a model that says the same of all pictures proves nothing"


def parts(items: list[Path], count: int) -> Iterator[list[Path]]:
    """As many lists of as many each as can be."""
    yield from (items[first::count] for first in range(count))
