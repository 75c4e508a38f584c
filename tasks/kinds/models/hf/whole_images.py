"""Whole images, of which what is found has a place: only those of one shape share a batch."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.kinds.models.arrays import Index, column_of
from tasks.kinds.models.hf.checkpoint import Checkpoint, torch_dtype
from tasks.kinds.models.hf.image import refuse_thin
from tasks.kinds.models.hf.plain_resize import PlainResize, three
from tasks.kinds.models.model import Function, Placement
from tasks.kinds.models.torch_threads import shared_out
from tasks.kinds.models.vision.pixels import PIXELS, arrays_of, batches_of_one_shape
from tasks.kinds.tensors import tensor_array

SIZE = "__size"
"""Height and width of the image as it was read, which what is found is scaled to."""
FILLED = "__filled"
"""Height and width of what the image fills; what the processor has added to it is masked."""
LATER: dict[str, Any] = {"do_rescale": False, "do_normalize": False}
NEARLY = 1e-4


@dataclass(frozen=True)
class Prepared:
    """What a checkpoint's processor makes of one image."""

    pixels: np.ndarray
    """(3, height, width); of a plain resize (height, width, 3)."""
    filled: tuple[int, int]
    has_mask: bool

    @classmethod
    def by(cls, processor: Any, image: np.ndarray, **changes: Any) -> "Prepared":
        """Have an image of (height, width, 3) prepared, apart from all others.

        Raises:
            ValueError: it would be too large.
        """
        refuse_thin(processor, image)
        image = np.require(image, requirements="W")  # torch complains of others
        made = processor(image, return_tensors="np", input_data_format="channels_last", **changes)
        pixels = np.asarray(made["pixel_values"])[0]
        if "pixel_mask" not in made:
            return cls(pixels, pixels.shape[1:], False)
        mask = np.asarray(made["pixel_mask"])[0]
        return cls(pixels, (int(mask[:, 0].sum()), int(mask[0].sum())), True)


class Preparation:
    """Resizes on the CPU; the rest is done on the model's device, where the two can be parted."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.processor = uncropped(checkpoint.image_processor())
        # Of odd sides: to fill up those that are whole patches there is nothing to add.
        probe = np.random.default_rng(0).integers(0, 256, (47, 61, 3), np.uint8)
        with checkpoint.prepares_images():
            self.whole = Prepared.by(self.processor, probe)
        # Where one class borders on another, a grey level makes one pixel in a hundred the other.
        self.plain = PlainResize.of(self.processor, exactly=True)
        self.sends_bytes = self.plain is not None or self.can_be_parted(probe)

    def can_be_parted(self, probe: np.ndarray) -> bool:
        """Whether resized bytes, rescaled and normalised later, are what the processor makes."""
        import torch

        parted = Prepared.by(self.processor, probe, **LATER)
        if parted.pixels.dtype != np.uint8 or parted.pixels.shape != self.whole.pixels.shape:
            return False
        pixels = torch.from_numpy(np.array(parted.pixels))[None]
        made = self.normalised(pixels, np.array([parted.filled]))[0].numpy()
        return bool(np.abs(made - self.whole.pixels).max() < NEARLY)

    def prepare(self, image: np.ndarray) -> Prepared:
        """An image for the way to the model."""
        if self.plain:
            return Prepared(self.plain.resize(image), (self.plain.height, self.plain.width), False)
        return Prepared.by(self.processor, image, **(LATER if self.sends_bytes else {}))

    def normalised(self, pixels: Any, filled: np.ndarray) -> Any:
        """Bytes as the floats that the model wants, with nothing but zeros around the image."""
        if self.plain:
            return self.plain.normalised(pixels.flatten(1))
        processor, images = self.processor, pixels.float()
        if processor.do_rescale:
            images = images * processor.rescale_factor
        if processor.do_normalize:
            mean, std = (
                images.new_tensor(three(each)).view(1, 3, 1, 1)
                for each in (processor.image_mean, processor.image_std)
            )
            images = (images - mean) / std
        return images * mask_of(filled, images)[:, None]


def uncropped(processor: Any) -> Any:
    """A processor that cuts no borders off.

    What is found would have its place in what is left of an image; transformers' pipelines stretch
    a map of that part over all of it.
    """
    if getattr(processor, "do_center_crop", None):
        processor.do_center_crop = False
    return processor


def mask_of(filled: np.ndarray, images: Any) -> Any:
    """1 where an image is and 0 around it, (n, height, width), where the images are."""
    import torch

    height, width = (
        torch.from_numpy(np.asarray(side)).to(images.device)[:, None] for side in filled.T
    )
    rows = torch.arange(images.shape[2], device=images.device) < height
    columns = torch.arange(images.shape[3], device=images.device) < width
    return (rows[:, :, None] & columns[:, None, :]).long()


def pixels_function(checkpoint: Checkpoint, column: str, num_threads: int) -> Function:
    """Encoded images to `__pixels`, `__filled` and `__size`."""
    preparation = Preparation(checkpoint)

    def preprocess(rows: pa.Table) -> pa.Table:
        made, sizes = list[Prepared](), list[tuple[int, int]]()
        # One by one, as they are much larger than what is made of them.
        for image in arrays_of(column_of(rows, column), column):
            made.append(preparation.prepare(image))
            sizes.append(image.shape[:2])
        rows = rows.append_column(PIXELS, tensor_array([each.pixels for each in made]))
        rows = rows.append_column(FILLED, pairs([each.filled for each in made]))
        return rows.append_column(SIZE, pairs(sizes))

    return shared_out(preprocess, num_threads)


def pairs(values: list[Any]) -> pa.Array:
    """Heights and widths."""
    return pa.array(values, pa.list_(pa.int32(), 2))


class WholeImages:
    """Batches of images on the model's device, with their sizes as they were read."""

    def __init__(self, checkpoint: Checkpoint, placement: Placement, images_per_batch: int) -> None:
        self.preparation = Preparation(checkpoint)
        self.placement, self.dtype = placement, torch_dtype(placement)
        self.images_per_batch = images_per_batch

    def batches(self, rows: pa.Table) -> Iterator[tuple[Index, dict[str, Any]]]:
        """Images of one shape together."""
        filled, sizes = (np.array(rows[name].to_pylist()) for name in (FILLED, SIZE))
        size = self.placement.rows(self.images_per_batch)
        for index, pixels in batches_of_one_shape(rows, size):
            yield index, self.arguments(pixels, filled[index], sizes[index])

    def arguments(
        self, pixels: np.ndarray, filled: np.ndarray, sizes: np.ndarray
    ) -> dict[str, Any]:
        """The model's arguments, and `sizes`."""
        import torch

        batch = torch.from_numpy(np.require(pixels, requirements="W")).to(self.placement.device)
        if self.preparation.sends_bytes:
            batch = self.preparation.normalised(batch, filled)
        arguments = {"pixel_values": batch.to(self.dtype), "sizes": torch.from_numpy(sizes)}
        if self.preparation.whole.has_mask:
            arguments["pixel_mask"] = mask_of(filled, batch)
        return arguments
