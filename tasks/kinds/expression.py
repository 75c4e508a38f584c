"""A small, safe language for conditions: Python's syntax, Arrow's compute expressions."""

import ast
import operator
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import pyarrow.compute as pc

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


def parse(text: str) -> tuple[pc.Expression, set[str]]:
    """Read a condition.

    Returns:
        The expression over a table's rows, and the columns it names.

    Raises:
        ValueError: it uses something else than columns, literals, dates and timestamps,
            comparisons, arithmetic, and, or, not, in, is None.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise ValueError(f"does not parse: {error.msg} at character {error.offset}") from error
    except MemoryError as error:  # what Python's parser says of it
        raise ValueError("is nested too deeply") from error
    names: set[str] = set()
    try:
        found = build(tree.body, names)
    except (RecursionError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"cannot be computed: {error}") from error
    if not isinstance(found, pc.Expression) or not names:
        raise ValueError("must name at least one column")
    return found, names


def build(node: ast.expr, names: set[str]) -> Any:
    """One node as an expression, or as a plain value where it is a literal."""
    match node:
        case ast.Name():
            names.add(node.id)
            return pc.field(node.id)
        case ast.Constant():
            return pc.scalar(node.value)
        case ast.Call(func=ast.Name(id=name)) if name in TIMES:
            return pc.scalar(time_of(node))
        case ast.BoolOp():
            return build_bool(node, names)
        case ast.UnaryOp(op=ast.Not()):
            return ~build(node.operand, names)
        case ast.UnaryOp(op=ast.USub()):
            return pc.scalar(0) - build(node.operand, names)
        case ast.BinOp() if type(node.op) in ARITHMETIC:
            return ARITHMETIC[type(node.op)](build(node.left, names), build(node.right, names))
        case ast.Compare():
            return build_comparison(node, names)
    raise ValueError(f"{ast.unparse(node)!r} is not allowed here")


def build_bool(node: ast.BoolOp, names: set[str]) -> Any:
    """`and` and `or`."""
    values = [build(each, names) for each in node.values]
    joined = values[0]
    for value in values[1:]:
        joined = joined & value if isinstance(node.op, ast.And) else joined | value
    return joined


def build_comparison(node: ast.Compare, names: set[str]) -> Any:
    """Comparisons, also chained ones such as 0 < x < 10."""
    left = build(node.left, names)
    joined: Any = None
    for op, right_node in zip(node.ops, node.comparators, strict=True):
        if isinstance(op, (ast.Is, ast.IsNot)):
            if not is_none(right_node):
                raise ValueError(f"{ast.unparse(node)!r}: only None stands after is")
            one = left.is_null() if isinstance(op, ast.Is) else left.is_valid()
            right = None
        elif isinstance(op, (ast.In, ast.NotIn)):
            if not isinstance(right_node, (ast.Tuple, ast.List)) or not right_node.elts:
                raise ValueError(f"{ast.unparse(node)!r}: a list of values stands after in")
            right = [literal(each) for each in right_node.elts]
            one = left.isin(right) if isinstance(op, ast.In) else ~left.isin(right)
        elif is_none(right_node) or is_none(node.left):
            raise ValueError(f"{ast.unparse(node)!r} is never true: write is None or is not None")
        else:
            right = build(right_node, names)
            one = COMPARISONS[type(op)](left, right)
        joined = one if joined is None else joined & one
        left = right
    return joined


def time_of(node: ast.Call) -> date:
    """A date or timestamp.

    Raises:
        ValueError: it is written in another way than ISO's.
    """
    match node:
        case ast.Call(func=ast.Name(id=name), args=[ast.Constant(value=str(text))], keywords=[]):
            return TIMES[name](text)
    raise ValueError(f"{ast.unparse(node)!r} is not written as in date('2026-01-31')")


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
    raise ValueError(f"{ast.unparse(node)!r} is no plain value")
