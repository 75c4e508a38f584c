"""Numbers that no double holds: Arrow takes many of them for infinity, which nobody has written."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TOO_LARGE = "a number is too large for a double"
OVERLONG = r"^\s*[+-]?0*[1-9]\d{309,}\s*$"
"""Digits, and more than any double has before its point."""
LONG = r"^\s*[+-]?\d{19,}\s*$"
"""Digits, and more than any 64-bit integer is sure to hold."""
WRAPPED = r"0[xX][89a-fA-F][0-9a-fA-F]{15}"
"""Digits of which Arrow makes a negative number, though none is written: 64 bits, one the sign."""
BROKEN = r"\.|\d[eE]|[iI][nN][fF]"
"""What only doubles are written with."""
DIGITS_LOOKED_AT = 400


def any_infinity(rows: pa.Table) -> bool:
    """Whether some number in rows is infinite, also within lists and objects."""
    doubles = [at for at, kind in enumerate(rows.schema.types) if pa.types.is_floating(kind)]
    # All at once: with hundreds of columns, a call for each takes longer than to read them.
    for some in rows.select(doubles).to_batches() if doubles else ():
        if np.isinf(some.to_tensor(null_to_nan=True).to_numpy()).any():
            return True
    return any(has_infinity(each) for each in rows.columns if pa.types.is_nested(each.type))


def has_infinity(column: pa.ChunkedArray) -> bool:
    """Whether some number in a column, or within its lists and objects, is infinite."""
    if pa.types.is_floating(column.type):
        return bool(pc.any(pc.is_inf(column)).as_py())
    if pa.types.is_list(column.type):
        return has_infinity(pc.list_flatten(column))
    if pa.types.is_struct(column.type):
        return any(map(has_infinity, column.flatten()))
    return False


def refuse_unwritten_infinity(numbers: pa.Table, written: pa.Table) -> None:
    """See that no number is infinite but those that are written so.

    Args:
        numbers: as Arrow has read them.
        written: the same as texts, of the columns to look at.

    Raises:
        ValueError: one is.
    """
    for name in written.column_names:
        is_meant = pc.match_substring(written[name], "inf", ignore_case=True)
        if pc.any(pc.and_(pc.is_inf(numbers[name]), pc.invert(is_meant))).as_py():
            raise ValueError(f"column {name!r}: {TOO_LARGE}")


def has_wrapped(written: pa.ChunkedArray) -> bool:
    """Whether some text would become a negative number that is not written."""
    return bool(pc.any(pc.match_substring_regex(written, rf"^\s*{WRAPPED}\s*$")).as_py())


def refuse_wrapped(written: pa.Table) -> None:
    """See that no whole number has another sign than is written.

    Raises:
        ValueError: one has.
    """
    for name in written.column_names:
        if has_wrapped(written[name]):
            problem = "needs more than 63 bits; set its type in source.types to uint64 or string"
            raise ValueError(f"column {name!r}: a number {problem}")


def is_too_large(value: Any) -> bool:
    """Whether some number in a JSON value, as Python reads it without constants, is too large."""
    if isinstance(value, dict):
        return any(map(is_too_large, value.values()))
    if isinstance(value, list):
        return any(map(is_too_large, value))
    try:
        return isinstance(value, int | float) and math.isinf(value)
    except OverflowError:  # a whole number
        return True


def whole_number(digits: str) -> int:
    """A whole number, or the beginning of one so long that Python would refuse to read it."""
    return int(digits[:DIGITS_LOOKED_AT])


def without_overlong(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts with another one in the place of each overlong number, which so has no say in the type.

    A column of nothing else becomes one of text, which holds them as they are.
    """
    overlong = pc.match_substring_regex(column, OVERLONG)
    others = column.filter(pc.invert(overlong))
    return pc.if_else(overlong, others[0] if len(others) else pa.scalar("text"), column)


def would_be_rounded(field: pa.Field, values: pa.ChunkedArray, nulls: Sequence[str]) -> bool:
    """Whether doubles would be made of whole numbers, such as ids, that only text holds.

    Args:
        field: what Arrow makes of the values.
        values: as they are written.
        nulls: texts among them that mean null; some look like doubles, such as a point.
    """
    if not pa.types.is_floating(field.type):
        return False
    values = values.filter(pc.invert(pc.is_in(values, pa.array(nulls, pa.string()))))
    is_long, is_broken = (
        pc.any(pc.match_substring_regex(values, pattern)).as_py() for pattern in (LONG, BROKEN)
    )
    return bool(is_long and not is_broken)
