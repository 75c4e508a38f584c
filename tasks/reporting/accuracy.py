"""How often the prediction is the label, where rows have both."""

from tasks.errors import InvalidSpec
from tasks.kinds.gates.comparison import LABEL, PREDICTION, Comparison
from tasks.kinds.gates.values import refuse_nested
from tasks.publishing.output_rows import OutputFile, OutputReader
from tasks.reporting.evidence import Evidence


def compare_labels(evidence: Evidence) -> Comparison | None:
    """Compare all of the run's published rows, one file at a time.

    None without both columns, or where others have changed or removed a file.
    """
    planned, schema = evidence.planned, evidence.schema
    names = [LABEL, PREDICTION]
    if schema is None or not set(names) <= set(schema.names):
        return None
    if any(refuse_nested(schema.field(name).type) for name in names):
        return None
    files = [
        OutputFile(file.target(planned.output), file.rows, file.path.rpartition("/")[0], file.size)
        for file in evidence.published()
    ]
    compared = Comparison()
    try:
        for rows in OutputReader(planned.storage, planned.spec.sink, schema, names).stream(files):
            compared.add(rows)
    except (FileNotFoundError, InvalidSpec) as error:
        evidence.go_without("the accuracy", error)
        return None
    return compared if compared.total else None
