"""A small, safe language for conditions: Python's syntax, Arrow's compute expressions."""

import ast
import operator
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tasks.kinds.condition_tree import BACKTICKS, tree_of
from tasks.kinds.condition_types import (
    FACTOR,
    RESULT,
    WHOLE,
    Columns,
    as_held,
    literals,
    type_of_sides,
    types_in,
    with_room,
)

COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
TIMES: dict[str, Callable[[str], date]] = {
    "date": date.fromisoformat,
    "timestamp": datetime.fromisoformat,
}
"""What is written as in date('2026-01-31'); a timestamp with an offset is one in UTC."""
UTC_NAMES = ("UTC", "Etc/UTC", "Z", "+00:00")


def parse(text: str, schema: pa.Schema | None = None) -> tuple[pc.Expression, set[str]]:
    """Read a condition.

    Args:
        text: as in Python.
        schema: of the rows that it is for; without it, the condition serves to be looked at only,
            as Arrow divides whole numbers in a way of its own.

    Returns:
        The expression over a table's rows, and the columns it names.

    Raises:
        ValueError: it uses something else than columns, literals, dates and timestamps,
            comparisons, arithmetic, and, or, not, in, is None.
    """
    found, named = build_over(tree_of(text), schema)
    if not isinstance(found, pc.Expression) or not named:
        raise ValueError(f"must use at least one column; {BACKTICKS}")
    return found, named


def computes(text: str) -> bool:
    """Whether a condition calculates before it compares.

    Raises:
        ValueError: it is no expression of Python's.
    """
    operators = (ast.BinOp, ast.USub)
    return any(isinstance(each, operators) for each in ast.walk(tree_of(text)))


def denies(text: str) -> bool:
    """Whether a condition is true where some comparison in it is not, as with `!=`.

    Raises:
        ValueError: it is no expression of Python's.
    """
    operators = (ast.Not, ast.NotEq, ast.NotIn)
    return any(isinstance(each, operators) for each in ast.walk(tree_of(text)))


def build_over(node: ast.expr, schema: pa.Schema | None) -> tuple[Any, set[str]]:
    """A part of a condition, and the columns that it names.

    Raises:
        ValueError: as `parse`.
    """
    columns = Columns.of(schema)
    try:
        return build(node, columns), columns.named
    except (RecursionError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"cannot be computed: {error}") from error


def build(node: ast.expr, columns: Columns) -> Any:
    """One node as an expression, or as a plain value where it is a literal."""
    match node:
        case ast.Name():
            columns.named.add(node.id)
            return pc.field(node.id)
        case ast.Constant():
            return pc.scalar(node.value)
        case ast.Call(func=ast.Name(id=name)) if name in TIMES:
            return pc.scalar(time_of(node))
        case ast.BoolOp():
            return build_bool(node, columns)
        case ast.UnaryOp(op=ast.Not()):
            return ~build(node.operand, columns)
        case ast.UnaryOp(op=ast.USub()):
            return build_arithmetic(ast.BinOp(ast.Constant(0), ast.Sub(), node.operand), columns)
        case ast.BinOp() if type(node.op) in ARITHMETIC:
            return build_arithmetic(node, columns)
        case ast.Compare():
            return build_comparison(node, columns)
    raise ValueError(f"{ast.unparse(node)!r} is not allowed here")


def build_arithmetic(node: ast.BinOp, columns: Columns) -> Any:
    """`+`, `-`, `*` and `/`, of types that have room for what comes of them."""
    kinds = types_in(node.left, columns) | types_in(node.right, columns)
    left, right = (
        with_room(build_side(each, columns, kinds), each, columns)
        for each in (node.left, node.right)
    )
    if not all(map(pa.types.is_integer, kinds)):
        return ARITHMETIC[type(node.op)](left, right)
    roomy = type_of_sides(node.op, kinds)
    is_safe = not pa.types.is_floating(roomy)
    made = ARITHMETIC[type(node.op)](*(each.cast(roomy, safe=is_safe) for each in (left, right)))
    return made.cast(RESULT) if roomy == FACTOR else made  # which says twice as many digits


def build_side(node: ast.expr, columns: Columns, kinds: set[pa.DataType]) -> Any:
    """One of two sides, in a type that Arrow can bring together with the other's.

    By itself it takes the smallest type that holds a literal for the column beside it as well: for
    0.5 a float of 32 bits, and refuses 20,000,001.

    Args:
        node: the side.
        columns: of the table.
        kinds: types of what both sides name.
    """
    if isinstance(node, ast.Constant):
        return pc.scalar(literals([node.value], kinds)[0])
    built = build(node, columns)
    is_whole = all(map(pa.types.is_integer, types_in(node, columns)))
    has_fraction = any(map(pa.types.is_floating, kinds))
    return built.cast(pa.float64(), safe=False) if is_whole and has_fraction else built


def build_bool(node: ast.BoolOp, columns: Columns) -> Any:
    """`and` and `or`."""
    values = [build(each, columns) for each in node.values]
    joined = values[0]
    for value in values[1:]:
        joined = joined & value if isinstance(node.op, ast.And) else joined | value
    return joined


def build_comparison(node: ast.Compare, columns: Columns) -> Any:
    """A comparison of two sides."""
    [op], [right] = node.ops, node.comparators
    if isinstance(op, (ast.Is, ast.IsNot)):
        if not is_none(right):
            raise ValueError(f"{ast.unparse(node)!r}: after is, only None is allowed")
        left = build(node.left, columns)
        return left.is_null() if isinstance(op, ast.Is) else left.is_valid()
    if isinstance(op, (ast.In, ast.NotIn)):
        return build_membership(node, columns)
    if is_none(right) or is_none(node.left):
        raise ValueError(f"{ast.unparse(node)!r} is never true: write is None or is not None")
    kinds = types_in(node, columns)
    refuse_day_elsewhere([node.left, right], kinds)
    pairs = ((node.left, right), (right, node.left))
    sides = [build_side(beside(*pair, columns), columns, kinds) for pair in pairs]
    if pa.uint64() in kinds and all(map(pa.types.is_integer, kinds)):
        sides = [*map(in_all_numbers, sides, (node.left, right), (right, node.left))]
    return COMPARISONS[type(op)](*sides)


def in_all_numbers(side: pc.Expression, node: ast.expr, other: ast.expr) -> pc.Expression:
    """A column in a type that has unsigned numbers and those below zero, beside what is computed.

    Beside a literal it stays what it is: `literals` makes decimals of these.
    """
    is_beside_literal = isinstance(other, ast.Constant)
    return side.cast(WHOLE) if isinstance(node, ast.Name) and not is_beside_literal else side


def beside(node: ast.expr, other: ast.expr, columns: Columns) -> ast.expr:
    """A side as it is, or a literal as the column that it is compared with holds it."""
    if isinstance(other, ast.Name) and is_number(node):
        return ast.Constant(as_held(ast.literal_eval(node), columns.types.get(other.id)))
    return node


def is_number(node: ast.expr) -> bool:
    """Whether a node is a number with a fraction, perhaps below zero."""
    match node:
        case ast.Constant(value=float()) | ast.UnaryOp(ast.USub(), ast.Constant(value=float())):
            return True
    return False


def refuse_day_elsewhere(sides: list[ast.expr], kinds: set[pa.DataType]) -> None:
    """Refuse a date beside times of a timezone: Arrow would take it for the day in UTC.

    Raises:
        ValueError: says what to write.
    """
    zones = {kind.tz for kind in kinds if pa.types.is_timestamp(kind)} - {None, *UTC_NAMES}
    for side in sides:
        match side:
            case ast.Call(func=ast.Name(id="date")) if zones:
                day, zone = time_of(side).isoformat(), min(zones)
                raise ValueError(
                    f"{ast.unparse(side)!r} would be that day in UTC, but the column's times are "
                    f"in {zone}: write timestamp('{day}T00:00+00:00') with that zone's offset"
                )


def build_membership(node: ast.Compare, columns: Columns) -> Any:
    """`in` and `not in`."""
    [op], [right] = node.ops, node.comparators
    if not isinstance(right, (ast.Tuple, ast.List)) or not right.elts:
        raise ValueError(f"{ast.unparse(node)!r}: in must be followed by a list of values")
    kinds = types_in(node, columns)
    left = build_side(node.left, columns, kinds)
    kind = columns.types.get(node.left.id) if isinstance(node.left, ast.Name) else None
    if pa.uint64() in kinds and pa.float64() not in kinds:
        left = left.cast(WHOLE if isinstance(node.left, ast.Name) else RESULT)
    values = literals([as_held(literal(each), kind) for each in right.elts], kinds)
    if 0.0 in values and any(map(pa.types.is_floating, kinds)):
        values = [*values, -0.0]  # to Arrow not in a list with 0.0, which it equals
    found = left.isin(values)
    # Arrow finds an empty value in no list; `!=`, too, is not true of one.
    return found if isinstance(op, ast.In) else ~found & left.is_valid()


def time_of(node: ast.Call) -> date:
    """A date or timestamp.

    Raises:
        ValueError: it is written in another way than ISO's.
    """
    match node:
        case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(text))], keywords=[]):
            return TIMES[name](text)
    raise ValueError(f"{ast.unparse(node)!r} must be written like date('2026-01-31')")


def is_none(node: ast.expr) -> bool:
    """Whether a node is None."""
    return isinstance(node, ast.Constant) and node.value is None


def literal(node: ast.expr) -> Any:
    """A plain value in a list."""
    try:
        value = ast.literal_eval(node)
    except ValueError:
        value = ()
    if isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(f"{ast.unparse(node)!r} is not a plain value")
