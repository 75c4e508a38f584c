"""Types that a spec gives columns of the output, in place of those of the rows that came first."""

import re
from typing import Annotated

import pyarrow as pa
from pydantic import AfterValidator, Field

from tasks.errors import InvalidSpec

SCALARS = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp_utc": pa.timestamp("us", "UTC"),
}
LIST = re.compile(r"list<(.+)>")
MAX_DEPTH = 8
"""Of lists within lists: more are a slip, and no reader takes them."""


def type_of(text: str) -> pa.DataType:
    """The type that a text names: one of `SCALARS`, or `list<...>` of a type.

    Raises:
        ValueError: it names none.
    """
    name, depth = text.replace(" ", ""), 0
    while depth < MAX_DEPTH and (found := LIST.fullmatch(name)):
        name, depth = found[1], depth + 1
    if name not in SCALARS:
        raise ValueError(f"{text!r} is not one of {', '.join(SCALARS)}, or list<...> of one")
    kind = SCALARS[name]
    for _ in range(depth):
        kind = pa.list_(kind)
    return kind


def _checked(text: str) -> str:
    type_of(text)
    return text


OutputType = Annotated[str, AfterValidator(_checked), Field(examples=["float64", "list<float32>"])]


def with_given(rows: pa.Schema, types: dict[str, OutputType]) -> pa.Schema:
    """Columns of the types that are given.

    Raises:
        InvalidSpec: a type is given to a column that is not there.
    """
    for name in types:
        if name not in rows.names:
            problem = f"is not among the columns of the output: {', '.join(rows.names)}"
            raise InvalidSpec.at(
                "sink.types", name, f"{problem}: correct the name, or leave it out"
            )
    return pa.schema(
        [
            each.with_type(type_of(types[each.name])) if each.name in types else each
            for each in rows
        ],
        rows.metadata,
    )
