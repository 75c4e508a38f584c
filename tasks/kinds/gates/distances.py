"""How far two distributions are apart."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

SMALLEST_SHARE = 1e-4
"""The logarithm of an empty bin is infinite."""


def population_stability_index(expected: Sequence[float], seen: Sequence[float]) -> float:
    """Sum over bins of (seen - expected) ln(seen / expected)."""
    first = np.maximum(expected, SMALLEST_SHARE)
    second = np.maximum(seen, SMALLEST_SHARE)
    return float(np.sum((second - first) * np.log(second / first)))


def jensen_shannon_distance(expected: Sequence[float], seen: Sequence[float]) -> float:
    """Root of the mean divergence of both from their middle, to the base 2: from 0 to 1."""
    first, second = np.asarray(expected), np.asarray(seen)
    middle = (first + second) / 2
    divergence = 0.0
    for each in (first, second):
        some = each > 0
        divergence += float(np.sum(each[some] * np.log2(each[some] / middle[some]))) / 2
    return float(np.sqrt(min(1.0, max(0.0, divergence))))


Distance = Callable[[Sequence[float], Sequence[float]], float]
DISTANCES: Mapping[str, Distance] = {
    "psi": population_stability_index,
    "jensen_shannon": jensen_shannon_distance,
}
