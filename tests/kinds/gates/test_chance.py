"""What chance makes of few rows, and that drift is still seen through it."""

import numpy as np
import pyarrow as pa
import pytest

from tasks.kinds.gates.chance import SELDOM, by_chance
from tasks.kinds.gates.distances import DISTANCES, population_stability_index
from tests.kinds.gates.measuring import gate_of, judge
from tests.kinds.gates.test_drift import last_run

EVEN = [0.1] * 10
MOST = 0.15


@pytest.mark.parametrize("metric", ["psi", "jensen_shannon"])
@pytest.mark.parametrize("rows", [(30, 30), (100, 100), (1_000, 60)])
def test_samples_of_one_distribution_seldom_exceed_it(metric: str, rows: tuple[int, int]) -> None:
    random, nights = np.random.default_rng(7), 3_000
    pairs = zip(*(random.multinomial(count, EVEN, nights) / count for count in rows), strict=True)
    distances = [DISTANCES[metric](*pair) for pair in pairs]
    limit = by_chance(DISTANCES[metric], EVEN, EVEN, rows)
    beyond = np.mean([each > limit for each in distances])
    assert beyond < 4 * SELDOM
    assert np.mean([each > limit / 2 for each in distances]) > 10 * SELDOM, "it is no loose bound"


def test_of_many_rows_it_is_little() -> None:
    """For PSI it is near a chi square of nine degrees, which 27.9 exceeds so seldom."""
    for rows in (1_000, 10_000):
        found = by_chance(population_stability_index, EVEN, EVEN, (rows, rows))
        assert found == pytest.approx(27.9 * 2 / rows, rel=0.15)


@pytest.mark.parametrize("metric", ["psi", "jensen_shannon"])
def test_small_nights_of_one_distribution_pass_and_others_fail(metric: str) -> None:
    gate = gate_of(kind="drift", column="x", metric=metric, maximum=MOST)
    random = np.random.default_rng(3)

    def night(rows: int, classes: int = 10) -> pa.Table:
        return pa.table({"x": [f"class {n}" for n in random.integers(0, classes, rows)]})

    first = judge(gate, night(100)).distribution
    assert first
    nights = [judge(gate, night(100), last=last_run(first)) for _ in range(60)]
    beyond = [each for each in nights if (each.value or 0) > MOST]
    assert len(beyond) > 5, "chance alone goes beyond the maximum"
    assert all(each.passed for each in nights)
    assert all("; with so few rows, 0." in (each.note or "") for each in beyond)
    for other in (night(100, classes=3), night(20, classes=1)):
        assert not judge(gate, other, last=last_run(first)).passed


def test_of_many_rows_the_maximum_decides() -> None:
    gate = gate_of(kind="drift", column="x", maximum=0.2)
    before = pa.table({"x": ["a"] * 5_000 + ["b"] * 5_000})
    first = judge(gate, before).distribution
    assert first
    for share, passes in ((0.70, True), (0.73, False)):
        count = int(10_000 * share)
        now = pa.table({"x": ["a"] * count + ["b"] * (10_000 - count)})
        found = judge(gate, now, last=last_run(first))
        assert (found.passed, found.note) == (passes, "against version 1, 10,000 rows")
