"""Columns that no Lance dataset can have."""

import re

import pyarrow as pa

from tasks.errors import SchemaMismatch
from tasks.kinds.column_types import inner

LANCES_OWN = frozenset(
    {
        "_rowid",
        "_rowaddr",
        "_rowoffset",
        "_row_created_at_version",
        "_row_last_updated_at_version",
    }
)
UNREADABLE = re.compile("^$|[.`\0]")
"""Names with a dot cannot be written; those with a backquote, and an empty one, are written and
found by no reader; and what comes after a NUL is cut off."""
UNSIZED = (
    pa.types.is_struct,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
)
"""Of structs, lists of a fixed size are written, and not read beside other columns; of texts and
bytes Lance panics."""
WAYS_OUT = (
    "rename them in a rename step, leave them out with sink.keep_columns, or use another sink.kind"
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
        raise SchemaMismatch(f"Lance reserves the column names {own}: {WAYS_OUT}")
    bad = [name for name in schema.names if UNREADABLE.search(name)]
    if bad:
        raise SchemaMismatch(
            "a Lance dataset's columns cannot be read if their names are empty or contain a dot, "
            f"a backquote or a NUL: {bad}; {WAYS_OUT}"
        )


def refuse_types(schema: pa.Schema) -> None:
    """See that Lance reads again what it writes of these types.

    Raises:
        SchemaMismatch: names the columns, and the ways out.
    """
    bad = {each.name: str(each.type) for each in schema if any(map(is_unsized, inner(each.type)))}
    if bad:
        raise SchemaMismatch(
            f"a Lance dataset cannot hold fixed-size lists of objects, texts or bytes: {bad}; "
            "make them lists of any length in a step, leave them out with sink.keep_columns, or "
            "use another sink.kind"
        )


def is_unsized(kind: pa.DataType) -> bool:
    """Whether values are lists of a fixed size, of what has none."""
    sized = pa.types.is_fixed_size_list(kind)
    return sized and any(check(kind.value_type) for check in UNSIZED)
