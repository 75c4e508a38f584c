"""Values of CSV that are not written as most of their type are, and what Arrow says to them."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
from pyarrow import compute

from tasks.protocol.ids import Ids

DAY = (
    r"(19|20)\d\d-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)"
    r"|02-(0[1-9]|1\d|2[0-8]))"
)
TIME = r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d"
ZONE = r"(Z|[-+][01]\d(:?[0-5]\d)?)"
DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
"""Of a second's fraction, at most."""
USUAL = {
    pa.int64(): r"-?\d{1,18}",
    pa.uint64(): r"\d{1,19}",
    pa.float64(): r"[-+]?(\d{1,99}\.?\d*|\.\d+)([eE][-+]?\d{1,2})?",
    pa.date32(): DAY,
}
BLANK = " \t"
"""Arrow passes over it around values, but for truth values and timestamps."""
LONGEST = 30
"""Of a text whose number Python tells; of more zeros before it than it reads there may be one."""
ONLY_ARROWS = re.compile(r"-?0x|.*nan", re.IGNORECASE)
"""How numbers begin that Python does not take for any."""
MAY_BE_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-|[0-9]{2}:")
WHOLE = {pa.int64(), pa.uint64()}
NOTHING = r"[^\s\S]"
"""A pattern that no text has."""


def usual(kind: pa.DataType, conversion: pc.ConvertOptions) -> str:
    """A pattern that most values of a type have, and no others; of other types nothing has it."""
    if pa.types.is_boolean(kind):
        return "|".join(map(re.escape, [*conversion.true_values, *conversion.false_values]))
    if pa.types.is_timestamp(kind):
        fraction = rf"(\.\d{{1,{DIGITS[kind.unit]}}})?" if DIGITS[kind.unit] else ""
        return f"{DAY}[ T]{TIME}{fraction}{ZONE}" if kind.tz else f"{DAY}([ T]{TIME}{fraction})?"
    pattern = TIME if pa.types.is_time(kind) else USUAL.get(kind, NOTHING)
    return f"[{BLANK}]*({pattern})[{BLANK}]*"


def unusual(written: pa.ChunkedArray, kind: pa.DataType, conversion: pc.ConvertOptions) -> Ids:
    """The places of values that are written otherwise than most of a type, and mean no null."""
    is_usual = compute.match_substring_regex(written, f"^({usual(kind, conversion)})$")
    is_null = compute.is_in(written, pa.array(conversion.null_values, pa.string()))
    return np.flatnonzero(~compute.or_(is_usual, is_null).fill_null(True).to_numpy())


def refusal(value: str, kind: pa.DataType) -> str | None:
    """What Arrow says to an unusual value of a type, where it surely does not take it."""
    as_it_is = pa.types.is_boolean(kind) or pa.types.is_timestamp(kind)
    shown = value if as_it_is else value.strip(BLANK)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        if len(shown) > LONGEST or ONLY_ARROWS.match(shown):
            return None
        try:
            int(shown) if kind in WHOLE else float(shown)
        except ValueError:
            pass
        else:
            return None
    elif not pa.types.is_boolean(kind) and MAY_BE_TIME.match(shown):
        return None
    return f"CSV conversion error to {kind}: invalid value '{shown}'"
