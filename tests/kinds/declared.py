"""What a model says that it adds to a row, beside what it adds."""

import pyarrow as pa

from tasks.kinds.columns import visible
from tasks.kinds.models import Model


def as_declared(model: Model, given: pa.Table, made: pa.Table) -> pa.Table:
    """What a model has made of rows, once it is seen that it said so."""
    declared = model.output_columns
    if declared is not None:
        assert tuple(visible(made)) == (*visible(given), *declared)
    return made
