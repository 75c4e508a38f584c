"""Cosines of many vectors with one, and the best of them, exactly.

Single precision says which vectors can be among the best; these alone are scored in double
precision, one by one, so that equal vectors get equal scores wherever they lie.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.floating]
Rows = npt.NDArray[np.int64]
UNIT_ROUNDOFF = 2.0**-24
SURE_SQUARES = (1e-25, 1e35)
"""Squared lengths between which single precision neither vanishes nor overflows."""
ROWS_SCORED_AT_ONCE = 4_096


@dataclass
class Best:
    """The best rows so far; of equal ones the first."""

    count: int
    """How many are wanted."""
    scores: Vector = field(default_factory=lambda: np.empty(0))
    rows: Rows = field(default_factory=lambda: np.empty(0, np.int64))

    @property
    def bound(self) -> float:
        """A score below this is not among the best."""
        return float(self.scores[-1]) if len(self.scores) == self.count else -np.inf

    def add(self, scores: Vector, rows: Rows) -> None:
        """Take what is better than what is there; what is no number is no score."""
        is_score = np.isfinite(scores)
        all_scores = np.concatenate([self.scores, scores[is_score]])
        all_rows = np.concatenate([self.rows, rows[is_score]])
        order = np.lexsort((all_rows, -all_scores))[: self.count]
        self.scores, self.rows = all_scores[order], all_rows[order]


def unit(vector: npt.ArrayLike) -> Vector:
    """A vector as double precision of length 1.

    Raises:
        ValueError: it has no direction, or holds what is no number.
    """
    values = np.asarray(vector, np.float64)
    if values.ndim != 1 or not len(values):
        raise ValueError("is not a list of numbers")
    if not np.isfinite(values).all():
        raise ValueError("has values that are not numbers")
    largest = np.abs(values).max()
    if largest == 0:
        raise ValueError("is all zeros, which has no direction")
    values = values / largest  # else squares of large values overflow
    return np.asarray(values / np.sqrt((values * values).sum()))


def score(vectors: Matrix, rows: Rows, query: Vector, best: Best) -> int:
    """Add the best of some vectors to the best so far.

    Args:
        vectors: (n, d), of any float type.
        rows: (n,), the number of each one's row.
        query: (d,), of length 1.
        best: what is best so far.

    Returns:
        How many of them have no direction: zeros, or values that are no numbers.
    """
    rough, doubtful = rough_cosines(vectors, query)
    slack = 2 * (len(query) + 8) * UNIT_ROUNDOFF
    bound = max(best.bound, kth_largest(rough[~doubtful], best.count) - slack)
    candidates = np.flatnonzero(doubtful | (rough >= bound - slack))
    without_direction = 0
    for start in range(0, len(candidates), ROWS_SCORED_AT_ONCE):
        some = candidates[start : start + ROWS_SCORED_AT_ONCE]
        scores = cosines(vectors[some], query)
        without_direction += int(np.isnan(scores).sum())
        best.add(scores, rows[some])
    return without_direction


def rough_cosines(
    vectors: Matrix, query: Vector
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Cosines in single precision, and of which vectors it cannot be trusted."""
    with np.errstate(all="ignore"):
        vectors = vectors.astype(np.float32, copy=False)
        squares = np.einsum("ij,ij->i", vectors, vectors)
        least, most = SURE_SQUARES
        doubtful = ~((squares > least) & (squares < most))
        rough = (vectors @ query.astype(np.float32)) / np.sqrt(squares)
    return rough, doubtful


def kth_largest(scores: npt.NDArray[np.float32], k: int) -> float:
    """The k-th largest score; minus infinity where there are not so many."""
    if len(scores) < k:
        return -np.inf
    return float(np.partition(scores, len(scores) - k)[len(scores) - k])


def cosines(vectors: Matrix, query: Vector) -> Vector:
    """Cosines in double precision; NaN for vectors without direction.

    A sum over each row by itself: what a matrix product gives for a row depends on where it lies.
    """
    vectors = vectors.astype(np.float64)
    with np.errstate(all="ignore"):
        vectors /= np.abs(vectors).max(axis=1, keepdims=True)
        lengths = np.sqrt((vectors * vectors).sum(axis=1))
        found = (vectors * query).sum(axis=1) / lengths
    return np.asarray(np.clip(found, -1.0, 1.0))
