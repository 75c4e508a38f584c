"""How often the prediction is the label, where rows have both."""

import io
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.reporting.evidence import Evidence
from tasks.reporting.redaction import cell, table

LABEL, PREDICTED = "label", "predicted_label"
SHOWN_CLASSES = 12
OTHER = "other"


@dataclass(frozen=True)
class Comparison:
    """How often each label met each prediction."""

    pairs: Counter[tuple[str, str]]

    @property
    def accuracy(self) -> float:
        """Share of rows whose prediction is the label."""
        right = sum(count for (label, guess), count in self.pairs.items() if label == guess)
        return right / self.pairs.total()


def compare_labels(evidence: Evidence) -> Comparison | None:
    """Compare all of the run's published rows, one file at a time; None without both columns."""
    planned = evidence.planned
    if not {LABEL, PREDICTED} <= set(output_columns(evidence)):
        return None
    pairs: Counter[tuple[str, str]] = Counter()
    for file in evidence.published():
        data = planned.storage.read(file.target(planned.output))
        if file.path.endswith(".parquet"):
            rows = pq.read_table(io.BytesIO(data), columns=[LABEL, PREDICTED], partitioning=None)
        else:
            rows = planned.spec.sink.decode(data)
        pairs.update(label_pairs(rows))
    return Comparison(pairs) if pairs else None


def output_columns(evidence: Evidence) -> list[str]:
    """Columns of the published files; those that became folders are not in them."""
    names = evidence.schema.names if evidence.schema else []
    return [name for name in names if name not in evidence.planned.spec.sink.partition_by]


def label_pairs(rows: pa.Table) -> Counter[tuple[str, str]]:
    """Labels and predictions side by side; rows without a label are left out."""
    columns = rows[LABEL].to_pylist(), rows[PREDICTED].to_pylist()
    pairs = zip(*columns, strict=True)
    return Counter((str(label), best(guess)) for label, guess in pairs if label is not None)


def best(guess: Any) -> str:
    """The first of a list of predictions, which is in the order of their scores."""
    if isinstance(guess, list):
        guess = guess[0] if guess else None
    return str(guess)


def confusion_table(found: Comparison) -> str:
    """Labels down, predictions across; the most frequent ones."""
    counts: Counter[str] = Counter()
    for (label, guess), count in found.pairs.items():
        counts[label] += count
        counts[guess] += 0
    names = sorted(name for name, _ in counts.most_common(SHOWN_CLASSES))
    header = [*names, OTHER] if len(counts) > SHOWN_CLASSES else names
    cells: Counter[tuple[str, str]] = Counter()
    for (label, guess), count in found.pairs.items():
        cells[label if label in names else OTHER, guess if guess in names else OTHER] += count
    lines = [
        [f"<b>{cell(row)}</b>", *(f"{cells[row, column]:,}" for column in header)] for row in header
    ]
    return table(["label \\ predicted", *header], lines)
