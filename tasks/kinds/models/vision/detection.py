"""Objects in images as output columns: boxes, labels and scores, the best first."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from tasks.kinds.models.arrays import NO_NUMBERS, Columns, Index, with_columns
from tasks.kinds.models.model import Function, Placement
from tasks.kinds.models.onednn import keep_few_primitives
from tasks.kinds.models.torch_batches import Call, CallOf, side_by_side

THRESHOLD = 0.5
"""That of transformers' pipelines."""

Arguments = dict[str, Any]
Batches = Callable[[pa.Table], Iterator[tuple[Index, Arguments]]]
"""Cuts rows into positions and what a model is called with."""
Found = dict[str, Any]
"""Of one image, in any order, tensors on any device: `boxes` (n, 4) of x0, y0, x1, y1 in pixels,
`labels` (n,) of whole numbers, `scores` (n,)."""


@dataclass(frozen=True)
class Objects:
    """What is kept of one image, best first."""

    boxes: np.ndarray
    labels: list[str]
    scores: np.ndarray


@dataclass(frozen=True)
class Choice:
    """Which objects are kept."""

    names: Mapping[int, str]
    """Of the labels."""
    threshold: float
    """Objects with a score above it."""
    most: int | None
    """In one image; None: all."""

    @classmethod
    def by(cls, names: Sequence[str], threshold: float | None, most: int | None) -> "Choice":
        """What a user's options choose; where these are empty, the usual."""
        return cls(dict(enumerate(names)), THRESHOLD if threshold is None else threshold, most)

    def of(self, found: Found) -> Objects:
        """Those of one image."""
        scores = found["scores"].float().cpu()
        best = scores.argsort(descending=True, stable=True)
        best = best[scores[best] > self.threshold][: self.most]
        labels = found["labels"].cpu()[best].tolist()
        return Objects(
            boxes=found["boxes"].float().cpu()[best].numpy(),
            labels=[self.names.get(label, str(label)) for label in labels],
            scores=scores[best].numpy(),
        )


def whole_numbers_of_pixels(placement: Placement) -> Placement:
    """The same place; unless told otherwise, with numbers that tell one pixel from the next.

    bfloat16, the usual choice on GPUs, has steps of 8 pixels at 1,500.
    """
    return replace(placement, dtype="float32") if placement.dtype == "auto" else placement


def refuse_no_numbers(outputs: Any) -> None:
    """See that a model's outputs are numbers: of others nothing would be found.

    Args:
        outputs: tensors, however they are put together.

    Raises:
        ValueError: one is not of numbers.
    """
    from torch.utils._pytree import tree_leaves

    if not all(each.isfinite().all() for each in tree_leaves(outputs)):
        raise ValueError(NO_NUMBERS)


def detect_with(
    batches: Batches, model: Any, call_of: CallOf, choice: Choice, placement: Placement
) -> Function:
    """A predictor that makes columns of what a model finds.

    Args:
        batches: cuts rows.
        model: the detector.
        call_of: gives a `Found` for each image of a batch.
        choice: of what is found; masks that go with it take too much memory to be kept till later.
        placement: where it runs.
    """

    def chosen_by(model: Any) -> Call:
        call = call_of(model)
        return lambda arguments: [choice.of(found) for found in call(arguments)]

    if placement.device == "cpu":
        keep_few_primitives()
    run = side_by_side(model, chosen_by, placement)

    def predict(rows: pa.Table) -> pa.Table:
        objects: list[Any] = [None] * len(rows)
        for index, found in run(batches(rows)):
            for at, each in zip(index, found, strict=True):
                objects[at] = each
        return with_columns(rows, detection_columns(objects))

    return predict


def detection_columns(objects: list[Objects]) -> Columns:
    """`boxes`: lists of [x0, y0, x1, y1]; `labels`; `scores`: a list of each in every row."""
    starts = pa.array(accumulate((len(each.labels) for each in objects), initial=0), pa.int32())
    boxes = np.concatenate([np.empty((0, 4)), *(each.boxes for each in objects)])
    scores = np.concatenate([np.empty(0), *(each.scores for each in objects)])
    corners = pa.array(np.arange(len(boxes) + 1) * 4, pa.int32())
    flat = pa.ListArray.from_arrays(corners, pa.array(boxes.ravel(), pa.float32()))
    labels = pa.array([label for each in objects for label in each.labels], pa.string())
    return {
        "boxes": pa.ListArray.from_arrays(starts, flat),
        "labels": pa.ListArray.from_arrays(starts, labels),
        "scores": pa.ListArray.from_arrays(starts, pa.array(scores, pa.float32())),
    }
