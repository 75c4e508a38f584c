"""Types in which the sides of a condition are compared and computed."""

import ast
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

NUMBERS: dict[type, pa.DataType] = {int: pa.int64(), float: pa.float64()}
UNSIGNED_ONLY = range(1 << 63, 1 << 64)
"""Whole numbers for which 64 bits are enough where none is a sign."""
WHOLE = pa.decimal128(20, 0)
"""Has all numbers of 64 bits, with a sign or without."""
FACTOR = pa.decimal256(37, 0)
"""Of two of these Arrow has a product, whose digits are 76 at most."""
RESULT = pa.decimal256(39, 0)
"""Has what is computed of two such numbers, their product too."""
DIGITS = 32
"""Of decimals at most: as many as two may have for Arrow to hold their quotient."""


@dataclass(frozen=True)
class Columns:
    """What is known of a table's columns, and what is found out of a condition."""

    types: Mapping[str, pa.DataType]
    """Their types; of none where nothing is known."""
    named: set[str] = field(default_factory=set)
    """Those that the condition names."""

    @classmethod
    def of(cls, schema: pa.Schema | None) -> "Columns":
        """Of a table; nothing is known of them where there is none."""
        return cls({each.name: each.type for each in schema or ()})


def types_in(node: ast.AST, columns: Columns) -> set[pa.DataType]:
    """Types of columns, literals and quotients in a part of a condition; null where of no matter.

    Whole numbers divided have a fraction, for which what stands beside them must have room.
    """
    match node:
        case ast.Name():
            return {columns.types.get(node.id, pa.null())}
        case ast.Constant():
            return {NUMBERS.get(type(node.value), pa.null())}
    parts = (types_in(each, columns) for each in ast.iter_child_nodes(node))
    kinds = {kind for part in parts for kind in part}
    is_quotient = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
    if is_quotient and all(map(pa.types.is_integer, kinds)):
        kinds.add(pa.float64())
    return kinds


def type_of_sides(op: ast.operator, kinds: set[pa.DataType]) -> pa.DataType:
    """A type for both sides of what is computed, of whole numbers.

    Arrow's result is as narrow as the columns are, so that 300 * 300 of 16 bits would be too much;
    and its division leaves the fraction out.
    """
    if isinstance(op, ast.Div):
        return pa.float64()
    if pa.uint64() in kinds:
        return FACTOR if isinstance(op, ast.Mult) else RESULT
    return pa.int64()


def with_room(side: pc.Expression, node: ast.expr, columns: Columns) -> pc.Expression:
    """A decimal column in a type that has room for results, 76 digits; anything else as it is.

    Databases' decimals have 38, which are all that other types hold.

    Args:
        side: as it is built.
        node: that it is built of.
        columns: of the table.
    """
    kind = columns.types.get(node.id) if isinstance(node, ast.Name) else None
    if kind is None or not pa.types.is_decimal(kind):
        return side
    return side.cast(pa.decimal256(min(kind.precision, DIGITS), kind.scale))


def as_held(value: Any, kind: pa.DataType | None) -> Any:
    """A number with a fraction as a column of 32 bits holds it: else 0.1 would equal none.

    One beyond these stays what it is: it is less than infinity.
    """
    is_narrow = kind == pa.float32() and type(value) is float
    held = pa.scalar(value, kind).as_py() if is_narrow else value
    return value if is_narrow and math.isinf(held) else held


def literals(values: list[Any], kinds: set[pa.DataType]) -> list[Any]:
    """Literals as Arrow is given them, which brings together fewer types of whole numbers.

    Args:
        values: of which none is changed unless all are whole numbers.
        kinds: types of what they are compared or computed with.
    """
    if any(type(value) is not int for value in values):
        return values
    if any(map(pa.types.is_floating, kinds)):
        return [*map(float, values)]
    is_exact = pa.uint64() in kinds or any(map(pa.types.is_decimal, kinds))
    return [*map(Decimal, values)] if is_exact or max(values) in UNSIGNED_ONLY else values
