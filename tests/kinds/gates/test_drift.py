"""Drift: distances against formulas of their own, and what is kept from run to run."""

import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.kinds.gates import distribution
from tasks.kinds.gates.distances import jensen_shannon_distance, population_stability_index
from tasks.kinds.gates.distribution import shares
from tasks.kinds.gates.gate import Earlier, Gate, Judgement, LastRun
from tests.kinds.gates.measuring import gate_of, judge

COUNTS = st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), min_size=2, max_size=12)
TIME_ZERO = "1970-01-01 00:00:00"
PSI = gate_of(kind="drift", column="x", maximum=0.2)
JENSEN_SHANNON = gate_of(kind="drift", column="x", metric="jensen_shannon", maximum=0.2)


def two_runs(gate: Gate, first: Any, second: Any) -> tuple[Judgement, Judgement]:
    """A run with nothing to compare with, and one after it; what is kept goes through JSON."""
    before = judge(gate, pa.table({"x": first}), cut=30)
    kept = json.loads(json.dumps(before.distribution))
    return before, judge(gate, pa.table({"x": second}), cut=30, last=last_run(kept))


def last_run(kept: dict[str, Any]) -> LastRun:
    return LastRun({"x": Earlier(kept, "version 1")})


def entropy(values: np.ndarray) -> float:
    return -sum(each * math.log2(each) for each in values.tolist() if each > 0)


@given(counts=COUNTS.filter(lambda pairs: all(map(any, zip(*pairs, strict=True)))))
def test_distances(counts: list[tuple[int, int]]) -> None:
    first, second = (np.array(each, float) / sum(each) for each in zip(*counts, strict=True))
    middle = (first + second) / 2
    divergence = entropy(middle) - (entropy(first) + entropy(second)) / 2
    found = jensen_shannon_distance(first.tolist(), second.tolist())
    assert found**2 == pytest.approx(max(0, divergence), abs=1e-9)
    a, b = first.clip(1e-4), second.clip(1e-4)
    kullback = [sum(p * math.log(p / q) for p, q in zip(*each, strict=True)) for each in
                ((a.tolist(), b.tolist()), (b.tolist(), a.tolist()))]  # fmt: skip
    found = population_stability_index(first.tolist(), second.tolist())
    assert found == pytest.approx(sum(kullback), abs=1e-9)


@pytest.mark.parametrize("gate", [PSI, JENSEN_SHANNON], ids=["psi", "jensen_shannon"])
@pytest.mark.parametrize("classes", [60, 500, 1000])
def test_a_model_that_says_one_of_many_classes_only_has_drifted(gate: Gate, classes: int) -> None:
    before = [f"class {number % classes:04}" for number in range(10 * classes)]
    for label in ("class 0059", "class 0001"):  # not kept, and kept
        _, now = two_runs(gate, before, [label] * 5_000)
        assert not now.passed
        assert now.value is not None
        assert now.value > 0.5
        assert now.chart is not None
        assert label in now.chart.bins
        assert sum(now.chart.expected) == pytest.approx(1)
        assert sum(now.chart.seen) == pytest.approx(1)
    _, alike = two_runs(gate, before, before)
    assert alike.value == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("rows", [200, 2_000, 50_000])
def test_chance_among_many_classes_is_no_drift(rows: int) -> None:
    random = np.random.default_rng(0)
    draws = [[f"{n}" for n in random.integers(0, 1_000, size)] for size in (50_000, rows)]
    _, now = two_runs(PSI, *draws)
    assert now.chart is not None
    assert len(now.chart.bins) == 52, "no other value has a bin of its own"


@pytest.mark.parametrize("gate", [PSI, JENSEN_SHANNON], ids=["psi", "jensen_shannon"])
@pytest.mark.parametrize("of", [lambda n: f"class {n}", float, int, lambda n: [n, 0]])
def test_the_same_rows_have_not_drifted_and_others_have(gate: Gate, of: Any) -> None:
    values = [of(number % 7) for number in range(700)]
    first, same = two_runs(gate, values, values)
    assert (first.value, first.passed, first.note) == (None, True, "nothing to compare with yet")
    assert (same.value, same.passed, same.note) == (0, True, "against version 1, 700 rows")
    _, moved = two_runs(gate, values, [of(number % 3) for number in range(700)])
    assert moved.value
    assert moved.value > 0.2
    assert not moved.passed
    assert moved.chart
    assert len(moved.chart.bins) == len(moved.chart.expected) == len(moved.chart.seen)


def test_deciles_of_the_first_run_are_the_edges_of_the_next() -> None:
    random = np.random.default_rng(1)
    values = random.normal(size=2_000)
    first, second = two_runs(PSI, values, random.normal(size=2_000))
    assert first.distribution
    assert second.distribution
    edges = first.distribution["edges"]
    assert edges == pytest.approx(np.quantile(values, np.linspace(0, 1, 11)).tolist())
    between = [((a < values) & (values <= b)).sum() for a, b in pairwise(edges)]
    assert first.distribution["counts"] == [0, 1, *between, 0]
    assert second.distribution["edges"] == edges
    assert second.passed
    assert shares(second.distribution)[2:-2] == pytest.approx([0.1] * 10, abs=0.04)


def test_what_is_missing_is_drift_too() -> None:
    _, found = two_runs(PSI, [1.0, 2.0] * 50, [1.0, 2.0] * 25 + [None, math.nan] * 25)
    assert not found.passed
    _, found = two_runs(PSI, ["a"] * 100, ["a"] * 50 + [None] * 50)
    assert not found.passed


def test_a_value_that_was_never_seen_is_drift() -> None:
    _, found = two_runs(PSI, ["ok"] * 100, ["ok"] * 60 + ["spam"] * 40)
    assert not found.passed
    assert found.chart
    assert dict(zip(found.chart.bins, found.chart.seen, strict=True))["(other)"] == 0.4
    _, found = two_runs(PSI, [5.0] * 100, [4.0] * 50 + [5.0] * 50)
    assert not found.passed


def test_who_accepts_a_drift_makes_it_the_new_measure() -> None:
    _, moved = two_runs(
        PSI, [float(each) for each in range(100)], [1e6 + each for each in range(100)]
    )
    assert not moved.passed
    assert moved.distribution
    assert moved.distribution["edges"][0] == 1e6


@pytest.mark.parametrize("gate", [PSI, JENSEN_SHANNON], ids=["psi", "jensen_shannon"])
def test_other_numbers_than_infinite_ones_alone_are_drift(gate: Gate) -> None:
    first = [math.inf] * 60 + [-math.inf] * 40
    _, same = two_runs(gate, first, first)
    assert (same.value, same.passed) == (0, True)
    for second in ([0.5] * 100, [math.inf] * 100, [math.nan] * 100):
        assert not two_runs(gate, first, second)[1].passed
    assert same.distribution
    after = judge(gate, pa.table({"x": [0.5] * 100}), last=last_run(same.distribution))
    assert not after.passed


def test_numbers_that_came_after_none_are_compared_with() -> None:
    """And so they are where an earlier release kept nothing of infinite ones."""
    gate = gate_of(kind="drift", column="x", maximum=1)
    _, some = two_runs(gate, [math.nan] * 2_000, [1.0] * 100 + [math.nan] * 1_900)
    assert some.passed
    assert some.distribution
    infinite = {"kind": "numbers", "edges": [], "counts": [0, 100], "missing": 0}
    again = judge(PSI, pa.table({"x": [1.0] * 100}), last=last_run(infinite))
    assert (again.value, again.passed) == (None, True)
    assert again.note == "version 1 stored nothing about its numbers to compare with"
    assert again.distribution
    for kept in (some.distribution, again.distribution):
        now = judge(PSI, pa.table({"x": [9.0] * 100 + [math.nan] * 1_900}), last=last_run(kept))
        assert not now.passed


def test_numbers_are_not_compared_with_text() -> None:
    _, found = two_runs(PSI, [1, 2], ["a", "b"])
    assert (found.value, found.passed) == (None, False)
    assert found.note == "version 1 had numbers here, now there are values"


def test_many_values_are_kept_in_little_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribution, "TRACKED_VALUES", 100)
    monkeypatch.setattr(distribution, "SAMPLE_SIZE", 500)
    texts = [f"{number % 1_000} {'x' * 500}" for number in range(5_000)]
    first, second = two_runs(PSI, texts, texts)
    assert len(json.dumps(first.distribution)) < 10_000
    assert second.value == 0
    values = np.random.default_rng(2).exponential(size=5_000)
    first, second = two_runs(PSI, values, values)
    assert first.distribution
    assert len(first.distribution["edges"]) == 11
    assert second.value
    assert second.value < 0.15  # 500 of 5,000 rows tell deciles roughly
    again, _ = two_runs(PSI, values, values)
    assert again.distribution == first.distribution


def test_times_that_python_does_not_know_are_values_too() -> None:
    """As of the year 33658, where somebody took nanoseconds for microseconds."""
    times = pa.array([10**18, 10**18, 0, None], pa.timestamp("us"))
    first, same = two_runs(PSI, times, times)
    assert first.distribution
    assert first.distribution["values"] == ["1000000000000000000 as timestamp[us]", TIME_ZERO]
    assert (same.value, same.passed) == (0, True)
    rows = pa.table({"label": times, "predicted_label": times})
    assert judge(gate_of(kind="accuracy", minimum=1), rows).passed
