"""Columns that no Lance dataset can have."""

import pyarrow as pa

from tasks.errors import SchemaMismatch

LANCES_OWN = frozenset(
    {
        "_rowid",
        "_rowaddr",
        "_rowoffset",
        "_row_created_at_version",
        "_row_last_updated_at_version",
    }
)
WAYS_OUT = (
    "give them other names in a step rename, leave them out with sink.keep_columns, or take "
    "another sink.kind"
)


def refuse_names(schema: pa.Schema) -> None:
    """See that Lance lets columns have these names.

    It looks at them only when a dataset is made or widened: the run is decided by then, and no
    later one could publish into the output any more.

    Raises:
        SchemaMismatch: names the columns, and the ways out.
    """
    own = [name for name in schema.names if name in LANCES_OWN]
    if own:
        raise SchemaMismatch(
            f"a Lance dataset has columns of its own by the names {own}: {WAYS_OUT}"
        )
