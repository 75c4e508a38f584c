"""How often the prediction is the label, counted without holding rows."""

from collections import Counter
from dataclasses import dataclass, field

import pyarrow as pa

from tasks.kinds.gates.gate import Chart
from tasks.kinds.gates.values import first_values, is_number

LABEL, PREDICTION = "label", "predicted_label"
MAX_PAIRS = 100_000
"""Kinds of pairs that are told apart: who compares free texts need not run out of memory."""

SHOWN_CLASSES = 12
OTHER, NO_PREDICTION = "other", "(none)"

Pair = tuple[str, str | None]
"""A label and a prediction; None where there is no prediction."""


@dataclass
class Comparison:
    """How often each label met each prediction; rows without a label are left out."""

    label: str = LABEL
    prediction: str = PREDICTION
    right: int = 0
    total: int = 0
    pairs: Counter[Pair] = field(default_factory=Counter)
    left_out: int = 0
    """Rows that are in `total` but not in `pairs`, which were too many."""

    @property
    def accuracy(self) -> float:
        """Share of rows whose prediction is the label; where none has a label there is none."""
        return self.right / self.total

    def add(self, rows: pa.Table) -> None:
        """Count a table's rows."""
        for (label, guess), count in count_pairs(rows[self.label], rows[self.prediction]).items():
            self.total += count
            self.right += count * (label == guess)
            if len(self.pairs) < MAX_PAIRS or (label, guess) in self.pairs:
                self.pairs[label, guess] += count
            else:
                self.left_out += count


def count_pairs(labels: pa.ChunkedArray, guesses: pa.ChunkedArray) -> Counter[Pair]:
    """Labels and predictions side by side, as text: 7 is taken for "7"."""
    first = {"label": first_values(labels), "guess": first_values(guesses)}
    both = pa.table(comparable(first["label"], first["guess"]), names=["label", "guess"])
    grouped = both.group_by(["label", "guess"], use_threads=False).aggregate([([], "count_all")])
    pairs: Counter[Pair] = Counter()
    for row in grouped.to_pylist():
        label = text_of(row["label"])
        if label is not None:
            pairs[label, text_of(row["guess"])] += row["count_all"]
    return pairs


def comparable(one: pa.Array, other: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Two columns as they compare: of numbers of two types all as fractions, 1 and 1.00 as 1.0."""
    one, other = beside(one, other), beside(other, one)
    kinds = one.type, other.type
    are_numbers = all(map(is_number, kinds)) and not all(map(pa.types.is_integer, kinds))
    if are_numbers and one.type != other.type:
        return one.cast(pa.float64(), safe=False), other.cast(pa.float64(), safe=False)
    return one, other


def beside(one: pa.Array, other: pa.Array) -> pa.Array:
    """Truth values as 0 and 1 where the other column has numbers."""
    is_truth = pa.types.is_boolean(one.type) and is_number(other.type)
    return one.cast(pa.int8()) if is_truth else one


def text_of(value: object) -> str | None:
    """A value as text; None where it is missing, as NaN is, which does not equal itself."""
    return None if value is None or value != value else str(value)


def chart_classes(compared: Comparison) -> Chart:
    """How often each class is the label, and how often it is predicted; the most frequent ones."""
    labels: Counter[str] = Counter()
    guesses: Counter[str] = Counter()
    for (label, guess), count in compared.pairs.items():
        labels[label] += count
        guesses[NO_PREDICTION if guess is None else guess] += count
    names = [name for name, _ in (labels + guesses).most_common(SHOWN_CLASSES)]
    total = compared.total
    expected = [labels[name] / total for name in names]
    seen = [guesses[name] / total for name in names]
    if len(labels + guesses) > len(names) or compared.left_out:
        names.append(OTHER)
        expected.append(1 - sum(expected))
        seen.append(1 - sum(seen))
    return Chart(names, expected, seen, compared.label, compared.prediction)
