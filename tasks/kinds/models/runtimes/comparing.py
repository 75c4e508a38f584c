"""Whether a compiled model says what the model itself says."""

from collections.abc import Sequence
from typing import Any

TOLERANCE = 1e-4
"""Largest difference that is let through, as a share of an output's largest value. What float32
leaves open when sums are added up in another order is near 1e-6; another precision is above 1e-3.
"""
TOLERANCES = {"float32": TOLERANCE, "bfloat16": 5e-2, "float16": 6e-3}
"""By precision. Of halves it is six of their roundings: eager rounds after every operator, what is
compiled after several. A ViT's embeddings differ by three."""


def can_be_compared(expected: Sequence[Any]) -> bool:
    """Whether each output holds a number: of NaN and infinities alone nothing can be told.

    Args:
        expected: tensors.
    """
    return all(
        not each.is_floating_point() or not each.numel() or bool(each.isfinite().any())
        for each in expected
    )


def largest_difference(expected: Sequence[Any], found: Sequence[Any]) -> float:
    """How far outputs are from those expected, at the worst place of the worst output.

    Args:
        expected: tensors.
        found: as many, of the same shapes.

    Returns:
        A share of the output's largest absolute value; infinite where whole numbers differ, NaN
        is in other places, or shapes are others.
    """
    pairs = zip(expected, found, strict=True)
    return max((difference(*pair) for pair in pairs), default=0.0)


def difference(expected: Any, found: Any) -> float:
    """That of one output."""
    import torch

    if expected.shape != found.shape:
        return float("inf")
    if not expected.is_floating_point():
        return 0.0 if torch.equal(expected, found.to(expected.dtype)) else float("inf")
    finite = expected.isfinite()
    odd, odd_found = expected[~finite].nan_to_num(), found[~finite].nan_to_num()
    if not torch.equal(finite, found.isfinite()) or not torch.equal(odd, odd_found):
        return float("inf")
    here, there = expected[finite].double(), found[finite].double()
    if not len(here):
        return 0.0
    size = here.abs().max().item()
    return float((here - there).abs().max().item() / (size or 1.0))
