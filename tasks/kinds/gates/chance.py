"""How far two samples of one distribution are apart by chance alone."""

from collections.abc import Sequence

import numpy as np

from tasks.kinds.gates.distances import Distance

SELDOM = 0.001
"""A night in a thousand: a gate is to wake nobody for less."""
DRAWS = 4_000


def by_chance(
    distance: Distance,
    expected: Sequence[float],
    seen: Sequence[float],
    rows: tuple[int, int],
) -> float:
    """The distance that two samples of the same distribution exceed once in a thousand times.

    Drawn, and not reckoned by a formula: bins that few rows fall into follow none.

    Args:
        distance: of two lists of shares.
        expected: shares of the one sample, bin by bin.
        seen: of the other.
        rows: how many rows each has.
    """
    both = np.average([expected, seen], axis=0, weights=rows).clip(0)
    random = np.random.default_rng(0)  # the same rows are judged alike whenever that is done
    samples = [random.multinomial(count, both / both.sum(), DRAWS) / count for count in rows]
    found = [distance(*pair) for pair in zip(*samples, strict=True)]
    return float(np.quantile(found, 1 - SELDOM))
