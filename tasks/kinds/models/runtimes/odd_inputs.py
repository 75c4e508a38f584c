"""Inputs of which OpenVINO makes something else than PyTorch: no first batch may hold any.

The largest of NaN and 0 is 0 to it, and it counts in 32 bits: what is beyond them, also on the way
to an output, becomes another number.
"""

from collections.abc import Mapping
from typing import Any

from tasks.kinds.models.runtimes.runtime_used import Runtime

RECKON_OTHERWISE: tuple[Runtime, ...] = ("openvino",)
LEFT_OUT = "only for batches with NaN or infinity, which it turns into numbers"
MOST_COMPARISONS = 32
"""Of batches with larger whole numbers than any before: if they grow on and on, eager is quicker
than both."""
GROWS_ON = (
    f"counts in 32 bits: whole numbers grew {MOST_COMPARISONS} times, to be compared each time"
)


def are_finite(batch: Mapping[str, Any]) -> bool:
    """Whether a batch's numbers are finite, and not so large that their sum is not."""
    floats = (each for each in batch.values() if each.is_floating_point())
    # Of 16 bits the sum of many would be too large.
    wide = (each.float() if each.itemsize < 4 else each for each in floats)
    return all(bool(each.sum().isfinite()) for each in wide)


def largest_whole(batch: Mapping[str, Any]) -> int:
    """The largest whole number of a batch, whatever its sign; 0 where it has none."""
    whole = [each for each in batch.values() if not each.is_floating_point() and each.numel()]
    return max((max(int(each.max()), -int(each.min())) for each in whole), default=0)
