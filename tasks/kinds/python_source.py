"""Python's own parser, which threads take in turn."""

import ast
from threading import Lock

PARSING = Lock()
"""CPython 3.11 counts for all threads together how deep it is, and raises a SystemError, "AST
constructor recursion depth mismatch", where two parse at once, as runs of one process do."""


def parsed(source: str | bytes, name: str = "<unknown>") -> ast.Module:
    """A module's tree.

    Raises:
        SyntaxError: it is none of Python's.
        ValueError: it holds what no source does.
    """
    with PARSING:
        return ast.parse(source, name)


def parsed_expression(source: str) -> ast.expr:
    """An expression's tree.

    Raises:
        SyntaxError: it is none of Python's.
        MemoryError, RecursionError: it is nested too deeply.
    """
    with PARSING:
        return ast.parse(source, mode="eval").body
