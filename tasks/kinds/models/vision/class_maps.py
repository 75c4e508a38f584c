"""The likeliest class at each pixel of an image, of scores for fewer places than it has pixels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa

from tasks.kinds.models.arrays import Columns
from tasks.kinds.models.vision.grey_png import Numbers, grey_png

CLASSES_OF_A_BYTE, CLASSES_OF_A_MAP = 1 << 8, 1 << 16
ROUNDING = 1e-5
"""Of the largest score: by less than that, one score between others may be off."""
ROOM_ON_CPU, ROOM_ON_GPU = 1 << 25, 1 << 28
"""Bytes of scores that are stretched to an image's size at a time. All of them would be 150 classes
in a photograph of 12 megapixels: 7 GB."""


def class_map(scores: Any, size: tuple[int, int]) -> Numbers:
    """The likeliest class of each pixel; of equal ones the first.

    As where all scores are stretched to the image's size, and the largest is looked for then: but
    of some classes at a time, and not of those that are nowhere the likeliest. PyTorch rounds a
    score otherwise where it stretches fewer of them: of two classes that differ by no more than
    that, either may be taken.

    Args:
        scores: (classes, height, width) of float32, on any device.
        size: height and width of the image.
    """
    import torch
    from torch.nn.functional import interpolate

    few = len(scores) <= CLASSES_OF_A_BYTE
    likely = classes_that_may_win(scores)
    room = ROOM_ON_CPU if scores.device.type == "cpu" else ROOM_ON_GPU
    each = max(1, room // (scores.element_size() * size[0] * size[1]))
    best = winner = None
    for some in likely.split(each):
        stretched = interpolate(
            scores[some].contiguous()[None], size=size, mode="bilinear", align_corners=False
        )
        score, at = stretched[0].max(dim=0)
        classes = some[at].to(torch.uint8 if few else torch.int32)
        if best is None or winner is None:
            best, winner = score, classes
            continue
        is_better = score > best
        best, winner = score.where(is_better, best), classes.where(is_better, winner)
    assert winner is not None  # there is at least one class
    found: Numbers = winner.cpu().numpy().astype(np.uint8 if few else np.uint16, copy=False)
    return found


def classes_that_may_win(scores: Any) -> Any:
    """Classes that are the likeliest at some pixel, and perhaps others.

    A pixel's score lies between those of the four places around it. A class whose largest of the
    four is everywhere below the smallest of another one needs no stretching: of 150, most.
    """
    import torch

    everyone = torch.arange(len(scores), device=scores.device)
    if min(scores.shape[1:]) < 2:
        return everyone
    above, below = scores[:, :-1], scores[:, 1:]
    most, least = torch.maximum(above, below), torch.minimum(above, below)
    most = torch.maximum(most[..., :-1], most[..., 1:])
    least = torch.minimum(least[..., :-1], least[..., 1:])
    nearly = least.amax(dim=0) - ROUNDING * scores.abs().amax()
    return everyone[(most >= nearly).flatten(1).any(dim=1)]


@dataclass(frozen=True)
class Segmented:
    """What is published of one image."""

    png: bytes
    label_ids: list[int]
    """Classes that are there, the one of most pixels first."""
    shares: list[float]
    """Of the image's pixels, of each of them."""

    @classmethod
    def of(cls, classes: Numbers) -> Self:
        """A map as a file, and what is on it."""
        pixels = np.bincount(classes.ravel())
        order = np.argsort(-pixels, kind="stable")[: np.count_nonzero(pixels)]
        return cls(grey_png(classes), order.tolist(), (pixels[order] / classes.size).tolist())


def segmentation_columns(found: Sequence[Segmented], names: Sequence[str]) -> Columns:
    """`segmentation`, and of each class that is on it `labels`, `label_ids` and `shares`."""
    label_ids = pa.array([each.label_ids for each in found], pa.list_(pa.int32()))
    labels = pa.array(names, pa.string()).take(label_ids.flatten())
    return {
        "segmentation": pa.array([each.png for each in found], pa.binary()),
        "labels": pa.ListArray.from_arrays(label_ids.offsets, labels),
        "label_ids": label_ids,
        "shares": pa.array([each.shares for each in found], pa.list_(pa.float32())),
    }
