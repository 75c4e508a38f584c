"""How often the prediction is the label, where rows have both."""

from collections import Counter

from tasks.kinds.gates.comparison import (
    LABEL,
    NO_PREDICTION,
    OTHER,
    PREDICTION,
    SHOWN_CLASSES,
    Comparison,
)
from tasks.kinds.gates.values import refuse_nested
from tasks.output_rows import OutputFile, OutputReader
from tasks.reporting.evidence import Evidence
from tasks.reporting.redaction import cell, table


def compare_labels(evidence: Evidence) -> Comparison | None:
    """Compare all of the run's published rows, one file at a time; None without both columns."""
    planned, schema = evidence.planned, evidence.schema
    names = [LABEL, PREDICTION]
    if schema is None or not set(names) <= set(schema.names):
        return None
    if any(refuse_nested(schema.field(name).type) for name in names):
        return None
    files = [
        OutputFile(file.target(planned.output), file.rows, file.path.rpartition("/")[0])
        for file in evidence.published()
    ]
    compared = Comparison()
    for rows in OutputReader(planned.storage, planned.spec.sink, schema, names).stream(files):
        compared.add(rows)
    return compared if compared.total else None


def confusion_table(found: Comparison) -> str:
    """Labels down, predictions across; the most frequent ones."""
    pairs: Counter[tuple[str, str]] = Counter()
    for (label, known_guess), count in found.pairs.items():
        pairs[label, NO_PREDICTION if known_guess is None else known_guess] += count
    counts: Counter[str] = Counter()
    for (label, guess), count in pairs.items():
        counts[label] += count
        counts[guess] += 0
    names = sorted(name for name, _ in counts.most_common(SHOWN_CLASSES))
    header = [*names, OTHER] if len(counts) > SHOWN_CLASSES else names
    cells: Counter[tuple[str, str]] = Counter()
    for (label, guess), count in pairs.items():
        cells[label if label in names else OTHER, guess if guess in names else OTHER] += count
    lines = [
        [f"<b>{cell(row)}</b>", *(f"{cells[row, column]:,}" for column in header)] for row in header
    ]
    return table(["label \\ predicted", *header], lines)
