"""Conditions as pyiceberg takes them."""

import ast
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from tasks.kinds.condition_tree import tree_of
from tasks.kinds.condition_types import as_held
from tasks.kinds.expression import time_of

NAMES = {
    ast.Eq: "EqualTo",
    ast.NotEq: "NotEqualTo",
    ast.Lt: "LessThan",
    ast.LtE: "LessThanOrEqual",
    ast.Gt: "GreaterThan",
    ast.GtE: "GreaterThanOrEqual",
    ast.In: "In",
    ast.NotIn: "NotIn",
}


Types = Mapping[str, pa.DataType]


def iceberg_filter(text: str, schema: pa.Schema | None = None) -> Any:
    """A condition, of those that `tasks.kinds.expression` reads, as pyiceberg's expression.

    Args:
        text: as in Python.
        schema: of the table; without it, the condition serves to be looked at only.

    Raises:
        ValueError: it computes something, or does not compare a column with values.
    """
    return converted(tree_of(text), {each.name: each.type for each in schema or ()})


def converted(node: ast.expr, types: Types) -> Any:
    """One node."""
    from pyiceberg import expressions

    match node:
        case ast.BoolOp():
            parts = [converted(each, types) for each in node.values]
            joined = expressions.And if isinstance(node.op, ast.And) else expressions.Or
            return joined(*parts)
        case ast.UnaryOp(op=ast.Not()):
            found = compared(node.operand, types)
            return of_values(found, expressions.Not(found))
    found = compared(node, types)
    return of_values(found, found)


def of_values(comparison: Any, condition: Any) -> Any:
    """A condition that is not true of an empty value, unless its comparison asks for these.

    To pyiceberg each `!=` is true, and each `not`, where a file has no such column; and an empty
    value is in no list.
    """
    from pyiceberg.expressions import And, NotNull, UnaryPredicate

    if isinstance(comparison, UnaryPredicate):
        return condition
    return And(condition, NotNull(comparison.term))


def compared(node: ast.expr, types: Types) -> Any:
    """One comparison.

    Raises:
        ValueError: it is none, or not of a column with values.
    """
    from pyiceberg import expressions

    match node:
        case ast.Compare(ops=[op], left=ast.Name(id=name), comparators=[right]):
            if isinstance(op, ast.Is):
                return expressions.IsNull(name)
            if isinstance(op, ast.IsNot):
                return expressions.NotNull(name)
            value, kind = value_of(right), types.get(name)
            is_list = isinstance(value, (tuple, list))
            held = [as_held(each, kind) for each in value] if is_list else as_held(value, kind)
            return getattr(expressions, NAMES[type(op)])(name, held)
        case ast.Compare(ops=[op], left=left, comparators=[ast.Name() as right]):
            return compared(ast.Compare(right, [mirrored(op)], [left]), types)
    problem = "Iceberg only compares columns with values and cannot compute"
    raise ValueError(f"{ast.unparse(node)!r}: {problem}")


def mirrored(op: ast.cmpop) -> ast.cmpop:
    """The comparison with its sides exchanged."""
    pairs = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
    return pairs.get(type(op), type(op))()


def value_of(node: ast.expr) -> Any:
    """A value, or several; a date or timestamp.

    Raises:
        ValueError: it is neither.
    """
    if isinstance(node, ast.Call):
        return time_of(node)
    try:
        return ast.literal_eval(node)
    except ValueError as error:
        raise ValueError(f"{ast.unparse(node)!r} is not a plain value") from error
