"""Accuracy and F1, against scikit-learn."""

import warnings
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.kinds.gates import comparison
from tests.kinds.gates.measuring import gate_of, judge

CLASSES = st.sampled_from(["cat", "dog", "bird", "7"])
PAIRS = st.lists(st.tuples(CLASSES, CLASSES), min_size=1, max_size=60)


def table_of(pairs: list[tuple[Any, Any]]) -> pa.Table:
    labels, guesses = zip(*pairs, strict=True)
    return pa.table({"label": list(labels), "predicted_label": list(guesses)})


@settings(max_examples=30)
@given(pairs=PAIRS, cut=st.integers(1, 20))
def test_accuracy_is_scikit_learns(pairs: list[tuple[str, str]], cut: int) -> None:
    from sklearn.metrics import accuracy_score

    expected = accuracy_score(*zip(*pairs, strict=True))
    found = judge(gate_of(kind="accuracy", minimum=expected), table_of(pairs), cut)
    assert found.value == pytest.approx(expected, abs=1e-6)
    assert found.passed
    assert not judge(gate_of(kind="accuracy", minimum=1), table_of([*pairs, ("cat", "dog")])).passed


@settings(max_examples=30)
@given(pairs=PAIRS, cut=st.integers(1, 20))
@pytest.mark.parametrize("average", ["macro", "micro", "weighted"])
def test_f1_is_scikit_learns(average: str, pairs: list[tuple[str, str]], cut: int) -> None:
    from sklearn.metrics import f1_score

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of classes that are never predicted
        expected = f1_score(*zip(*pairs, strict=True), average=average)
    found = judge(gate_of(kind="f1", minimum=0.5, average=average), table_of(pairs), cut)
    assert found.value == pytest.approx(expected, abs=1e-6)
    assert found.passed == (round(expected, 9) >= 0.5)  # each rounds in an order of its own


def test_a_score_as_high_as_the_lowest_allowed_passes() -> None:
    """Of 0.7, 0.8 and 0.9 the mean, rounded at each step, is 0.7999999999999999."""
    rights = {"a": 7, "b": 8, "c": 9}
    pairs: list[tuple[str, str | None]]
    pairs = [(name, name) for name, right in rights.items() for _ in range(right)]
    pairs += [(name, None) for name, right in rights.items() for _ in range(20 - 2 * right)]
    rows = table_of(pairs)
    assert judge(gate_of(kind="f1", minimum=0.8), rows).passed
    assert not judge(gate_of(kind="f1", minimum=0.8 + 1e-9), rows).passed


@pytest.mark.parametrize(
    ("labels", "guesses"),
    [
        ([7, 8, 9, None], ["7", "8", "1", "1"]),
        (["a", "b", "c", None], [["a", "x"], ["b"], [], ["d"]]),
        (
            ["a", "b", "c", None],
            pa.array([["a", "x"], ["b", "x"], None, None], pa.list_(pa.string(), 2)),
        ),
        ([1.0, 2.0, 3.0, float("nan")], [1.0, 2.0, None, 4.0]),
        (pa.array(["a", "b", "c", None]).dictionary_encode(), ["a", "b", None, "c"]),
        ([True, False, True, None], [True, False, False, True]),
        ([0, 1, 2, None], [0.0, 1.0, 1.0, 0.0]),
        ([True, False, True, None], [1.0, 0.0, 0.0, 1.0]),
        ([0, 1, 1, None], [False, True, False, None]),
        ([Decimal("0.00"), Decimal("1.00"), Decimal("7.00"), None], [0, 1, 1, 0]),
        ([Decimal("0.00"), Decimal("1.00"), Decimal("7.00"), None], [0.0, 1.0, 1.0, 0.0]),
        ([True, False, True, None], ["true", "FALSE", "yes", "true"]),
        (["true", "false", "none", None], [True, False, False, True]),
        ([0.0, 1.0, 2.0, None], [-0.0, 1.0, -0.0, 0.0]),
        (["0", "1.50", "seven", None], [-0.0, 1.5, 7.0, 0.0]),
        ([0.1, 0.2, 0.4, None], pa.array([0.1, 0.2, 0.3, 0.1], pa.float32())),
        (["0.1", "0.2", "x", None], pa.array([0.1, 0.2, 0.3, 0.1], pa.float32())),
        (
            pa.array([0.1, 0.2, 0.3, None], pa.float32()),
            [Decimal("0.1"), Decimal("0.2"), None, None],
        ),
        ([7.0, 8.0, None, 9.0], ["7", "8.0", "9", ""]),
        (["7", "8", "9", None], [Decimal("7.00"), Decimal("8.00"), Decimal("9.01"), None]),
    ],
    ids=[
        *("numbers and text", "top k", "fixed top k", "NaN", "dictionary", "booleans"),
        *("whole numbers and fractions", "truth and fractions", "whole numbers and truth"),
        *("decimals and whole numbers", "decimals and fractions"),
        *("truth and text", "text and truth"),
        *("zeros with a sign", "text and fractions"),
        *("doubles and single floats", "text and single floats", "single floats and decimals"),
        *("fractions and text", "text and decimals"),
    ],
)
def test_two_of_three_rows_with_a_label_are_right(labels: Any, guesses: Any) -> None:
    rows = pa.table({"label": labels, "predicted_label": guesses})
    found = judge(gate_of(kind="accuracy", minimum=0.7), rows, cut=2)
    assert found.value == pytest.approx(2 / 3, abs=1e-6)
    assert not found.passed
    assert found.note == "3 rows with a label"


def test_no_prediction_is_wrong_but_no_class() -> None:
    rows = table_of([("a", "a"), ("b", "b"), ("b", None)])
    # a: 1; b: precision 1, recall 1/2.
    assert judge(gate_of(kind="f1", minimum=0), rows).value == pytest.approx((1 + 2 / 3) / 2, 1e-5)


@pytest.mark.parametrize("kind", ["accuracy", "f1"])
def test_rows_without_labels_do_not_pass(kind: str) -> None:
    rows = pa.table({"label": pa.nulls(3, pa.string()), "predicted_label": ["a", "b", "c"]})
    found = judge(gate_of(kind=kind, minimum=0), rows)
    assert (found.value, found.passed, found.note) == (None, False, "no row has a label")


def test_free_texts_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "MAX_PAIRS", 10)
    rows = table_of([(str(number), str(number)) for number in range(50)])
    meter = gate_of(kind="accuracy", minimum=1).meter(rows.schema, None)  # type: ignore[arg-type]
    meter.add(rows)
    assert len(meter.compared.pairs) == 10  # type: ignore[attr-defined]
    assert meter.judge().value == 1
    found = judge(gate_of(kind="f1", minimum=0), rows)
    assert not found.passed
    assert "these are not classes" in found.note


def test_the_chart_shows_labels_beside_predictions() -> None:
    chart = judge(gate_of(kind="accuracy", minimum=0), table_of([("a", "b"), ("b", "b")])).chart
    assert chart
    assert (chart.bins, chart.expected, chart.seen) == (["b", "a"], [0.5, 0.5], [1.0, 0.0])
