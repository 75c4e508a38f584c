"""Python's own parser, which threads take in turn."""

import ast
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import TypeVar

T = TypeVar("T")
PARSING = Lock()
"""CPython 3.11 counts for all threads together how deep it is, and raises a SystemError, "AST
constructor recursion depth mismatch", where two parse at once, as runs of one process do."""
TRIES = 20
"""A library's thread, as one that reads a literal, takes no turn."""


def parsed(source: str | bytes, name: str = "<unknown>") -> ast.Module:
    """A module's tree.

    Raises:
        SyntaxError: it is none of Python's.
        ValueError: it holds what no source does.
    """
    return in_turn(partial(ast.parse, source, name))


def parsed_expression(source: str) -> ast.expr:
    """An expression's tree.

    Raises:
        SyntaxError: it is none of Python's.
        MemoryError, RecursionError: it is nested too deeply.
    """
    return in_turn(partial(ast.parse, source, mode="eval")).body


def in_turn(parse: Callable[[], T]) -> T:
    """Parse while no other thread of ours does, and once more where one of a library's did."""
    with PARSING:
        for _ in range(TRIES - 1):
            try:
                return parse()
            except SystemError:
                continue
        return parse()
