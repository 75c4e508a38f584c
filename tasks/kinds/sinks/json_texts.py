"""Columns as JSON texts, a column at a time: row by row takes Python ten times as long."""

import json
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tasks.kinds.column_types import is_any_list, is_text
from tasks.kinds.no_number import finite
from tasks.kinds.short_floats import short_floats

ESCAPED = {letter: json.dumps(letter)[1:-1] for letter in ("\\", '"', *map(chr, range(0x20)))}
"""What JSON writes with a backslash, which itself comes first: others bring more of it."""
UNESCAPED = bytes({*range(256)} - {*map(ord, ESCAPED)})
LONGEST_ESCAPED = (2**31 - 1) // 6
"""Bytes of texts that stay within what Arrow counts by, be each of them written as six."""
MICROSECONDS = pa.timestamp("us")
DAYS = tuple(pa.scalar(each).value for each in (date.min, date.max))
TIMES = tuple(pa.scalar(each, MICROSECONDS).value for each in (datetime.min, datetime.max))
"""The first and the last that Python knows."""


def texts(values: pa.Array) -> pa.Array:
    """Each value as the text that `json_text` makes of it; of none, null as JSON has it."""
    try:
        found = known_texts(values)
    except pa.ArrowException:  # as of more than Arrow's texts hold, or of bytes that are no text
        found = None
    if found is None:
        found = pa.array(plain_texts(values), pa.string())
    return pc.fill_null(found, "null") if found.null_count else found


def known_texts(values: pa.Array) -> pa.Array | None:
    """The texts of values whose type Arrow writes as Python does; None of others."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return texts(values.cast(kind.value_type))
    if is_text(kind):
        return quoted(escaped(values.cast(pa.string())))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind):
        return values.cast(pa.string())
    if pa.types.is_floating(kind):
        return float_texts(values.cast(pa.float64()) if pa.types.is_float16(kind) else values)
    if pa.types.is_date(kind):
        return day_texts(values)
    if pa.types.is_timestamp(kind):
        return time_texts(values)
    if is_any_list(kind):
        return list_texts(values)
    if pa.types.is_struct(kind) and kind.num_fields == len({each.name for each in kind}) > 0:
        found = object_texts(values)
        return pc.if_else(values.is_valid(), found, None) if values.null_count else found
    return None


def plain_texts(values: pa.Array) -> list[str | None]:
    """The texts of any values, one by one; None of none."""
    python = short_floats(pa.table({"values": values}))[0].to_pylist()
    return [None if each is None else json_text(each) for each in python]


def object_texts(values: pa.StructArray, end: str = "}") -> pa.Array:
    """Objects with what comes behind their last value; of none too, with nulls in it."""
    pieces: list[Any] = []
    for each, inside in zip(values.type, values.flatten(), strict=True):
        pieces += [f"{', ' if pieces else '{'}{json_text(each.name)}: ", texts(inside)]
    return pc.binary_join_element_wise(*pieces, end, "")


def list_texts(values: pa.Array) -> pa.Array:
    """Lists, of any values."""
    lengths = pc.fill_null(pc.list_value_length(values), 0)
    offsets = np.append(0, np.cumsum(lengths.to_numpy(zero_copy_only=False)))
    inside = texts(pc.list_flatten(values))
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inside, mask=values.is_null())
    return pc.binary_join_element_wise("[", pc.binary_join(lists, ", "), "]", "")


def quoted(found: pa.Array) -> pa.Array:
    """Texts between quotes."""
    return pc.binary_join_element_wise('"', found, '"', "")


def escaped(found: pa.Array) -> pa.Array:
    """Texts as they stand between quotes.

    Raises:
        pyarrow.ArrowException: one is no UTF-8, or they are too long.
    """
    found.validate(full=True)
    data = data_of(found)
    if data.size > LONGEST_ESCAPED:
        raise pa.ArrowCapacityError("too long")
    letters = {*data.to_pybytes().translate(None, UNESCAPED).decode()}
    for letter, written in ESCAPED.items():
        if letter in letters:
            found = pc.replace_substring(found, letter, written)
    return found


def data_of(found: pa.Array) -> pa.Buffer:
    """The bytes of texts, one behind the other."""
    _, ends, data = found.buffers()
    if not len(found) or data is None:
        return pa.py_buffer(b"")
    first, last = np.frombuffer(ends, np.int32)[[found.offset, found.offset + len(found)]].tolist()
    return data.slice(first, last - first)


def float_texts(values: pa.Array) -> pa.Array:
    """Floats by the fewest digits that are theirs alone; single ones as `short_floats` has them.

    Arrow and Python have the same digits, and forms that differ: Python writes an exponent of two
    digits or more, below 0.0001 and from 10^16 on, and .0 behind whole numbers without one.
    """
    size = np.abs(values.to_numpy(zero_copy_only=False))
    is_none = ~np.isfinite(size)
    size[is_none] = np.nan  # equals nothing, and is neither large nor small
    found = values.cast(pa.string())
    has_exponent = pc.match_substring(found, "e").fill_null(False).to_numpy(zero_copy_only=False)
    wants_one = ((size > 0) & (size < 1e-4)) | (size >= 1e16)
    is_whole = ~has_exponent & (size == np.trunc(size))
    found = replaced(found, is_whole, lambda some: pc.binary_join_element_wise(some, ".0", ""))
    has_one_digit = has_exponent & (size >= 1e-9) & (size < 1e-5)
    found = replaced(found, has_one_digit, lambda some: pc.binary_replace_slice(some, -1, -1, "0"))
    found = replaced(found, has_exponent != wants_one, python_texts)
    return replaced(found, is_none, lambda some: pa.nulls(len(some), pa.string()))


def python_texts(numbers: pa.Array) -> pa.Array:
    """Texts of numbers as Python writes them."""
    return pa.array([repr(float(each)) for each in numbers.to_pylist()])


def replaced(
    found: pa.Array, which: npt.NDArray[np.bool_], change: Callable[[pa.Array], pa.Array]
) -> pa.Array:
    """Texts, of which some are what is made of them."""
    if not which.any():
        return found
    if which.all():
        return change(found)
    mask = pa.array(which)
    return pc.replace_with_mask(found, mask, change(found.filter(mask)))


def day_texts(values: pa.Array) -> pa.Array | None:
    """Days as ISO text; None where Python's calendar lacks one."""
    days = values.cast(pa.date32())
    return quoted(days.cast(pa.string())) if is_within(days.view(pa.int32()), *DAYS) else None


def time_texts(values: pa.Array) -> pa.Array | None:
    """Times without a zone, or in UTC, as ISO text; None of others.

    Raises:
        pyarrow.ArrowException: one has nanoseconds, of which pandas has its own text.
    """
    kind = values.type
    times = values.view(pa.timestamp(kind.unit)).cast(MICROSECONDS)
    count = times.view(pa.int64())
    if kind.tz not in (None, "UTC") or not is_within(count, *TIMES):
        return None
    found = pc.binary_replace_slice(times.cast(pa.string()), 10, 11, "T")
    is_whole = pc.fill_null(count, 0).to_numpy() % 1_000_000 == 0
    found = replaced(found, is_whole, lambda some: pc.binary_replace_slice(some, 19, 26, ""))
    return pc.binary_join_element_wise('"', found, "+00:00" if kind.tz else "", '"', "")


def is_within(values: pa.Array, first: int, last: int) -> bool:
    """Whether no number is less than one, or more than another."""
    found = pc.min_max(values)
    if not found["min"].is_valid:
        return True
    return found["min"].as_py() >= first and found["max"].as_py() <= last


def json_text(value: Any) -> str:
    """A value as JSON that every reader takes."""
    try:
        return ENCODER.encode(value)
    except ValueError:
        return ENCODER.encode(finite(value))


def as_text(value: Any) -> Any:
    """What JSON has no form for: times as ISO text, spans in seconds, decimals as written."""
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    return value.total_seconds() if isinstance(value, timedelta) else str(value)


ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=as_text)
