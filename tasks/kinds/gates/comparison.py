"""How often the prediction is the label, counted without holding rows."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from tasks.kinds.column_types import is_text
from tasks.kinds.gates.gate import Chart
from tasks.kinds.gates.values import first_values, is_number
from tasks.kinds.short_floats import short_floats
from tasks.python_rows import python_values

LABEL, PREDICTION = "label", "predicted_label"
MAX_PAIRS = 100_000
"""Kinds of pairs that are told apart: who compares free texts need not run out of memory."""

SHOWN_CLASSES = 12
OTHER, NO_PREDICTION = "(other)", "(none)"
"""In brackets, since classes may be called so."""
EXACT = 2.0**53
"""Below it doubles tell all whole numbers apart."""

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
        for label, guess, count in counted_pairs(rows[self.label], rows[self.prediction]):
            if label is None:
                continue
            self.total += count
            self.right += count * (label == guess)
            if len(self.pairs) < MAX_PAIRS or (label, guess) in self.pairs:
                self.pairs[label, guess] += count
            else:
                self.left_out += count


def counted_pairs(
    labels: pa.ChunkedArray, guesses: pa.ChunkedArray
) -> Iterator[tuple[str | None, str | None, int]]:
    """Labels and predictions side by side, as text, and how often: 7 is taken for "7", and 7.0 too.

    What is two values to Arrow, and one as text, may come twice.
    """
    both = comparable(first_values(labels), first_values(guesses))
    as_text = text_beside(both[0].type, both[1].type)
    names = ["label", "guess"]
    grouped = pa.table(both, names=names).group_by(names, use_threads=False)
    found = short_floats(grouped.aggregate([([], "count_all")]))
    texts = (map(as_text, python_values(found[name])) for name in names)
    return zip(*texts, found["count_all"].to_pylist(), strict=True)


def comparable(one: pa.Array, other: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Two columns as they compare: of numbers of two types all as fractions, 1 and 1.00 as 1.0.

    Where one holds single floats, fractions of the other are such too: 0.1 is none of the doubles.
    """
    one, other = beside(one, other), beside(other, one)
    kinds = one.type, other.type
    are_numbers = all(map(is_number, kinds)) and not all(map(pa.types.is_integer, kinds))
    if are_numbers and one.type != other.type:
        are_single = pa.float32() in kinds and not any(map(pa.types.is_integer, kinds))
        wanted = pa.float32() if are_single else pa.float64()
        return one.cast(wanted, safe=False), other.cast(wanted, safe=False)
    return one, other


def beside(one: pa.Array, other: pa.Array) -> pa.Array:
    """Truth values as 0 and 1 where the other column has numbers."""
    is_truth = pa.types.is_boolean(one.type) and is_number(other.type)
    return one.cast(pa.int8()) if is_truth else one


def text_beside(*kinds: pa.DataType) -> Callable[[object], str | None]:
    """How values of two columns become texts that are the same where they say the same."""
    others = [kind for kind in kinds if not is_text(kind)]
    if len(others) != 1 or pa.types.is_integer(others[0]):
        return text_of
    if pa.types.is_boolean(others[0]):
        return truth_text
    return number_text if is_number(others[0]) else text_of


def text_of(value: object) -> str | None:
    """A value as text; None where it is missing, as NaN is, which does not equal itself."""
    if isinstance(value, str):
        return value  # as most are
    if value is None or value != value:
        return None
    return str(value + 0.0 if isinstance(value, float) else value)  # -0.0 is 0.0


def truth_text(value: object) -> str | None:
    """The same of truth values, or texts that are such: one text for True, "true" and "TRUE"."""
    text = text_of(value)
    is_truth = text is not None and text.lower() in ("true", "false")
    return text.capitalize() if text and is_truth else text


def number_text(value: object) -> str | None:
    """The same of numbers, or texts that are such: one text for 7.0, "7" and "7.0"."""
    text = text_of(value)
    try:
        number = float(text or "nan")
    except ValueError:
        return text
    if math.isnan(number):
        return text
    return str(int(number) if number.is_integer() and abs(number) < EXACT else number)


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
