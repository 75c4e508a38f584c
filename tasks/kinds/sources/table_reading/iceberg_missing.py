"""Missing lists and maps of objects in Iceberg's files."""

from functools import cache
from typing import Any

import pyarrow as pa


@cache
def keep_missing() -> None:
    """Have pyiceberg read a missing list or map of objects as missing.

    By itself 0.12 makes an empty one of it, where it gives the objects the table's fields.
    """
    from pyiceberg.io import pyarrow as reading

    class KeepsMissing(reading.ArrowProjectionVisitor):
        def list(self, list_type: Any, list_array: Any, value_array: Any) -> Any:
            return as_missing(super().list(list_type, list_array, value_array), list_array)

        def map(self, map_type: Any, map_array: Any, key_result: Any, value_result: Any) -> Any:
            found = super().map(map_type, map_array, key_result, value_result)
            return as_missing(found, map_array)

    reading.ArrowProjectionVisitor = KeepsMissing


def as_missing(found: Any, given: Any) -> Any:
    """Lists or maps as they were found, but for those that were missing in what was given."""
    if found is None or found.null_count == given.null_count:
        return found
    # A mask is for offsets of their own only, not for a part of others.
    offsets = pa.array(found.offsets.to_numpy(), found.offsets.type)
    inner = (found.keys, found.items) if pa.types.is_map(found.type) else (found.values,)
    return type(found).from_arrays(offsets, *inner, type=found.type, mask=given.is_null())
