"""Cosines against plain NumPy, in whatever pieces the vectors come."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.searching.scoring import Best, Matrix, Rows, Vector, cosines, score, unit


def brute_force(vectors: Matrix, query: Vector, count: int) -> tuple[Rows, Vector]:
    """The best of all in double precision; of equals the first."""
    exact = vectors.astype(np.float64)
    with np.errstate(all="ignore"):
        scores = exact @ query / np.linalg.norm(exact, axis=1)
    order = np.argsort(-scores, kind="stable")
    order = order[np.isfinite(scores[order])][:count]
    return order, scores[order]


def in_pieces(vectors: Matrix, query: Vector, count: int, size: int) -> tuple[Best, int]:
    best, without = Best(count), 0
    for start in range(0, len(vectors), size):
        piece = vectors[start : start + size]
        without += score(piece, np.arange(start, start + len(piece)), query, best)
    return best, without


@given(seed=st.integers(0, 10_000), count=st.integers(1, 40), size=st.integers(1, 300))
def test_the_best_are_those_of_numpy(seed: int, count: int, size: int) -> None:
    random = np.random.default_rng(seed)
    width = int(random.integers(2, 70))
    vectors = random.standard_normal((int(random.integers(1, 300)), width)).astype(np.float32)
    query = unit(random.standard_normal(width))
    best, without = in_pieces(vectors, query, count, size)
    rows, scores = brute_force(vectors, query, count)
    np.testing.assert_array_equal(best.rows, rows)
    np.testing.assert_allclose(best.scores, scores, atol=1e-14)
    assert without == 0


@given(seed=st.integers(0, 10_000), size=st.integers(1, 120))
def test_of_equals_the_first_are_found(seed: int, size: int) -> None:
    random = np.random.default_rng(seed)
    few = random.standard_normal((4, 33)).astype(np.float32)
    copies = random.integers(0, 4, 100)
    query = unit(few[0] + 0.1 * random.standard_normal(33))
    best, _ = in_pieces(few[copies], query, 50, size)
    ranks = np.argsort(np.argsort(-cosines(few, query)))[copies]
    np.testing.assert_array_equal(best.rows, np.argsort(ranks, kind="stable")[:50])
    assert len(set(best.scores.tolist())) <= 4


def test_vectors_that_point_nowhere_are_left_out_and_counted() -> None:
    vectors = np.ones((6, 3), np.float32)
    vectors[1], vectors[2, 1], vectors[4, 0] = 0, np.nan, np.inf
    best, without = in_pieces(vectors, unit([1, 1, 1]), 10, 4)
    assert best.rows.tolist() == [0, 3, 5]
    assert without == 3
    assert best.scores.tolist() == pytest.approx([1.0, 1.0, 1.0])


@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1e-15, 1e15, 1e30])
def test_vectors_too_long_or_too_short_for_single_precision(scale: float) -> None:
    random = np.random.default_rng(0)
    vectors = random.standard_normal((200, 8)).astype(np.float32)
    vectors[::2] *= np.float32(scale)
    query = unit(vectors[6])
    best, without = in_pieces(vectors, query, 20, 64)
    rows, scores = brute_force(vectors, query, 20)
    np.testing.assert_array_equal(best.rows, rows)
    np.testing.assert_allclose(best.scores, scores, atol=1e-12)
    assert (without, best.rows[0]) == (0, 6)


def test_what_single_precision_cannot_tell_apart_is_told_apart() -> None:
    base = np.random.default_rng(0).standard_normal(384)
    near = np.array([base + step * 1e-9 * np.arange(384) for step in range(50, 0, -1)])
    best, _ = in_pieces(near, unit(base), 5, 16)
    assert best.rows.tolist() == [49, 48, 47, 46, 45]


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([0.0, 0.0], "all zeros"),
        ([1.0, float("nan")], "that are not numbers"),
        ([], "is not a list of numbers"),
        ([[1.0, 2.0], [3.0, 4.0]], "is not a list of numbers"),
    ],
)
def test_a_query_must_point_somewhere(values: list[float], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        unit(values)


def test_a_query_of_any_length_is_of_length_one() -> None:
    assert np.linalg.norm(unit([3e300, 4e300])) == pytest.approx(1)
    assert unit([3e-300, 4e-300]).tolist() == pytest.approx([0.6, 0.8])
