"""The common case of image preprocessing, on bytes: resize, crop the centre, normalise later."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from tasks.kinds.models.vision.pixels import batch_of_one, normalised, size_by_shorter_side

BILINEAR, BICUBIC = 2, 3
WORK = (
    "preprocess",
    "_preprocess",
    "process_image",
    "resize",
    "center_crop",
    "rescale",
    "normalize",
    "_preprocess_image_like_inputs",
    "_prepare_image_like_inputs",
    "valid_kwargs",
)
"""What a processor must have from its base class if it is to hold no surprises."""
BESIDES_MAPS = ("SegformerImageProcessor", "BeitImageProcessor")
"""Processors whose own work is on maps to train with: to an image they do what their base does.

They are done exactly, whatever for: before they were known here classifiers had them do it
themselves, and what is published of that has the same config.
"""
NO_CROP = "SegformerImageProcessor"
"""The one of them that never crops, whatever its settings say."""


@dataclass(frozen=True)
class PlainResize:
    """Does what a processor does, exactly or to within one grey level."""

    height: int
    width: int
    shortest_edge: int | None
    """Keep the proportions, make the shorter side this long, cut off what is over."""
    resize_to: tuple[int, int]
    resample: int
    with_torch: bool
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, processor: Any, *, exactly: bool = False) -> "PlainResize | None":
        """The same as a processor does, or None where that does something else besides.

        Args:
            processor: of images.
            exactly: to the last grey level; else by torch where it may, which is quicker.
        """
        if not is_plain(processor):
            return None
        size, resample = dict(processor.size), int(processor.resample)
        exactly = exactly or name_of(processor) in BESIDES_MAPS
        target = dict(processor.crop_size) if processor.do_center_crop else size
        factor = processor.rescale_factor if processor.do_rescale else 1.0
        mean = three(processor.image_mean if processor.do_normalize else 0.0)
        std = three(processor.image_std if processor.do_normalize else 1.0)
        return cls(
            height=target["height"],
            width=target["width"],
            shortest_edge=size.get("shortest_edge"),
            resize_to=(size.get("height", 0), size.get("width", 0)),
            resample=resample,
            # Bicubic overshoots, and torch and Pillow clip that at different times.
            with_torch=(resample == BILINEAR and not exactly) or processor.backend == "torchvision",
            mean=tuple(each / factor for each in mean),
            std=tuple(each / factor for each in std),
        )

    def resize(self, image: np.ndarray) -> np.ndarray:
        """Bytes of height x width x 3.

        Raises:
            ValueError: before what is over is cut off, it would be too large.
        """
        height, width = image.shape[:2]
        if self.shortest_edge is None:
            to = self.resize_to
        else:
            to = size_by_shorter_side(height, width, self.shortest_edge)
        resized = image if to == (height, width) else self.scaled(image, to)
        top, left = (to[0] - self.height) // 2, (to[1] - self.width) // 2
        return resized[top : top + self.height, left : left + self.width]

    def scaled(self, image: np.ndarray, to: tuple[int, int]) -> np.ndarray:
        """Bytes at another size, smoothed when made smaller."""
        if not self.with_torch:
            return np.asarray(Image.fromarray(image).resize(to[::-1], self.resample))
        import torch

        mode = "bilinear" if self.resample == BILINEAR else "bicubic"
        resized = torch.nn.functional.interpolate(
            batch_of_one(image), size=to, mode=mode, antialias=True
        )
        return resized[0].permute(1, 2, 0).numpy()

    def normalised(self, pixels: Any) -> Any:
        """A batch of flat bytes, on any device, as the floats that the model wants."""
        return normalised(pixels, (self.height, self.width), self.mean, self.std, scale=1)


def is_plain(processor: Any) -> bool:
    """Whether a processor only resizes, crops the centre, rescales and normalises."""
    from transformers.image_processing_backends import PilBackend, TorchvisionBackend

    bases = [base for base in (PilBackend, TorchvisionBackend) if isinstance(processor, base)]
    name = name_of(processor)
    if not bases or (name not in BESIDES_MAPS and any(has_own(processor, bases[0]))):
        return False
    if name == NO_CROP and processor.do_center_crop:
        return False
    if not processor.do_resize or processor.do_pad or processor.resample not in (BILINEAR, BICUBIC):
        return False
    size = dict(processor.size)
    crop = dict(processor.crop_size or {}) if processor.do_center_crop else {}
    if set(size) == {"shortest_edge"}:
        return set(crop) == {"height", "width"} and max(crop.values()) <= size["shortest_edge"]
    if set(size) != {"height", "width"}:
        return False
    return not crop or (crop["height"] <= size["height"] and crop["width"] <= size["width"])


def name_of(processor: Any) -> str:
    """What a processor's class is called, whichever package it resizes with."""
    return type(processor).__name__.removesuffix("Pil")


def has_own(processor: Any, base: type) -> Iterator[bool]:
    """Whether a processor does a part of the work in its own way, part by part."""
    return (getattr(type(processor), part) is not getattr(base, part) for part in WORK)


def three(value: Any) -> list[float]:
    """One number for each channel."""
    return [value] * 3 if isinstance(value, (int, float)) else [float(each) for each in value]
